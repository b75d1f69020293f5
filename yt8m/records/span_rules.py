"""spans.json: how the scores of cells become spans, as `yt8m eval --spans` chose it.

The file is in `eval` of a run. Exports have it beside their thresholds: that of their step or, if spans were not
evaluated at it, one that has the grid of the training, and in which a class is shown where its score reaches 0.5.

    {"step": 606, "segment_size": 1, "segment_context": 5, "frames_per_second": 1.0,
     "rule": {"hysteresis": 0.7, "gap": 1, "least": 2}, "thresholds": [0.31, ...], ...}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from absl import logging

from yt8m import storage
from yt8m.errors import RunError, refusing

NAME = "spans.json"
USUAL_THRESHOLD = 0.5
USUAL_RULE: Mapping[str, float] = {"hysteresis": 1.0, "gap": 0, "least": 1}


class SpanGrid(Protocol):
    """The facts of a training on which its cells depend."""

    @property
    def segment_labels(self) -> bool:
        """Whether the model learned from cells."""

    @property
    def segment_size(self) -> int:
        """Number of frames of a cell."""

    @property
    def segment_context(self) -> int:
        """Number of frames before and after a cell that the model gets."""

    @property
    def frames_per_second(self) -> float:
        """Frames per second of the features."""

    @property
    def num_classes(self) -> int:
        """Number of classes."""


class SpanRule(NamedTuple):
    """The content of a file that joins cells; see the top of this module.

    Attributes:
      step: the step of the weights for which it was chosen; 0 if the file does not say it.
      rule: {attribute of `eval_util.span_joining.JoinRule`: its value}.
    """

    step: int
    segment_size: int
    segment_context: int
    frames_per_second: float
    rule: Mapping[str, float]
    thresholds: Sequence[float]

    @property
    def is_usual(self) -> bool:
        """Whether it is that of an export whose run had chosen nothing yet."""
        return dict(self.rule) == USUAL_RULE and set(self.thresholds) == {USUAL_THRESHOLD}


def path_in_run(folder: str) -> str:
    """The path of the file of a run."""
    return storage.join(folder, "eval", NAME)


def parse(text: str, where: str) -> SpanRule:
    """Parses a file; `where` names it in messages."""
    with refusing(lambda error: RunError(f"{where} is damaged: {error}. Write it again by `yt8m eval --spans`.")):
        written = storage.parse_json(text)
        result = SpanRule(
            int(written.get("step", 0)),
            int(written["segment_size"]),
            int(written.get("segment_context", 0)),
            float(written["frames_per_second"]),
            {name: float(written["rule"][name]) for name in USUAL_RULE},
            list(map(float, written["thresholds"])),
        )
        if min(result.segment_size, result.segment_context + 1) < 1 or not result.frames_per_second > 0:
            raise ValueError("a cell has no length")
    return result


def text_of(rule: SpanRule, others: Mapping[str, Any]) -> str:
    """The text of a file; `others` are further entries, which no program reads to join cells."""
    return json.dumps({**rule._asdict(), **others}, indent=1) + "\n"


def text_for_export(data: SpanGrid, train_dir: str, step: int) -> str:
    """What an export gets; empty for a model that did not learn from cells.

    If the file of the run cannot be read, a warning is logged: an export should not fail because of it.
    """
    if not data.segment_labels:
        return ""
    path = path_in_run(train_dir)
    try:
        if storage.exists(path) and parse(text := storage.read_text(path), path).step == step:
            return text
    except RunError as error:
        logging.warning("the export does not join spans as the run does: %s", error)
    grid = data.segment_size, data.segment_context, data.frames_per_second
    return text_of(SpanRule(step, *grid, USUAL_RULE, [USUAL_THRESHOLD] * data.num_classes), {"chosen_on": None})


def copy(data: SpanGrid, train_dir: str, folder: str, step: int) -> None:
    """Writes what `text_for_export` returns into the folder of an export."""
    if text := text_for_export(data, train_dir, step):
        storage.write(storage.join(folder, NAME), text)
