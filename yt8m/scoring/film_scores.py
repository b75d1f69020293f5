"""Scores films by a model; see `film_windows`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from yt8m.records.film_windows import FilmWindows, Part, best_scores, find_cuts
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.scorer import Scorer


def score_films(scorer: Scorer, batch: NumpyBatch, scores: NDArray[np.float32], windows: FilmWindows) -> list[int]:
    """Replaces the scores of the films in a batch of frames by those of their best windows.

    Args:
      scores: float32 [B, C], the scores of the batch, which are changed.
    """
    films = [row for row, count in enumerate(batch.num_frames.tolist()) if windows.are_for(count)]
    features = batch.dequantize().features if films else {}
    for row in films:
        count = int(batch.num_frames[row])
        joined = np.concatenate([features[name][row, :count] for name in scorer.takes.format.sizes()], axis=-1)
        scores[row] = score_film(scorer, joined, windows)
    return films


def score_film(scorer: Scorer, frames: NDArray[np.float32], windows: FilmWindows) -> NDArray[np.float32]:
    """The scores of a film by its best windows, float32 [C]; `frames` are its joined features, float32 [T, D]."""
    ends = np.cumsum(list(scorer.takes.format.sizes().values()))[:-1]
    film_windows = windows.parts(len(frames), find_cuts(np.split(frames, ends, axis=1)))
    return best_scores(functools.partial(score_windows, scorer, frames), film_windows)


def score_windows(scorer: Scorer, frames: NDArray[np.float32], windows: Sequence[Part]) -> NDArray[np.float32]:
    """The scores of windows of a video, float32 [windows, C]; `frames` are its joined features, float32 [T, D]."""
    return scorer.scores(scorer.takes.batch_of_frames([frames[first:last] for first, last in windows]))[1]
