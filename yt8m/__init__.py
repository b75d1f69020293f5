"""Large-scale multi-label video classification on YouTube-8M features and on the user's own videos."""

__version__ = "0.1.0"
