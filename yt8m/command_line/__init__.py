"""What reads command lines: the `yt8m` command, flags, defaults from the data, completion, and how programs end."""
