"""One flags file a model, and the command that runs their small variants: `python -m recipes`."""
