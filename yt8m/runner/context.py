"""What callbacks get to know and to share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from yt8m.graph import Modeler
from yt8m.runner.config import RunnerConfig
from yt8m.runner.lines import StepLine


@dataclass
class Context:
    """Handed to each callback when it is made; the engine keeps `step` up to date.

    Attributes:
      config: the run's.
      ops: the graph's handles: TrainOps in training, else EvalOps.
      modeler: for its evaluator.
      line: the line of the step, shared.
      saver: the RunSaver that saves checkpoints; None in evaluation and inference.
      is_resumed: whether the variables came from a checkpoint.
      step: last completed step: the global step in training, else the number of batches.
      global_step: of the training, or of the checkpoint.
      has_read_all: whether the data came to their end; known when the callbacks' `end` is called.
      results: what a callback leaves for the Outcome.
    """

    config: RunnerConfig
    ops: Any
    modeler: Modeler
    line: StepLine
    saver: Any = None
    is_resumed: bool = False
    step: int = 0
    global_step: int = 0
    has_read_all: bool = False
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def line_due(self) -> bool:
        """Whether the step about to run gets a line."""
        return self.line.due(self.step + 1)
