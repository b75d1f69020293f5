"""Speeds as ratios to what the same machine could do at best: `python -m benchmarks`."""
