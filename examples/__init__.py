"""Workloads beside YouTube-8M, on the same engine."""
