"""JSON of any shape, and what programs for annotation export: rows of ids, labels and times."""
