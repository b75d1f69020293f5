"""Precision, compiled passes, random keys and devices: what models and losses compute with."""
