"""Trainings on one or several machines, their validation, and commands that make runs from checkpoints or texts."""
