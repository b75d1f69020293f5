"""Builds the graph of a training, evaluation or prediction from any workload, an `Inputter` and a `Modeler`."""

import importlib
from typing import Any

from yt8m.graph.apply import create_averages
from yt8m.graph.build import build, build_eval, summary_tags
from yt8m.graph.optimizers import Synchrony, create_optimizer, learning_rate
from yt8m.graph.protocols import (
    EvalOps,
    Evaluator,
    InputOps,
    Inputter,
    MeanLoss,
    Modeler,
    PredictOps,
    Reduction,
    Report,
    TrainOps,
    check_workload,
)
from yt8m.graph.restore import Restorer, restore_predict, restore_train

__all__ = ["EvalOps", "Evaluator", "InputOps", "Inputter", "MeanLoss", "Modeler", "PredictOps", "Reduction", "Report"]
__all__ += ["Restorer", "Synchrony", "TrainOps"]
__all__ += ["build", "build_eval", "check_workload", "create_averages", "create_optimizer", "learning_rate"]
__all__ += ["restore_predict", "restore_train", "summary_tags"]


def __getattr__(name: str) -> Any:
    # The published code has `build_graph` here. Ours depends on the video workload, which this package must not import
    # when it is loaded.
    if name != "build_graph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("yt8m.video.modeler").build_graph
