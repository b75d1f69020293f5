"""Shards, manifests, vocabularies and prediction files, read and written without TensorFlow."""
