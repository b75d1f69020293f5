"""Large-scale multi-label video classification on YouTube-8M features and on the user's own videos.

From Python: `yt8m.extract` gives the features of a video, `yt8m.fit` trains, `yt8m.load` loads a trained model,
`yt8m.read_records` reads records into NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yt8m.errors import RunError, UsageError
    from yt8m.python_api import FittedRun, Model, ScoredClass, VideoPrediction, extract, fit, load
    from yt8m.records.batches import Records, read_records
    from yt8m.records.record_parser import NumpyBatch

__version__ = "0.1.0"

# The module of each public name. It is imported at first use, because importing TensorFlow and NumPy is slow.
_PUBLIC = {
    "RunError": "yt8m.errors",
    "UsageError": "yt8m.errors",
    "FittedRun": "yt8m.python_api",
    "Model": "yt8m.python_api",
    "ScoredClass": "yt8m.python_api",
    "VideoPrediction": "yt8m.python_api",
    "extract": "yt8m.python_api",
    "fit": "yt8m.python_api",
    "load": "yt8m.python_api",
    "Records": "yt8m.records.batches",
    "read_records": "yt8m.records.batches",
    "NumpyBatch": "yt8m.records.record_parser",
}
__all__ = [
    "FittedRun",
    "Model",
    "NumpyBatch",
    "Records",
    "RunError",
    "ScoredClass",
    "UsageError",
    "VideoPrediction",
    "extract",
    "fit",
    "load",
    "read_records",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'yt8m' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
