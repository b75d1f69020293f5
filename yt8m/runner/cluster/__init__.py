"""Training by several processes: a chief and workers, which share variables on parameter servers or use all-reduce."""
