"""A report that several towers could not reduce is refused when the graph is built, for one tower too."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from graph.graph_toy import Linear, Session, rows

from yt8m.errors import UsageError
from yt8m.graph import Reduction, Report
from yt8m.lazy import tf


class WithReport(Linear):
    """Reports what `make` makes of the labels, int32 [B], reduced by `reduction`."""

    def __init__(self, make: Any, reduction: Any) -> None:
        super().__init__()
        self.make, self.reduction = make, reduction

    def reports(self, batch: Any, output: Any, mode: str) -> dict[str, Report]:
        return {"mine": Report(self.make(batch[1]), self.reduction)}


def scalar(labels: Any) -> Any:
    return tf.reduce_sum(labels)


@pytest.mark.parametrize("towers", cases.all_of([1], heavy=[2]))
@pytest.mark.parametrize(
    ("make", "reduction", "said"),
    [
        (scalar, Reduction.LIST, "scalar"),
        (scalar, Reduction.ROWS, "scalar"),
        (scalar, Reduction.MEAN, "int32"),
        (lambda labels: labels > 0, Reduction.SUM, "bool"),
        (tf.as_string, Reduction.SUM, "string"),
        (scalar, "total", "rows, list, mean, sum"),
    ],
)
def test_what_towers_cannot_reduce_is_refused(towers: int, make: Any, reduction: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"report 'mine' .*{said}"):
        Session(WithReport(make, reduction), rows(5), towers)


@pytest.mark.parametrize("towers", cases.all_of([2], heavy=[1]))
@pytest.mark.parametrize(
    ("make", "reduction", "expected"),
    [
        (lambda labels: labels, "list", lambda labels: labels),
        (lambda labels: labels[:, tf.newaxis] > 0, Reduction.ROWS, lambda labels: labels[:, None] > 0),
        (lambda labels: tf.reduce_mean(tf.cast(labels, tf.float64)), Reduction.MEAN, np.mean),
        (scalar, "sum", np.sum),
    ],
)
def test_what_they_can_is_the_same_for_any_number_of_towers(
    towers: int, make: Any, reduction: Any, expected: Any
) -> None:
    batch = rows(5)
    with Session(WithReport(make, reduction), batch, towers) as session:
        found = session.run(session.ops.reports["mine"])
    np.testing.assert_allclose(found.astype(float), expected(batch[1]).astype(float), rtol=1e-7)
