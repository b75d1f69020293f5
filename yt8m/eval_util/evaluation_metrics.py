"""The figures that are plain means over examples.

All figures of an evaluation, fed batch by batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Entries, Floats64, hit_of, positive_int, score_of
from yt8m.eval_util.metrics import (
    class_average_precisions,
    entries_of,
    global_average_precision,
    hit_at_one_of_rows,
    perr_of_columns,
    perr_of_rows,
)
from yt8m.eval_util.top_k import Columns, given_columns, rated_only, take_columns


@dataclass(frozen=True)
class Sums:
    """Sums over examples; adding two gives those of both.

    Attributes:
      examples: how many.
      hits: of which the best class is right.
      perr: sum of PERR.
      loss: sum of losses, over `examples_with_loss` examples.
    """

    examples: int = 0
    hits: int = 0
    perr: float = 0.0
    loss: float = 0.0
    examples_with_loss: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.examples + other.examples,
            self.hits + other.hits,
            self.perr + other.perr,
            self.loss + other.loss,
            self.examples_with_loss + other.examples_with_loss,
        )

    def means(self) -> dict[str, float]:
        """hit_at_one and perr are 0 where there is no example, loss is nan where none came with one."""
        examples = max(self.examples, 1)
        loss = self.loss / self.examples_with_loss if self.examples_with_loss else float("nan")
        return {"hit_at_one": self.hits / examples, "perr": self.perr / examples, "loss": loss}


class EvaluationMetrics:
    """Hit@1, PERR, loss, GAP, and AP of each class, over any number of batches.

    Of each example the top_k best classes are kept (8 bytes each) and nothing else, so AP of a class
    sees only the examples that have it among their top_k; its recall counts all of its positives.

    The result does not depend on the order or the cutting of the batches, nor on how parts are merged
    (but for the rounding of the sums of PERR and loss). Scores are compared as float32. Ties: within an
    example the lowest class index goes first; between examples AP and GAP are the mean over all orders
    of what ties (see `precision`).
    """

    def __init__(self, num_class: int, top_k: int = 20, top_n: int | None = None) -> None:
        """An empty accumulator.

        Args:
          num_class: C.
          top_k: classes kept of each example; clipped to C.
          top_n: only so many of the best entries of each class count for its AP; None for all. GAP
            always takes them all.

        Raises:
          ValueError: a number is not positive.
        """
        positive_int(num_class, "num_class")
        positive_int(top_k, "top_k")
        if top_n is not None:
            positive_int(top_n, "top_n")
        self.num_class, self.top_k, self.top_n = int(num_class), min(int(top_k), int(num_class)), top_n
        self.clear()

    def clear(self) -> None:
        """Forgets all batches."""
        self._sums = Sums()
        self._entries = Entries()
        self._label_counts = np.zeros(self.num_class, np.int64)

    def accumulate(
        self,
        predictions: npt.ArrayLike,
        labels: npt.ArrayLike,
        loss: npt.ArrayLike | None = None,
        label_weights: npt.ArrayLike | None = None,
    ) -> dict[str, float]:
        """Adds a batch.

        Args:
          predictions: float [B, C]; a class at -inf is not ranked at all.
          labels: [B, C], positive where above 0.
          loss: mean loss of the batch, or [B]; None for none.
          label_weights: [B, C]; pairs not above 0 were not rated and are left out of every figure, as
            if the example did not have the class; an example without a rated pair is not counted.

        Returns:
          `hit_at_one`, `perr` and `loss` of this batch (means over its examples; an example without
          labels has 0; loss is nan where it is None), and its `gap`.

        Raises:
          ValueError: shapes differ from [B, num_class], or a score is NaN.
        """
        scores, positives = rated_only(predictions, labels, label_weights)
        if scores.shape[1] != self.num_class:
            raise ValueError(f"predictions must have {self.num_class} classes; they have {scores.shape[1]}")
        columns = take_columns(scores, positives, self.top_k)
        return self._add(columns, perr_of_rows(scores, positives, columns), loss)

    def accumulate_top_k(
        self,
        scores: npt.ArrayLike,
        classes: npt.ArrayLike,
        hits: npt.ArrayLike,
        num_labels: npt.ArrayLike,
        label_counts: npt.ArrayLike,
        perr: npt.ArrayLike | None = None,
        loss: npt.ArrayLike | None = None,
    ) -> dict[str, float]:
        """Adds a batch of which only the best columns are at hand (`tf.math.top_k` orders ties as here).

        Args:
          scores: float [B, k], best first, k at least min(top_k, C); -inf where a row has fewer classes
            to rank (pairs that were not rated).
          classes: int [B, k].
          hits: [B, k], above 0 where the example has the class.
          num_labels: [B], labels of the example over all classes.
          label_counts: [C], labels of each class over the batch.
          perr: float [B], PERR of each example; None to take it from the columns, which is exact and
            allowed only where no example has more labels than there are columns.
          loss: as in `accumulate`.

        Returns:
          As `accumulate`, and equal to it.

        Raises:
          ValueError: shapes disagree, rows are not sorted, a score is NaN, a class is out of range, labels
            do not add up, there are too few columns.
        """
        columns = given_columns(scores, classes, hits, num_labels, label_counts)
        if len(columns.label_counts) != self.num_class or columns.scores.shape[1] < self.top_k:
            raise ValueError(
                f"expected {self.top_k} columns or more and {self.num_class} label_counts; "
                f"found {columns.scores.shape[1]} and {len(columns.label_counts)}"
            )
        precision = perr_of_columns(columns) if perr is None else np.asarray(perr, np.float64)
        if precision.shape != columns.num_labels.shape or np.isnan(precision).any():
            raise ValueError(f"perr must be [{len(columns.num_labels)}] and not NaN; it is {precision.shape}")
        return self._add(columns, precision, loss)

    def _add(self, columns: Columns, perr: Floats64, loss: npt.ArrayLike | None) -> dict[str, float]:
        counted = columns.examples
        batch = Sums(
            examples=int(counted.sum()), hits=int(hit_at_one_of_rows(columns).sum()), perr=float(perr.sum())
        ) + _loss_sums(loss, counted)
        self._sums += batch
        entries = entries_of(columns, self.top_k)
        self._entries.append(entries)
        self._label_counts = self._label_counts + columns.label_counts
        return batch.means() | {"gap": global_average_precision(entries, int(columns.num_labels.sum()))}

    def merge(self, other: EvaluationMetrics) -> None:
        """Adds all batches of `other`, which stays as it is.

        Raises:
          ValueError: num_class, top_k or top_n differ.
        """
        mine, theirs = ((m.num_class, m.top_k, m.top_n) for m in (self, other))
        if mine != theirs:
            raise ValueError(f"cannot merge metrics of (num_class, top_k, top_n) {theirs} into those of {mine}")
        self._sums += other._sums
        self._entries.extend(other._entries)
        self._label_counts = self._label_counts + other._label_counts

    def get(self) -> dict[str, Any]:
        """The figures of all batches.

        Returns:
          avg_hit_at_one, avg_perr, avg_loss: means over examples (those without labels count as 0);
          gap; map, the mean of `aps`;
          aps: float64 [P], AP of each class that has a positive; aps_class: int64 [P], which class;
          aps_positives: int64 [P], how many it has; num_examples.
          Without any positive aps is empty, map nan and the rest 0; without any loss avg_loss is nan.
        """
        entries = self._entries.all()
        means = self._sums.means()
        present = np.flatnonzero(self._label_counts)
        aps = class_average_precisions(entries, self._label_counts, self.top_n)[present]
        return {f"avg_{name}": mean for name, mean in means.items()} | {
            "gap": global_average_precision(entries, int(self._label_counts.sum())),
            "map": float(aps.mean()) if len(aps) else float("nan"),
            "aps": aps,
            "aps_class": present,
            "aps_positives": self._label_counts[present],
            "num_examples": self._sums.examples,
        }

    def threshold_counts(self, num_thresholds: int) -> Floats64:
        """[4, num_thresholds]: true and false positives, true and false negatives of all pairs together.

        Threshold i is i / (num_thresholds - 1). What is predicted are the top_k entries of each example with
        that score or more, as for GAP; the rest of the [examples, classes] pairs are negatives.
        """
        keys = self._entries.all()
        steps = np.floor(score_of(keys) * np.float32(num_thresholds - 1))
        bins = np.clip(steps, 0, num_thresholds - 1).astype(np.int64)
        counts = [np.bincount(bins[hit_of(keys) == hit], minlength=num_thresholds) for hit in (True, False)]
        true, false = (np.cumsum(count[::-1])[::-1].astype(np.float64) for count in counts)
        missed = self._label_counts.sum() - true
        others = self._sums.examples * self.num_class - true - false - missed
        return np.stack([true, false, others, missed])


def _loss_sums(loss: npt.ArrayLike | None, counted: Bools) -> Sums:
    """The loss of the counted examples; a scalar stands for each of them."""
    if loss is None:
        return Sums()
    values = np.broadcast_to(np.asarray(loss, np.float64), counted.shape)[counted]
    return Sums(loss=float(values.sum()), examples_with_loss=len(values))
