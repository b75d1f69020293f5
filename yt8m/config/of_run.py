"""The options that name a trained run and its checkpoint, and `same_as`, which declares an option like another one.

These are not in `programs`, so that a prediction by an ONNX file imports nothing that only trainings need.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from yt8m.options import Checked, option, path_option
from yt8m.registry import TRUST_HELP


def same_as(cls: Any, name: str, **changed: Any) -> Any:
    """Declares an option like one of another config; its flag has the name of the new field, and no aliases."""
    declared = cls.__dataclass_fields__[name]
    return option(**{"default": declared.default, **declared.metadata, "flag": "", "aliases": (), **changed})


@dataclass(frozen=True)
class OfRun(Checked):
    """The flags that name a trained run."""

    train_dir: str = path_option("folder of the run; by default the newest under runs/", is_common=True)
    _: KW_ONLY
    trust_code: bool = option(False, TRUST_HELP, is_common=True)


@dataclass(frozen=True)
class OfCheckpoint(OfRun):
    """The flags that name a trained run and one of its checkpoints."""

    _: KW_ONLY
    checkpoint: str = option(
        "",
        "which checkpoint of the run: last, best (kept by train --eval_data_pattern or eval --keep_best), or its step "
        "[best if the training chose its own validation videos, else last]",
    )
