"""Prediction files joined into one: weighted mean or rank mean, the weights given or fitted."""

from __future__ import annotations

from yt8m.tools.ensemble.command import EnsembleConfig, run

__all__ = ["EnsembleConfig", "run"]
