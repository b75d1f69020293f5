"""The commands of `yt8m`. The module or package of a command has `main(argv) -> int`, which returns the exit status."""
