"""A trial whose folds are trained by several threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from yt8m.training.search.trials import CandidateTrial
from yt8m.training.search.videos_in_memory import Fold, VideosInMemory, stacked


class StartedTrial:
    """A trial and what its folds gave so far.

    Attributes:
      key: its name in the table of all trials.
      seconds: those of all folds together.
      has_failed: whether a fold was given up, or had scores that are not finite.
    """

    def __init__(self, trial: CandidateTrial, folds: Sequence[Fold]) -> None:
        self.trial, self.folds, self.seconds, self.has_failed = trial, folds, 0.0, False
        suffix = f", {len(folds)} folds" if len(folds) > 1 else ""
        self.key = f"{trial.candidate}, {trial.steps} steps{suffix}"
        self._scores: list[NDArray[np.float32] | None] = [None] * len(folds)
        self._left, self._lock = len(folds), threading.Lock()

    def add(self, fold: int, scores: NDArray[np.float32] | None, seconds: float) -> bool:
        """Adds what training a fold gave, None if nothing; returns whether it was the last one."""
        with self._lock:
            self._scores[fold] = scores
            self.has_failed |= scores is None
            self.seconds += seconds
            self._left -= 1
            return self._left == 0

    def scores(self) -> list[NDArray[np.float32]]:
        """The scores of the videos that each fold held out."""
        return [scores for scores in self._scores if scores is not None]

    def held_out(self) -> VideosInMemory:
        """The videos that all folds held out, in the order of the scores."""
        return stacked([fold.held_out for fold in self.folds])
