"""The configuration of a run: the config dataclasses, the flags derived from them, and the run's folder."""
