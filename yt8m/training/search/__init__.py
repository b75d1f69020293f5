"""The choice of a model for one's own data: candidates are trained on some of the videos and compared on others."""
