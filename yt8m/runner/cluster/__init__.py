"""Training by several processes: a chief and workers that share variables on parameter servers."""
