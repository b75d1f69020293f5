"""This project side by side with PyTorch: the same networks, data and batches, in turn within one run."""
