"""The table of all models, as markdown, and the claims that it has to bear out."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BEGIN, END = "<!-- made by `make recipes` -->", "<!-- end -->"
MEAN_POOLING = "FrameLevelLogisticModel"
# What reads frames in order has to beat their mean; what weighs frames one by one has to beat both
# linear models, that of the frames' mean and that of the video's vector.
IN_ORDER = ("LstmModel", "GruModel", "BiLstmModel", "TransformerModel")
WEIGHED = (
    *("NetVladModel", "NetRvladModel", "NetVlagdModel", "NetFvModel", "NeXtVladModel", "MixNeXtVladModel"),
    *("AttentionClusterModel", "AttentionPoolingModel", "AttentionLstmModel", "LstmAttentionMaxModel"),
)
CLAIMS = {MEAN_POOLING: IN_ORDER + WEIGHED, "LogisticModel": WEIGHED}


@dataclass(frozen=True)
class Row:
    """What one recipe came to.

    Attributes:
      gap: on the validation part.
      parameters: values that an export of the model holds.
      speed: training examples a second.
    """

    gap: float
    parameters: int
    speed: float


def table(rows: Mapping[str, Row]) -> str:
    """Markdown, best first."""
    lines = ["| model | GAP | parameters | examples/s |", "|---|---:|---:|---:|"]
    for name, row in sorted(rows.items(), key=lambda item: (-item[1].gap, item[0])):
        lines.append(f"| {name} | {row.gap:.3f} | {row.parameters:,} | {_rounded(row.speed):,} |")
    return "\n".join(lines)


def _rounded(speed: float) -> int:
    """Two figures: the next run gives other ones behind them."""
    digits = 10 ** max(len(str(int(speed))) - 2, 0)
    return round(speed / digits) * digits


def broken_claims(gaps: Mapping[str, float], margin: float) -> list[str]:
    """Models that do not beat what they have to by `margin`, each in a sentence; of those that were run."""
    return [
        f"{name} has a GAP of {gaps[name]:.3f}, which does not beat {beaten} ({gaps[beaten]:.3f}) by {margin}"
        for beaten, winners in CLAIMS.items()
        for name in winners
        if name in gaps and beaten in gaps and gaps[name] < gaps[beaten] + margin
    ]


def read_table(path: pathlib.Path) -> dict[str, Row]:
    """The rows between the marks of a page."""
    text = path.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = {}
    for line in text.strip().splitlines()[2:]:
        name, gap, parameters, speed = (cell.strip().replace(",", "") for cell in line.split("|")[1:-1])
        rows[name] = Row(float(gap), int(parameters), float(speed))
    return rows


def write_table(path: pathlib.Path, made: str) -> None:
    """Puts `made` between the marks of a page."""
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")


def drifted(gaps: Mapping[str, float], stated: Mapping[str, float], tolerance: float) -> Iterator[str]:
    """Models whose figure is not the stated one, each in a sentence."""
    for name, gap in gaps.items():
        if abs(gap - stated[name]) > tolerance:
            yield f"{name} has a GAP of {gap:.3f}; its recipe states {stated[name]:.3f} (+- {tolerance})"
