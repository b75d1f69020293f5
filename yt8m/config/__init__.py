"""The configuration of a run: config dataclasses, the flags made from them, and the run's folder."""
