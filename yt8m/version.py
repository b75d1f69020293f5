"""The version of the package: the one place that says it, below all other modules; pyproject.toml reads it too."""

__version__ = "0.1.0"
