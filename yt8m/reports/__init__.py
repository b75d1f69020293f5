"""The page of an evaluation, the comparison of runs, the list of runs, and metrics of prediction files."""
