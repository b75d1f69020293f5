"""One training, evaluation or prediction graph, for any workload."""

import importlib
from typing import Any

from yt8m.graph.apply import create_averages
from yt8m.graph.build import build, build_eval, predict_path
from yt8m.graph.inputs import input_saver
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
from yt8m.graph.restore import (
    Restorer,
    Started,
    read_meta_graph,
    restore_predict,
    restore_train,
    signature_of,
    table_of_starts,
    warm_start,
)

__all__ = [
    "EvalOps",
    "Evaluator",
    "InputOps",
    "Inputter",
    "MeanLoss",
    "Modeler",
    "PredictOps",
    "Reduction",
    "Report",
    "Restorer",
    "Started",
    "Synchrony",
    "TrainOps",
    "build",
    "build_eval",
    "check_workload",
    "create_averages",
    "create_optimizer",
    "input_saver",
    "learning_rate",
    "predict_path",
    "read_meta_graph",
    "restore_predict",
    "restore_train",
    "signature_of",
    "table_of_starts",
    "warm_start",
]


def __getattr__(name: str) -> Any:
    # The published code has `build_graph` here. It depends on the video workload, so it is in a higher layer.
    if name != "build_graph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("yt8m.video.modeler").build_graph
