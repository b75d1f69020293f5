"""Writes prediction_powered.npz: intervals of means by ppi_py (pip install ppi_python==0.2.3) on fixed arrays."""

from __future__ import annotations

import pathlib

import numpy as np
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

draw = np.random.default_rng(0)
LABELLED, OTHERS, CLASSES = 150, 2000, 6
bases = np.array([0.1, 0.3, 0.5, 0.8, 0.2, 0.4])
truth = draw.random((LABELLED + OTHERS, CLASSES)) < bases
quality = np.array([3.0, 1.5, 0.5, 2.0, 0.0, -1.0])  # the last model is worse than chance
scores = 1 / (1 + np.exp(-(quality * (2 * truth - 1) + draw.normal(size=truth.shape) - 0.5)))
scores = scores.astype(np.float32)
labels, predictions, unlabelled = truth[:LABELLED], scores[:LABELLED].astype(float), scores[LABELLED:].astype(float)
intervals, estimates = [], []
for number in range(CLASSES):
    arrays = labels[:, number].astype(float), predictions[:, number], unlabelled[:, number]
    low, high = ppi_mean_ci(*arrays, alpha=0.05)
    intervals.append((low.item(), high.item()))
    estimates.append(np.asarray(ppi_mean_pointestimate(*arrays)).item())
target = pathlib.Path(__file__).with_name("prediction_powered.npz")
np.savez_compressed(target, labels=labels, scores=scores, intervals=np.array(intervals), estimates=np.array(estimates))
