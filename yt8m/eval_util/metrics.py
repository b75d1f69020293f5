"""The metrics of an evaluation, one class each: its name, which direction is better, and its computation.

Everything that shows metrics (the log, the table, report.json, TensorBoard, the HTML report, `yt8m score`) takes names
and formats from these classes. You can write a metric as a class in your own module; `yt8m eval
--metrics=my_metrics:HitAtFive` adds it:

    class HitAtFive(MeanMetric):
        name, key = "Hit@5", "hit_at_five"

        @classmethod
        def of_examples(cls, batch):
            return (batch.columns.hits & batch.columns.ranked)[:, :5].any(axis=1)

Some metrics divide the classes by how often they occur in the training data: the head is the most frequent third, the
tail the rarest. A model may have a high GAP and yet miss the tail, because most labels are of the head.
"""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from yt8m.errors import UsageError, suggestion
from yt8m.eval_util.arrays import Floats64, Ints64, Keys, class_of, require_positive_int
from yt8m.eval_util.average_precision import class_average_precisions, global_average_precision
from yt8m.eval_util.segments import MOST_SEGMENTS, Pairs, RatedPairs
from yt8m.eval_util.top_k import Columns, perr_of_rows, rated_only, take_columns
from yt8m.registry import Registry

THIRDS = ("head", "middle", "tail")  # names of the thirds, from the most frequent classes to the rarest


def thirds(class_counts: Ints64 | None) -> list[Ints64]:
    """The classes of the head, of the middle and of the tail, most frequent first; an empty list if no count is known.

    If the classes do not divide by three, the earlier thirds are larger by one class. Among equally frequent classes
    the one with the lowest index counts as the more frequent one.

    Args:
      class_counts: [C], number of training videos of each class; None or all 0 if it is not known.
    """
    if class_counts is None or not class_counts.any():
        return []
    return list(np.array_split(np.argsort(-class_counts, kind="stable"), len(THIRDS)))


def third_of_class(class_counts: Ints64) -> Ints64:
    """int64 [C]: whether each class is in the head, the middle or the tail, as an index of `THIRDS`.

    Args:
      class_counts: [C], number of training videos of each class; at least one must be above 0.
    """
    third_of = np.empty(len(class_counts), np.int64)
    for number, classes in enumerate(thirds(class_counts)):
        third_of[classes] = number
    return third_of


@dataclass(frozen=True)
class RankedEntries:
    """The entries of the top_k best classes of each example, and label counts, of one batch or a whole evaluation.

    Attributes:
      label_counts: int64 [C], number of labels of each class.
      top_n: number of best entries of a class that count for its AP; None for all.
      class_counts: int64 [C], number of training videos of each class; None if it is not known.
    """

    keys: Keys
    label_counts: Ints64
    num_examples: int
    top_n: int | None = None
    class_counts: Ints64 | None = None

    @cached_property
    def classes(self) -> Ints64:
        """int64 [P], the classes that have a label."""
        return np.flatnonzero(self.label_counts)

    @cached_property
    def aps(self) -> Floats64:
        """float64 [P], the AP of each of `classes`."""
        return class_average_precisions(self.keys, self.label_counts, self.top_n)[self.classes]

    @cached_property
    def gap(self) -> float:
        """Global average precision: the AP of all entries in one list; 0 if there is no label."""
        return global_average_precision(self.keys, int(self.label_counts.sum()))

    @cached_property
    def gaps_of_thirds(self) -> Floats64:
        """float64 [3], the AP of the entries of each third in one list; nan if no class of the third has a label.

        An entry is still one of the top_k among all classes of an example. Empty if it is not known how frequent the
        classes are.
        """
        counts = self.class_counts
        if counts is None or not counts.any():
            return np.zeros(0)
        third_of = third_of_class(counts)
        labels = np.bincount(third_of, self.label_counts, len(THIRDS)).astype(np.int64).tolist()
        owners = third_of[class_of(self.keys)]
        return np.array(
            [
                global_average_precision(self.keys[owners == number], count) if count else np.nan
                for number, count in enumerate(labels)
            ]
        )

    @cached_property
    def maps_of_thirds(self) -> Floats64:
        """float64 [3], the mAP of each third over its classes that have a label; nan if none of them has one.

        Empty if it is not known how frequent the classes are.
        """
        members = [self.aps[np.isin(self.classes, classes)] for classes in thirds(self.class_counts)]
        return np.array([aps.mean() if len(aps) else np.nan for aps in members])


class ScoredBatch(NamedTuple):
    """The data that a metric gets for a batch of B examples.

    Attributes:
      columns: the best classes of each example (as many as `--top_k`, or more), whether each is a label, and
        the number of labels of the example.
      perr: float64 [B], precision at equal recall rate of each example.
      loss: the mean loss of the batch, or the loss of each example, [B]; None if there is no loss.
      pairs: the rated (example, class) pairs; None unless the labels are ratings of segments.
    """

    columns: Columns
    perr: Floats64
    loss: npt.ArrayLike | None = None
    pairs: Pairs | None = None


class Description(NamedTuple):
    """What is needed to show and compare values of a metric without its code; the fields are those of `Metric`."""

    name: str
    key: str
    higher_is_better: bool = True
    digits: int = 3
    percent: bool = False

    def text(self, value: float, digits: int | None = None) -> str:
        """`value` with `digits` decimals (by default the metric's own), or as a percentage with two decimals fewer."""
        places = self.digits if digits is None else digits
        return f"{100 * value:.{max(places - 2, 0)}f} %" if self.percent else f"{value:.{places}f}"


class Metric(abc.ABC):
    """A metric: `create` takes a batch, `merge` adds another part, `compute` gives the value.

    An instance holds the state over all examples so far; `Metric()` has no examples. A metric that needs only the
    ranked entries, such as GAP, implements only `compute`: `EvaluationMetrics` keeps those entries once for all
    metrics. Instances are sent between processes, so they must be picklable.

    Attributes:
      percent: whether values are shown as percentages.
      published_name: the name in the evaluation's log line and in TensorBoard's tags, if it is not `name`.
    """

    name: ClassVar[str]
    key: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    digits: ClassVar[int] = 3
    percent: ClassVar[bool] = False
    of_batches: ClassVar[bool] = True
    is_detail: ClassVar[bool] = False
    published_name: ClassVar[str] = ""
    prefix: ClassVar[str] = ""

    @classmethod
    def create(cls, batch: ScoredBatch) -> Self:  # noqa: ARG003
        """The metric with the examples of one batch."""
        return cls()

    def merge(self, other: Self) -> None:  # noqa: B027 - a metric of the ranked entries has nothing to add
        """Adds the examples of `other`; `other` stays as it is."""

    @abc.abstractmethod
    def compute(self, ranked: RankedEntries) -> float | None:
        """The value; nan if it is not defined; None to leave it out, for data to which the metric does not apply."""

    @classmethod
    def figure_key(cls) -> str:
        """The key in `EvaluationMetrics.get()`."""
        return f"{cls.prefix.lower()}{cls.key}"

    @classmethod
    def log_name(cls) -> str:
        """The name in the evaluation's log line and in TensorBoard's tags."""
        return cls.prefix + (cls.published_name or cls.name)

    @classmethod
    def description(cls) -> Description:
        """How to show and compare values of the metric, for programs that lack its class."""
        return Description(cls.name, cls.key, cls.higher_is_better, cls.digits, cls.percent)


class MeanMetric(Metric):
    """A metric that is the mean of one number per example; `of_examples` gives the numbers.

    Attributes:
      value_without_examples: the value if there is no example.
    """

    prefix = "Avg_"
    value_without_examples: ClassVar[float] = 0.0

    def __init__(self, total: float = 0.0, count: int = 0) -> None:
        self.total, self.count = total, count

    @classmethod
    @abc.abstractmethod
    def of_examples(cls, batch: ScoredBatch) -> npt.ArrayLike | None:
        """The numbers [B]; those of examples that were not judged are ignored. None if the batch has no numbers."""

    @classmethod
    def create(cls, batch: ScoredBatch) -> Self:
        """Sums the numbers of the examples that were judged."""
        values = cls.of_examples(batch)
        if values is None:
            return cls()
        counted = np.asarray(values, np.float64)[batch.columns.examples]
        return cls(float(counted.sum()), len(counted))

    def merge(self, other: Self) -> None:
        """Adds the sum and the number of the examples of `other`."""
        self.total, self.count = self.total + other.total, self.count + other.count

    def compute(self, ranked: RankedEntries) -> float:
        """The mean over all examples; `value_without_examples` if there is none."""
        return self.total / self.count if self.count else self.value_without_examples


# The built-in metrics are registered in the order of the published log line.
metrics: Registry[type[Metric]] = Registry("metric")


@metrics.register
class HitAtOne(MeanMetric):
    """Share of the examples whose best class is one of their labels.

    Among tied best classes the one with the lowest index counts. An example without labels counts as a miss.
    """

    name, key = "Hit@1", "hit_at_one"

    @classmethod
    def of_examples(cls, batch: ScoredBatch) -> npt.ArrayLike:
        """1 for an example whose best class is one of its labels, else 0."""
        return batch.columns.hits[:, 0] & batch.columns.ranked[:, 0]


@metrics.register
class Perr(MeanMetric):
    """Precision at equal recall rate: the share of labels among the n best classes of an example with n labels.

    Source: S. Abu-El-Haija et al., YouTube-8M: A Large-Scale Video Classification Benchmark (2016), section on
    evaluation metrics.
    """

    name, key = "PERR", "perr"

    @classmethod
    def of_examples(cls, batch: ScoredBatch) -> npt.ArrayLike:
        """The PERR that was computed with the batch; 0 for an example without labels."""
        return batch.perr


@metrics.register
class MeanAveragePrecision(Metric):
    """The mean of the AP over all classes that have a label; nan if no class has one."""

    name, key, published_name = "mAP", "map", "MAP"
    of_batches = False

    def compute(self, ranked: RankedEntries) -> float:
        """The mean of `ranked.aps`; nan if it is empty."""
        return float(ranked.aps.mean()) if len(ranked.aps) else float("nan")


@metrics.register
class Gap(Metric):
    """Global average precision: the AP of the top_k entries of all examples, pooled in one list.

    Its recall counts every label, even outside of the top_k. 0 if there is no label.
    """

    name, key = "GAP", "gap"

    def compute(self, ranked: RankedEntries) -> float:
        """The AP of the pooled list."""
        return ranked.gap


@metrics.register
class RatedMap(Metric):
    """MAP@n over rated (segment, class) pairs, the measure of the 2019 challenge."""

    name, key = f"MAP@{MOST_SEGMENTS} of rated pairs", "map_at_n"
    published_name = f"MAP@{MOST_SEGMENTS}"
    of_batches = False

    def __init__(self, pairs: RatedPairs | None = None) -> None:
        self._pairs = pairs

    @classmethod
    def create(cls, batch: ScoredBatch) -> Self:
        """Keeps the pairs of the batch."""
        if batch.pairs is None:
            return cls()
        pairs = RatedPairs(len(batch.columns.label_counts))
        pairs.accumulate(batch.pairs.classes, batch.pairs.scores, batch.pairs.hits)
        return cls(pairs)

    def merge(self, other: Self) -> None:
        """Adds the pairs."""
        if other._pairs is not None:
            self._pairs = self._pairs or RatedPairs(other._pairs.num_class)
            self._pairs.merge(other._pairs)

    def compute(self, ranked: RankedEntries) -> float | None:
        """MAP@n; None if no pair was rated."""
        return None if self._pairs is None else self._pairs.get().map


@metrics.register
class Loss(MeanMetric):
    """The mean loss; nan if no batch had one."""

    name, key, published_name = "loss", "loss", "Loss"
    higher_is_better = False
    digits = 6
    value_without_examples = float("nan")

    @classmethod
    def of_examples(cls, batch: ScoredBatch) -> npt.ArrayLike | None:
        """The losses. If the batch has only a mean loss, each example gets it."""
        if batch.loss is None:
            return None
        return np.broadcast_to(np.asarray(batch.loss, np.float64), batch.perr.shape)


class _MetricOfThird(Metric):
    """A metric of the head, the middle or the tail of the classes, in the order of their numbers of training videos.

    Its value is None if these numbers are unknown, and nan if no class of the third has a label.

    Attributes:
      values: maps ranked entries to one value for each third, float64 [3]; an empty array if the numbers are unknown.
    """

    of_batches = False
    is_detail = True
    place: ClassVar[int]
    values: ClassVar[Callable[[RankedEntries], Floats64]]

    def compute(self, ranked: RankedEntries) -> float | None:
        """The value of the third."""
        values = type(self).values(ranked)
        return float(values[self.place]) if len(values) else None


def _register_thirds(of_all: type[Metric], values: Callable[[RankedEntries], Floats64]) -> None:
    """Makes and registers a metric for each third of the classes."""
    for place, third in enumerate(THIRDS):
        attributes = {"place": place, "values": staticmethod(values), "__module__": __name__}
        names = {"name": f"{of_all.name} {third}", "key": f"{of_all.key}_{third}"}
        names["published_name"] = f"{of_all.published_name or of_all.name}_{third}"
        title = f"{third.capitalize()}{of_all.__name__}"
        # The class must be a global of this module, because pickle looks it up by its name.
        globals()[title] = metrics.register(type(title, (_MetricOfThird,), {**attributes, **names}))


_register_thirds(Gap, lambda ranked: ranked.gaps_of_thirds)
_register_thirds(MeanAveragePrecision, lambda ranked: ranked.maps_of_thirds)


_OF_LABELS = tuple(metric.key for metric in (HitAtOne, Perr, MeanAveragePrecision, Gap))


NOT_DEFINED = "it is not defined on these examples"  # the reason if there is none that says more


def why_undefined(key: str, value: float | None, has_labels: bool) -> str:
    """Why the value of a metric says nothing about the model, in words; empty if it does.

    Args:
      value: its value; None or nan if it is not defined. GAP, Hit@1 and PERR are 0 if no example has a label.
    """
    is_defined = value is not None and math.isfinite(value)
    for third in THIRDS:
        if not is_defined and key in (f"{Gap.key}_{third}", f"{MeanAveragePrecision.key}_{third}"):
            return f"no class of the {third} has a label"
    if key in _OF_LABELS and not has_labels:
        return "no example has a label"
    return "" if is_defined else NOT_DEFINED


def names_of_details() -> frozenset[str]:
    """The names of the built-in metrics that are details, see `Metric.is_detail`."""
    return frozenset(metric.name for metric in metrics.all() if metric.is_detail)


def load(names: Sequence[str] = (), reserved: Collection[str] = ()) -> tuple[type[Metric], ...]:
    """The built-in metrics, then the user's metrics that are called `names`.

    Args:
      names: texts such as `package.module:Class`; each metric is tried on an evaluation without examples.
    """
    loaded = list(metrics.all())
    for name in names:
        metric = metrics.get(name)
        _check_metric(name, metric)
        taken = {other.name for other in loaded} | {other.key for other in loaded} | set(reserved)
        if {metric.name, metric.key} & taken:
            raise UsageError(
                f"the metric {name} has the name {metric.name!r} and the key {metric.key!r}, one of which is taken "
                f"already. Taken are {', '.join(sorted(taken))}. Give the metric another name and key; a built-in "
                "metric is always computed and need not be named."
            )
        loaded.append(metric)
    return tuple(loaded)


def find(name: str) -> type[Metric]:
    """The built-in metric with this name or key, in upper or lower case, or the class `package.module:Class`."""
    built_in = next((metric for metric in metrics.all() if name.lower() in (metric.name.lower(), metric.key)), None)
    if built_in is not None:
        return built_in
    if ":" not in name:
        names = [metric.name for metric in metrics.all()]
        raise UsageError(
            f"{name!r} is not a metric{suggestion(name, names)} (known: {', '.join(names)}; or package.module:Class)."
        )
    return load((name,))[-1]


def _check_metric(name: str, metric: object) -> None:
    """Raises UsageError unless `metric` is a subclass of `Metric` that works on an evaluation without examples."""
    if not (isinstance(metric, type) and issubclass(metric, Metric)):
        raise UsageError(f"the metric {name!r} must be a class that is derived from yt8m.eval_util.metrics.Metric.")
    try:
        if not re.fullmatch("[a-z][a-z0-9_]*", metric.key):
            raise ValueError(f"the key {metric.key!r} must consist of lower-case letters, digits and underscores")
        no_entries = RankedEntries(np.zeros(0, np.uint64), np.zeros(1, np.int64), 0)
        metric.description().text(metric().compute(no_entries) or 0.0)
    except Exception as error:
        raise UsageError(f"the metric {name!r} does not work on an evaluation without examples: {error!r}") from error


_M = TypeVar("_M", Description, type[Metric])


def gap_first(metrics_or_rows: Iterable[_M]) -> list[_M]:
    """The metrics in their order, except that GAP comes first, because models are compared by it."""
    return sorted(metrics_or_rows, key=lambda metric: metric.key != Gap.key)


def calculate_hit_at_one(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> float:
    """Hit@1 of a batch; examples without labels count as misses.

    Args:
      predictions: float [B, C].
      actuals: [B, C], positive if above 0.

    Returns:
      0..1; 0 if there is no example.

    Raises:
      ValueError: shapes differ or a score is NaN.
    """
    columns = take_columns(*rated_only(predictions, actuals), 1)
    hits = columns.hits & columns.ranked
    return float(hits.mean()) if len(hits) else 0.0


# PERR first takes this many best classes of each example. The few examples with more labels are ranked again.
_USUAL_LABELS = 20


def calculate_precision_at_equal_recall_rate(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> float:
    """PERR of a batch; examples without labels count as 0. Ties at the boundary go to the lowest class.

    Args:
      predictions: float [B, C]; scores of 0 or less never count.
      actuals: [B, C], positive if above 0.

    Returns:
      0..1; 0 if there is no example.

    Raises:
      ValueError: shapes differ or a score is NaN.
    """
    scores, positives = rated_only(predictions, actuals)
    values = perr_of_rows(scores, positives, take_columns(scores, positives, _USUAL_LABELS))
    return float(values.mean()) if len(values) else 0.0


def calculate_gap(predictions: npt.ArrayLike, actuals: npt.ArrayLike, top_k: int = 20) -> float:
    """GAP of a batch: the AP of the top_k best classes of all examples in one list; all labels count for the recall.

    Args:
      predictions: float [B, C].
      actuals: [B, C], positive if above 0.
      top_k: number of best classes of each example that enter the list; more than C count as C.

    Returns:
      0..1; 0 if there is no positive or no example.

    Raises:
      ValueError: shapes differ, a score is NaN, or top_k is not positive.
    """
    require_positive_int(top_k, "top_k")
    columns = take_columns(*rated_only(predictions, actuals), top_k)
    return global_average_precision(columns.entries(top_k), int(columns.num_labels.sum()))


def is_below_one(average_precision: float) -> bool:
    """Whether the AP is below 1.0 after rounding to three digits, as tables show it."""
    return round(average_precision, 3) < 1
