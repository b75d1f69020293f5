"""All metrics of an evaluation, fed batch by batch, and the threshold of each class that gives the best F1.

F1 = 2 * true positives / (predictions + labels), the harmonic mean of precision and recall: C. J. van Rijsbergen,
Information Retrieval (1979), chapter 7. As for AP, only the ranked entries (the top_k best classes of each example) are
predictions, and all labels count for the recall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util import arrays, metrics
from yt8m.eval_util.arrays import Bools, Entries, Floats64, Ints64, Keys
from yt8m.eval_util.metrics import Metric, RankedEntries, ScoredBatch
from yt8m.eval_util.segments import Pairs, columns_of_pairs
from yt8m.eval_util.top_k import Columns, check_columns, perr_of_columns, perr_of_rows, rated_only, take_columns
from yt8m.records.thresholds import OperatingPoints

DEFAULT_THRESHOLD = 0.5  # the threshold of every class if none of the kept predictions is correct
# A threshold that all scores of a list reach lies below the lowest of them, by this share of that score.
_RELATIVE_MARGIN = 1e-3


class EvaluationMetrics:
    """Hit@1, PERR, loss, GAP, the AP of each class, and any further metrics, over any number of batches.

    Only the top_k best classes of each example are kept (8 bytes each). So the AP of a class ranks only
    the examples that have it among their top_k; its recall counts all of its positives.

    The result does not depend on the order or the size of the batches (except for the rounding of the sums of PERR and
    loss). Scores are compared as float32. Ties: within an example the class with
    the lowest index goes first; between examples AP and GAP are the mean over all orders of the tied entries.
    """

    def __init__(
        self,
        num_class: int,
        top_k: int = 20,
        top_n: int | None = None,
        metric_classes: Sequence[type[Metric]] | None = None,
        class_counts: npt.ArrayLike | None = None,
    ) -> None:
        """Makes an accumulator without examples.

        Args:
          top_k: number of classes kept of each example; at most C.
          top_n: number of best entries of each class that count for its AP; None for all. GAP always uses all entries.
          metric_classes: the metrics to compute; None for the built-in ones.
          class_counts: [C], number of training videos of each class. They divide the classes into the most frequent
            third (head), the middle, and the rarest third (tail). GAP and mAP are then also computed for each third.
            None, or all 0, if the numbers are not known.
        """
        arrays.require_positive_int(num_class, "num_class")
        arrays.require_positive_int(top_k, "top_k")
        arrays.require_positive_int(top_n, "top_n", or_none=True)
        self.num_class, self.top_k, self.top_n = int(num_class), min(int(top_k), int(num_class)), top_n
        self.metric_classes = tuple(metrics.load() if metric_classes is None else metric_classes)
        self.class_counts = None if class_counts is None else np.asarray(class_counts, np.int64)
        if self.class_counts is not None and self.class_counts.shape != (self.num_class,):
            raise ValueError(f"class_counts must be [{self.num_class}]; they are {list(self.class_counts.shape)}")
        self.clear()

    def clear(self) -> None:
        """Forgets all batches."""
        self._metrics = [metric() for metric in self.metric_classes]
        self._entries = Entries()
        self._label_counts = np.zeros(self.num_class, np.int64)
        self._num_examples = 0

    def accumulate(
        self,
        predictions: npt.ArrayLike,
        labels: npt.ArrayLike,
        loss: npt.ArrayLike | None = None,
        label_weights: npt.ArrayLike | None = None,
    ) -> dict[str, float]:
        """Adds a batch.

        Args:
          predictions: float [B, C]; a class with the score -inf is not ranked at all.
          labels: [B, C], positive if above 0.
          loss: mean loss of the batch, or the losses [B]; None if there is no loss.
          label_weights: [B, C]; (example, class) pairs with a weight of 0 or less were not rated and are left out of
            every metric; an example without a rated pair is not counted. None if all pairs were rated.

        Returns:
          `hit_at_one`, `perr`, `loss` and `gap` of this batch alone, and those of further metrics that apply to
          batches, by key. In hit_at_one and perr an example without labels counts as 0. Without `loss` the returned
          loss is nan.

        Raises:
          ValueError: shapes differ from [B, num_class], or a score is NaN.
        """
        scores, positives = rated_only(predictions, labels, label_weights)
        if scores.shape[1] != self.num_class:
            raise ValueError(f"predictions must have {self.num_class} classes; they have {scores.shape[1]}")
        columns = take_columns(scores, positives, self.top_k)
        return self._add(ScoredBatch(columns, perr_of_rows(scores, positives, columns), loss))

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
        """Adds a batch of which only the k best classes of each example are known (`top_k` of TensorFlow gives them).

        Args:
          scores: float [B, k], best first, k at least min(top_k, C); -inf in the places that an example leaves empty
            because fewer than k of its classes were rated.
          classes: int [B, k], the class of each score; among equal scores the lowest first.
          hits: [B, k], above 0 if the example has the class.
          num_labels: [B], labels of the example over all classes.
          label_counts: [C], labels of each class over the batch.
          perr: float [B], PERR of each example; None to compute it from the k classes, which is possible only if no
            example has more than k labels, or k = C.
          loss: as in `accumulate`.

        Returns:
          The same values as `accumulate`.

        Raises:
          ValueError: shapes disagree, rows are not sorted, a score is NaN, a class is out of range, num_labels and
            label_counts have different sums, or k is too small.
        """
        values = arrays.score_matrix(scores, "scores")
        columns = Columns(
            values,
            np.asarray(classes, np.int32),
            arrays.positive_mask(hits, values.shape, "hits"),
            np.asarray(num_labels).astype(np.int64),
            np.asarray(label_counts).astype(np.int64),
        )
        check_columns(columns)
        if len(columns.label_counts) != self.num_class or columns.scores.shape[1] < self.top_k:
            raise ValueError(
                f"expected {self.top_k} columns or more and {self.num_class} label_counts; "
                f"found {columns.scores.shape[1]} and {len(columns.label_counts)}"
            )
        precision = perr_of_columns(columns) if perr is None else np.asarray(perr, np.float64)
        if precision.shape != columns.num_labels.shape:
            raise ValueError(f"perr must be [{len(columns.num_labels)}]; it is {list(precision.shape)}")
        if np.isnan(precision).any():
            raise ValueError("perr holds NaN; give 0 for an example without labels")
        return self._add(ScoredBatch(columns, precision, loss))

    def accumulate_pairs(self, pairs: Pairs, loss: npt.ArrayLike | None = None) -> dict[str, float]:
        """Adds a batch of which only rated (example, class) pairs are known; all other pairs are left out.

        Args:
          pairs: the rated pairs.
          loss: as in `accumulate`.

        Returns:
          The same values as `accumulate` with the ratings as label_weights.

        Raises:
          ValueError: a score is NaN.
        """
        columns, perr = columns_of_pairs(pairs, self.top_k, self.num_class)
        return self._add(ScoredBatch(columns, perr, loss, pairs))

    def _add(self, batch: ScoredBatch) -> dict[str, float]:
        """Adds a batch to the entries and to each metric; returns the metrics of this batch alone, by key."""
        columns = batch.columns
        entries = columns.entries(self.top_k)
        ranked = RankedEntries(entries, columns.label_counts, int(columns.examples.sum()))
        figures = {}
        for metric in self._metrics:
            part = metric.create(batch)
            metric.merge(part)
            if metric.of_batches and (value := part.compute(ranked)) is not None:
                figures[metric.key] = float(value)
        self._entries.append(entries)
        self._label_counts = self._label_counts + columns.label_counts
        self._num_examples += ranked.num_examples
        return figures

    def merge(self, other: EvaluationMetrics) -> None:
        """Adds all examples of `other`, which stays as it is; workers that each accumulate a share merge into one.

        The values are those of one accumulator that was fed all batches: counts, `gap` and `aps` to the last bit, the
        means up to the rounding of their sums. Accumulators can be pickled, so they may come from other processes.

        Raises:
          ValueError: the two have different settings; nothing is added.
        """
        for name in ("num_class", "top_k", "top_n", "metric_classes"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    f"metrics with {name}={mine} cannot merge those with {name}={theirs}; make both with one {name}"
                )
        counts = [None if each.class_counts is None else each.class_counts.tolist() for each in (self, other)]
        if counts[0] != counts[1]:
            raise ValueError("metrics with different class_counts cannot merge; make both with the same class_counts")
        for metric, part in zip(self._metrics, other._metrics, strict=True):
            metric.merge(part)
        self._entries.extend(other._entries)
        self._label_counts = self._label_counts + other._label_counts
        self._num_examples += other._num_examples

    def get(self) -> dict[str, Any]:
        """The metrics of all batches.

        Returns:
          avg_hit_at_one, avg_perr, avg_loss: means over examples (in the first two, one without labels counts as 0);
          gap; map, the mean of `aps`; map_at_n, if `accumulate_pairs` was called; with class_counts gap_head,
          gap_middle, gap_tail and map_head, map_middle, map_tail; further metrics by their `figure_key`;
          aps: float64 [P], AP of each class that has a positive; aps_class: int64 [P], which class;
          aps_positives: int64 [P], the number of its positives; num_examples. Without any positive, `aps` is empty,
          avg_hit_at_one, avg_perr and gap are 0, and map and the values of the thirds are nan. Without any loss,
          avg_loss is nan.
        """
        ranked = self.ranked()
        values = {metric.figure_key(): metric.compute(ranked) for metric in self._metrics}
        return {key: float(value) for key, value in values.items() if value is not None} | {
            "aps": ranked.aps,
            "aps_class": ranked.classes,
            "aps_positives": ranked.label_counts[ranked.classes],
            "num_examples": ranked.num_examples,
        }

    def ranked(self) -> RankedEntries:
        """The ranked entries and the labels of all batches."""
        return RankedEntries(self._entries.all(), self._label_counts, self._num_examples, self.top_n, self.class_counts)

    def operating_points(self, min_positives: int) -> OperatingPoints:
        """The threshold of each class with the best F1, over all batches; see `best_f1`.

        Args:
          min_positives: number of labels that a class needs for a threshold of its own.
        """
        return best_f1(self._entries.all(), self._label_counts, min_positives)

    def threshold_counts(self, num_thresholds: int) -> Floats64:
        """The numbers of true positives, false positives, true negatives and false negatives: [4, num_thresholds].

        Counted are all (example, class) pairs. Threshold i is i / (num_thresholds - 1), so at least 2 are needed. The
        pairs predicted as positive are the top_k classes of each example with that score or more, as for GAP; all
        others are predicted negatives.
        """
        keys = self._entries.all()
        steps = np.floor(arrays.score_of(keys) * np.float32(num_thresholds - 1))
        bins = np.clip(steps, 0, num_thresholds - 1).astype(np.int64)
        counts = [np.bincount(bins[arrays.hit_of(keys) == hit], minlength=num_thresholds) for hit in (True, False)]
        true, false = (np.cumsum(count[::-1])[::-1].astype(np.float64) for count in counts)
        missed = self._label_counts.sum() - true
        others = self._num_examples * self.num_class - true - false - missed
        return np.stack([true, false, others, missed])


class _Best(NamedTuple):
    """The best threshold of each of L lists, float64 [L], and its F1, float64 [L].

    For a list without a hit F1 is 0, and the threshold has no meaning.
    """

    thresholds: Floats64
    f1: Floats64


def best_f1(entries: Keys, label_counts: Ints64, min_positives: int) -> OperatingPoints:
    """The best threshold of each class, and the precision, recall and F1 that such thresholds have on other videos.

    If several thresholds give the best F1, the highest is used. A threshold is half-way between the lowest score
    that reaches it and the next lower score (if there is none, a thousandth below the former), so that rounding changes
    no decision. A class gets the common threshold if it has fewer than `min_positives` labels, or no label among its
    entries. The common threshold is the one with the best F1 of all entries in one list, or DEFAULT_THRESHOLD if none
    of them is a hit.

    Args:
      label_counts: int64 [C], number of labels of each class.
    """
    keys = np.sort(entries)
    best = _find_best_thresholds(keys, label_counts)
    common = _find_best_thresholds(np.sort(arrays.without_class(keys)), label_counts.sum(keepdims=True))
    is_own = np.asarray((label_counts >= min_positives) & (best.f1 > 0))
    common_threshold = common.thresholds[0] if common.f1[0] > 0 else DEFAULT_THRESHOLD
    measured = _cross_fitted(keys, label_counts, is_own)
    return OperatingPoints(np.where(is_own, best.thresholds, common_threshold), is_own, label_counts, *measured)


def _find_best_thresholds(keys: Keys, positives: Ints64 | Floats64) -> _Best:
    """Finds the threshold with the best F1 of each of L lists, of all thresholds just below a score of the list.

    Args:
      keys: sorted entries; the class of an entry is its list.
      positives: [L], number of positives of each list, including those that are not among its entries.
    """
    best = _Best(np.zeros(len(positives)), np.zeros(len(positives)))
    if not len(keys):
        return best
    starts, lists = arrays.block_starts(keys), arrays.class_of(keys)
    ends, owners = np.append(starts[1:], len(keys)), lists[starts]
    first = np.searchsorted(lists, np.arange(len(positives)))[owners]
    hits = np.append(0, np.cumsum(arrays.hit_of(keys)))
    f1 = 2 * (hits[ends] - hits[first]) / (ends - first + positives[owners])
    np.maximum.at(best.f1, owners, f1)
    reached = np.flatnonzero(f1 == best.f1[owners])
    which, place = np.unique(owners[reached], return_index=True)
    last = reached[place]
    after = np.minimum(last + 1, len(starts) - 1)
    scores = arrays.score_of(keys[starts]).astype(np.float64)
    has_lower = (after > last) & (owners[after] == which)
    lower = np.where(has_lower, scores[after], scores[last] - 2 * _RELATIVE_MARGIN * np.abs(scores[last]))
    best.thresholds[which] = (scores[last] + lower) / 2
    return best


def _cross_fitted(keys: Keys, positives: Ints64, is_own: Bools) -> tuple[Floats64, Floats64, Floats64]:
    """Precision, recall and F1 [C] of thresholds that are chosen on one half of the entries and used on the other.

    On the entries on which a threshold was chosen they would be too high. A class without a threshold of its own has
    nan; so has the precision of a class whose thresholds no entry reaches.

    Args:
      keys: sorted entries.
      positives: int64 [C], number of labels of each class.
      is_own: bool [C], which classes have a threshold of their own.
    """
    halves = [keys[_in_second_half(keys) == half] for half in (False, True)]
    # Labels that are no entries belong to neither half; each half is charged with half of them.
    unranked = positives - _count_hits(keys, len(positives))
    predicted = right = np.zeros(len(positives), np.int64)
    for choosing, used in (halves, halves[::-1]):
        best = _find_best_thresholds(choosing, _count_hits(choosing, len(positives)) + unranked / 2)
        thresholds = np.where(is_own & (best.f1 > 0), best.thresholds, np.inf)
        reaching = used[arrays.score_of(used) >= thresholds[arrays.class_of(used)]]
        predicted = predicted + np.bincount(arrays.class_of(reaching), minlength=len(positives))
        right = right + _count_hits(reaching, len(positives))
    labels = np.where(is_own, positives, 0)
    return _divide(right, predicted), _divide(right, labels), _divide(2 * right, predicted + labels)


def _count_hits(keys: Keys, num_classes: int) -> Ints64:
    """int64 [num_classes], number of hits among the entries of each class."""
    return np.bincount(arrays.class_of(keys[arrays.hit_of(keys)]), minlength=num_classes)


def _in_second_half(keys: Keys) -> Bools:
    """Whether each entry is in the second half, by a hash of class and score; equal scores of a class stay together.

    The hash is SplitMix64.
    """
    mixed = keys >> np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))) & np.uint64(1)).astype(np.bool_)


def _divide(part: Ints64, whole: Ints64) -> Floats64:
    """part / whole; nan where `whole` is 0."""
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0))
