"""Trained runs: opens their folders, chooses checkpoints, unpacks archives, searches classes."""
