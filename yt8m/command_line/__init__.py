"""Command lines: the `yt8m` command, flags and their defaults, shell completion, the log and the exit status."""
