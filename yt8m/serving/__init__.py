"""Serves a trained model over HTTP."""
