"""The table of all models, as markdown, and the claims that it has to bear out."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BEGIN, END = "<!-- made by `make recipes` -->", "<!-- end -->"
MEAN_POOLING = "FrameLevelLogisticModel"
# Models that read frames in order have to beat the mean of the frames. Models that weight single frames have to
# beat both linear models: the one on the mean of the frames, and the one on the video-level vector.
IN_ORDER = ("LstmModel", "GruModel", "BiLstmModel", "TransformerModel")
WEIGHED = (
    *("NetVladModel", "NetRvladModel", "NetVlagdModel", "NetFvModel", "NeXtVladModel", "MixNeXtVladModel"),
    *("AttentionClusterModel", "AttentionPoolingModel", "AttentionLstmModel", "LstmAttentionMaxModel"),
    "AttentiveProbeModel",
)
CLAIMS = {MEAN_POOLING: IN_ORDER + WEIGHED, "LogisticModel": WEIGHED}


@dataclass(frozen=True)
class Row:
    """The result of one recipe.

    Attributes:
      gap: on the validation part.
      parameters: values that an export of the model holds.
      speed: training examples a second.
    """

    gap: float
    parameters: int
    speed: float


def table(rows: Mapping[str, Row]) -> str:
    """The table in Markdown, best model first."""
    lines = ["| model | GAP | parameters | examples/s |", "|---|---:|---:|---:|"]
    for name, row in sorted(rows.items(), key=lambda item: (-item[1].gap, item[0])):
        lines.append(f"| {name} | {row.gap:.3f} | {row.parameters:,} | {_rounded(row.speed):,} |")
    return "\n".join(lines)


def _rounded(speed: float) -> int:
    """`speed` rounded to two significant digits; further digits vary from run to run."""
    digits = 10 ** max(len(str(int(speed))) - 2, 0)
    return round(speed / digits) * digits


def broken_claims(gaps: Mapping[str, float], margin: float) -> list[str]:
    """A sentence for each model that was run and does not beat its baseline by `margin`."""
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
    write_between(path, BEGIN, made)


def write_between(path: pathlib.Path, begin: str, made: str) -> None:
    """Puts `made` between the mark `begin` of a page and the next end mark."""
    before, _, rest = path.read_text().partition(begin)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{begin}\n{made}\n{END}{after}")


def drifted(gaps: Mapping[str, float], stated: Mapping[str, float], tolerance: float) -> Iterator[str]:
    """A sentence for each model whose GAP is further than `tolerance` from the stated one."""
    for name, gap in gaps.items():
        if abs(gap - stated[name]) > tolerance:
            yield f"{name} has a GAP of {gap:.3f}; its recipe states {stated[name]:.3f} (+- {tolerance})"
