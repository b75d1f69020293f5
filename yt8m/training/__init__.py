"""A training run: its folder, input, workload and validation, several processes, and imports of checkpoints."""
