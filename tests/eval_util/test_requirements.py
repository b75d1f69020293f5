"""Requirements of an evaluation: what they say, what is refused, and when they are met."""

from __future__ import annotations

import pytest

from yt8m.errors import UsageError
from yt8m.eval_util import metrics
from yt8m.eval_util.metrics import Metric
from yt8m.eval_util.requirements import Requirement, Verdict, parse_requirements, with_keys


def resolved(text: str, has_frequencies: bool = True) -> list[Requirement]:
    return with_keys(parse_requirements(text.split(",")), metrics.load(), has_frequencies)


def test_metrics_are_named_by_name_or_key_in_upper_or_lower_case() -> None:
    assert resolved("gap>=0.82, mAP tail >= 1e-1,LOSS<=7,Hit@1>=.5") == [
        Requirement("gap", True, 0.82),
        Requirement("map_tail", True, 0.1),
        Requirement("loss", False, 7),
        Requirement("hit_at_one", True, 0.5),
    ]


@pytest.mark.parametrize(
    "text", ["gap", "gap>0.8", "gap=0.8", "gap>=", ">=0.8", "gap>=high", "gap>=nan", "gap>=0.8>=0.7"]
)
def test_what_is_not_a_requirement_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a requirement.*METRIC>=NUMBER.*METRIC<=NUMBER"):
        parse_requirements([text])


class _Largest(Metric):
    name, key = "Largest", "largest"

    def compute(self, ranked: object) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("text", "has_frequencies", "message"),
    [
        (
            "gab>=0.8",
            True,
            "there is no metric 'gab'; did you mean gap? The metrics with an interval are hit_at_one, perr",
        ),
        ("map_at_n>=0.8", True, "map_at_n has no interval. The metrics with an interval are hit_at_one, perr"),
        ("largest>=1", True, "largest has no interval"),
        ("gap_tail>=0.8", False, "gap_tail has no interval, since it is not known how often the classes occur"),
    ],
)
def test_a_metric_without_an_interval_is_refused_by_name(text: str, has_frequencies: bool, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        with_keys(parse_requirements([text]), (*metrics.load(), _Largest), has_frequencies)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "low", "high", "is_met"),
    [
        ("gap>=0.8", 0.8, 0.9, True),
        ("gap>=0.8", 0.79, 0.9, False),
        ("gap<=0.9", 0.8, 0.9, True),
        ("gap<=0.9", 0.8, 0.91, False),
        ("gap>=0.8", None, None, False),
    ],
)
def test_the_whole_interval_must_keep_the_bound(text: str, low: float | None, high: float | None, is_met: bool) -> None:
    verdict = Verdict(*parse_requirements([text]), 0.85, low, high)
    assert verdict.is_met == is_met
    assert verdict.as_json()["is_met"] == is_met
    assert verdict.line().startswith(f"{text}: {'met' if is_met else 'MISSED'}, 0.8500 with")


def test_a_metric_that_is_not_defined_is_missed() -> None:
    verdict = Verdict(Requirement("gap", True, 0.5), None, None, None)
    assert verdict.line().startswith("gap>=0.5: MISSED, ")
