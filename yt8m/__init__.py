"""Large-scale multi-label video classification on YouTube-8M features and on the user's own videos.

From Python: `yt8m.Classifier` trains on arrays and predicts, `yt8m.extract` gives the features of a video, `yt8m.fit`
trains on records, `yt8m.load` loads a trained model, `yt8m.read_records` reads records into NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from yt8m.version import __version__ as __version__

if TYPE_CHECKING:
    from yt8m.classifier import Classifier
    from yt8m.errors import RunError, UsageError
    from yt8m.python_api import (
        EvaluationReport,
        FittedRun,
        Model,
        Predictions,
        ResultRows,
        ScoredClass,
        VideoPrediction,
        audit,
        evaluate,
        export_model,
        extract,
        fit,
        inspect,
        list_runs,
        load,
        make_records,
        report,
        select,
    )
    from yt8m.records.batches import Records, read_records
    from yt8m.records.record_parser import NumpyBatch

__all__ = [
    "Classifier",
    "EvaluationReport",
    "FittedRun",
    "Model",
    "NumpyBatch",
    "Predictions",
    "Records",
    "ResultRows",
    "RunError",
    "ScoredClass",
    "UsageError",
    "VideoPrediction",
    "audit",
    "evaluate",
    "export_model",
    "extract",
    "fit",
    "inspect",
    "list_runs",
    "load",
    "make_records",
    "read_records",
    "report",
    "select",
]


# {public name: its module}, where that is not yt8m.python_api. A module is imported at the first use of a name, because
# importing TensorFlow is slow.
_MODULES = {
    "Classifier": "yt8m.classifier",
    "NumpyBatch": "yt8m.records.record_parser",
    "Records": "yt8m.records.batches",
    "RunError": "yt8m.errors",
    "UsageError": "yt8m.errors",
    "read_records": "yt8m.records.batches",
}


# {what other packages call it: what it is here}
_OTHER_NAMES = {
    "train": "yt8m.fit(data=...) trains on records, yt8m.Classifier().fit(X, y) on arrays",
    "predict": "yt8m.load(path).predict(data) predicts",
    "eval": "yt8m.evaluate(path, data) evaluates",
    "load_model": "yt8m.load(path) loads a model",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        hint = f"; {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
        raise AttributeError(f"module 'yt8m' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(_MODULES.get(name, "yt8m.python_api")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
