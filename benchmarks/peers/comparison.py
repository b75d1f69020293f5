"""What is compared: six networks, all evaluated and used, all but one trained, with one batch size for all."""

from __future__ import annotations

import importlib.util
import pathlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.measure import Measured, take_turns
from benchmarks.peers.contestants import Contestant
from benchmarks.rows import Row, verdict

OURS, PEERS = "yt8m", ("eager", "compiled")
# The largest relative difference of losses. The operands of bfloat16 products have 8 bits (4e-3), and the contestants
# round others of them: this project all products, PyTorch what its autocast lists.
AGREES = {"float32": 1e-4, "bfloat16": 2e-2}


class Network(NamedTuple):
    """One model.

    Attributes:
      level: of the records, video or frame.
      batch: videos of a step.
      steps: steps of a turn.
      options: hyper-parameters that differ from the defaults. Dropout is off, so that losses can be compared.
      draws_frames: whether a step draws frames at random. Stored batches then repeat the first frame of each video, so
        that all contestants draw the same.
      is_trained: whether its training is compared too. A row of GruModel takes minutes, and all rows have one hour.
    """

    level: str
    batch: int
    steps: int
    options: Mapping[str, float] = {}
    draws_frames: bool = False
    is_trained: bool = True


NETWORKS = {
    "LogisticModel": Network("video", 1024, 20),
    "MoeModel": Network("video", 1024, 10),
    "DbofModel": Network("frame", 64, 4, draws_frames=True),
    "NeXtVladModel": Network("frame", 32, 2, {"drop_rate": 0.0}),
    "LstmModel": Network("frame", 32, 1),
    "GruModel": Network("frame", 32, 1, is_trained=False),
}


@dataclass(frozen=True)
class Comparison:
    """One comparison.

    Attributes:
      work: "step" trains on batches in memory, "files" trains from files; "eval" and "infer" read files too.
      model: name of the network.
      precision: float32 or bfloat16.
    """

    work: str
    model: str
    precision: str = "float32"

    @property
    def network(self) -> Network:
        """The network."""
        return NETWORKS[self.model]

    @property
    def goal(self) -> float:
        """Least ratio of this project's rate to that of the best peer."""
        is_reading_much = self.work == "eval" or (self.work != "step" and self.network.level == "video")
        return 1.3 if is_reading_much else 1.0

    def measure(self, repeats: int) -> Measured:
        """Takes turns with both peers, of which the faster one is the first floor."""
        if missing := [name for name in ("torch", "torchmetrics") if importlib.util.find_spec(name) is None]:
            raise SystemExit(f"not installed: {', '.join(missing)}; pip install {' '.join(missing)}")
        words = (self.work, self.model, self.precision)
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            ours, *peers = (stack.enter_context(Contestant(name, *words, folder)) for name in (OURS, *PEERS))
            # The first turn of this project stores data for the others.
            floors = {peer.name: peer.turn for peer in peers}
            measured = take_turns(self.network.batch, ours.turn, floors, repeats)
            notes = [self.compare_losses(pathlib.Path(folder))] if self.work == "step" else []
        by_speed = sorted(
            measured.floors.items(), key=lambda item: statistics.median(sample.seconds for sample in item[1])
        )
        return Measured(measured.count, measured.samples, dict(by_speed), notes)

    def compare_losses(self, folder: pathlib.Path) -> str:
        """How much the losses of the first steps differ, which every contestant has stored."""
        ours, *theirs = (np.load(losses_path(folder, name)) for name in (OURS, *PEERS))
        return describe_difference(ours, theirs, AGREES[self.precision])


def losses_path(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The file of the first losses of a contestant."""
    return folder / f"losses of {name}.npy"


def describe_difference(ours: np.ndarray, theirs: Sequence[np.ndarray], most: float) -> str:
    """The largest relative difference, with yes or no."""
    difference = max(float(np.max(np.abs(losses - ours) / ours)) for losses in theirs)
    return verdict(difference <= most, f"losses differ by {difference:.0e}, at most {most:.0e}")


def _rows() -> dict[str, Row]:
    trained = [(work, precision) for work in ("step", "files") for precision in ("float32", "bfloat16")]
    used = [("eval", "float32"), ("infer", "float32")]
    rows = {}
    for model, network in NETWORKS.items():
        for work, precision in [*(trained if network.is_trained else ()), *used]:
            comparison = Comparison(work, model, precision)
            name = f"peers/{work}/{model}" + ("" if precision == "float32" else f", {precision}")
            rows[name] = Row(comparison.measure, ratio=comparison.goal)
    return rows


ROWS = _rows()
