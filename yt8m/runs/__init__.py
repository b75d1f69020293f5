"""Trained runs as they lie in their folders: opened once, their checkpoints chosen, their classes searched."""
