"""One training, evaluation or prediction graph, for any workload."""

from yt8m.graph.averages import create_averages
from yt8m.graph.build import build, build_eval, predict_path
from yt8m.graph.build_graph import build_graph
from yt8m.graph.inputs import input_saver
from yt8m.graph.modeler import VideoModeler
from yt8m.graph.ops import EvalOps, InputOps, PredictOps, Reduction, Report, TrainOps
from yt8m.graph.optimizers import create_optimizer, learning_rate
from yt8m.graph.protocols import Evaluator, Inputter, MeanLoss, Modeler
from yt8m.graph.restore import Restorer, restore_predict, restore_train, signature_of
from yt8m.graph.synchrony import Synchrony
from yt8m.graph.warm_start import WarmStart, warm_start

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
    "Synchrony",
    "TrainOps",
    "VideoModeler",
    "WarmStart",
    "build",
    "build_eval",
    "build_graph",
    "create_averages",
    "create_optimizer",
    "input_saver",
    "learning_rate",
    "predict_path",
    "restore_predict",
    "restore_train",
    "signature_of",
    "warm_start",
]
