"""What is compared: five networks, each trained, evaluated and used, with one batch size for all contestants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

CONTESTANTS = ("yt8m", "eager", "compiled")


class Network(NamedTuple):
    """One model.

    Attributes:
      level: of the records, video or frame.
      batch: videos of a step.
      steps: steps of a turn.
      options: hyper-parameters that differ from the defaults. Dropout is off, so that losses can be compared.
      draws_frames: whether a step draws frames at random. Stored batches then repeat the first frame of each video, so
        that all contestants draw the same.
    """

    level: str
    batch: int
    steps: int
    options: dict[str, Any]
    draws_frames: bool = False

    @property
    def warm_steps(self) -> int:
        """Untimed steps of a turn from files: they use up what was read ahead while the others worked."""
        return min(self.steps, 5)


NETWORKS = {
    "LogisticModel": Network("video", 1024, 40, {}),
    "MoeModel": Network("video", 1024, 15, {}),
    "DbofModel": Network("frame", 64, 5, {}, draws_frames=True),
    "NeXtVladModel": Network("frame", 32, 3, {"feature_sizes": (1024, 128), "drop_rate": 0.0}),
    "LstmModel": Network("frame", 32, 1, {}),
}


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
      work: "step" trains on batches in memory, "files" trains from files; "eval" and "infer" read files too.
      model: name of the network.
      precision: float32 or bfloat16.
      goal: least ratio of this project's rate to that of the best peer.
    """

    work: str
    model: str
    precision: str
    goal: float

    @property
    def name(self) -> str:
        """The name on the command line and in the table."""
        suffix = "" if self.precision == "float32" else f", {self.precision}"
        return f"{self.work}/{self.model}{suffix}"

    @property
    def network(self) -> Network:
        """The network of the row."""
        return NETWORKS[self.model]


def _rows() -> list[Row]:
    rows = []
    for model, network in NETWORKS.items():
        from_files = 1.3 if network.level == "video" else 1.0
        for precision in ("float32", "bfloat16"):
            rows += [Row("step", model, precision, 0.95), Row("files", model, precision, from_files)]
        rows += [Row("eval", model, "float32", 1.3), Row("infer", model, "float32", from_files)]
    return rows


ROWS = {row.name: row for row in _rows()}
