"""Requirements that the metrics of an evaluation must meet, such as `gap>=0.82`: parses and checks them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from yt8m.errors import UsageError, suggestion
from yt8m.eval_util.metrics import THIRDS, Gap, MeanAveragePrecision, MeanMetric, Metric

_SYNTAX = re.compile(r"\s*([^<>=]+?)\s*(>=|<=)\s*([^\s<>=]+)\s*")
# Keys of the metrics of the head, the middle and the tail of the classes; they need the frequencies of the classes.
_OF_THIRDS = frozenset(f"{metric.key}_{third}" for metric in (Gap, MeanAveragePrecision) for third in THIRDS)


class Requirement(NamedTuple):
    """A bound that the whole confidence interval of a metric must keep, such as `gap>=0.82`.

    Attributes:
      metric: the name or the key of the metric, as the user wrote it; `with_keys` replaces it by the key.
      is_least: True if the lower end of the interval must be at least `bound`, False if the upper end must be at most
        `bound`.
    """

    metric: str
    is_least: bool
    bound: float

    @property
    def relation(self) -> str:
        """`>=` or `<=`."""
        return ">=" if self.is_least else "<="

    def __str__(self) -> str:
        return f"{self.metric}{self.relation}{self.bound:g}"


def parse_requirements(texts: Sequence[str]) -> list[Requirement]:
    """Parses texts such as `gap>=0.82`, one requirement each."""
    return [_parse_requirement(text) for text in texts]


def _parse_requirement(text: str) -> Requirement:
    """Parses one text; raises as `parse_requirements` does."""
    match = _SYNTAX.fullmatch(text)
    try:
        bound = float(match[3]) if match else math.nan
    except ValueError:
        bound = math.nan
    if match is None or not math.isfinite(bound):
        raise UsageError(
            f"--require: {text!r} is not a requirement; write METRIC>=NUMBER or METRIC<=NUMBER, with commas between "
            "several, in quotes: --require='gap>=0.82,map_tail>=0.1'."
        )
    return Requirement(match[1], match[2] == ">=", bound)


def with_keys(
    requirements: Sequence[Requirement], metric_classes: Sequence[type[Metric]], has_frequencies: bool
) -> list[Requirement]:
    """Copies of the requirements, in which each metric is named by its key."""
    with_interval = [metric for metric in metric_classes if _has_interval(metric, has_frequencies)]
    keys = {name.lower(): metric.key for metric in metric_classes for name in (metric.name, metric.key)}
    usable = [metric.key for metric in with_interval]
    resolved = []
    for requirement in requirements:
        key = keys.get(requirement.metric.lower())
        if key is None:
            hint = suggestion(requirement.metric, usable)
            raise UsageError(
                f"--require: there is no metric {requirement.metric!r}{hint or '.'} {_list_usable(usable)}"
            )
        if key not in usable:
            reason = ", since it is not known how often the classes occur" if key in _OF_THIRDS else ""
            raise UsageError(f"--require: {key} has no interval{reason}. {_list_usable(usable)}")
        resolved.append(requirement._replace(metric=key))
    return resolved


def _has_interval(metric: type[Metric], has_frequencies: bool) -> bool:
    """Whether an evaluation gives a metric an interval: a mean over examples, GAP or mAP, also of a third.

    The metrics of thirds need known class frequencies.
    """
    if metric.key in _OF_THIRDS:
        return has_frequencies
    return issubclass(metric, MeanMetric) or metric in (Gap, MeanAveragePrecision)


def _list_usable(keys: Sequence[str]) -> str:
    """The sentence of a message that names the metrics that can be required."""
    return f"The metrics with an interval are {', '.join(keys)}."


class Verdict(NamedTuple):
    """Whether a requirement is met.

    Attributes:
      value: the value of the metric; None if it is not defined on the evaluated videos.
      low, high: its 95 % interval; None if there are too few videos or labels for one.
    """

    requirement: Requirement
    value: float | None
    low: float | None
    high: float | None

    @property
    def is_met(self) -> bool:
        """Whether the whole interval keeps the bound; False without an interval."""
        if self.low is None or self.high is None:
            return False
        bound = self.requirement.bound
        return self.low >= bound if self.requirement.is_least else self.high <= bound

    def line(self) -> str:
        """One line for the terminal, such as `gap>=0.8: met, 0.8512 with the 95 % interval 0.8431 to 0.8590`."""
        verdict = f"{self.requirement}: {'met' if self.is_met else 'MISSED'}"
        if self.value is None:
            return f"{verdict}, it is not defined on these videos"
        if self.low is None:
            return f"{verdict}, {self.value:.4f} without an interval: the videos, or their labels, are too few for one"
        return f"{verdict}, {self.value:.4f} with the 95 % interval {self.low:.4f} to {self.high:.4f}"

    def as_json(self) -> dict[str, object]:
        """The verdict for report.json."""
        metric, _, bound = self.requirement
        return {
            "metric": metric,
            "relation": self.requirement.relation,
            "bound": bound,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "is_met": self.is_met,
        }
