"""Answers HTTP requests by a trained model."""
