"""Programs beside training, evaluation and inference; each module has `main(argv) -> int`."""
