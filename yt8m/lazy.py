"""TensorFlow, imported at the first use of one of its names.

`import tensorflow` takes 1.5 s. Flag errors, `--help` and the tools that need no graph import the
model classes (for their hyper-parameters) but never touch `tf`, and so never pay for it.
"""

from __future__ import annotations

import importlib
import os
import types
from typing import TYPE_CHECKING, Any


class _LazyModule(types.ModuleType):
    """Stands for a module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        # The runtime's own chatter (CPU features, missing CUDA) hides our lines; a set variable wins.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value


if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf
else:
    tf = _LazyModule("tensorflow.compat.v1")

__all__ = ["tf"]
