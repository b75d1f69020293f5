"""eval/videos.npz: the figures of an evaluation with a sample of its videos, in one file so as to agree."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.eval_util.videos import Videos
from yt8m.storage import json_text

FOLDER, NAME = "eval", "videos.npz"


class EvalSamples(NamedTuple):
    """What one evaluation has kept.

    Attributes:
      figures: as eval/report.json has them, over all videos.
      videos: some of them, or all.
      num_classes: C.
      seen: videos that were judged.
    """

    figures: Mapping[str, Any]
    videos: Videos
    num_classes: int
    seen: int


def path_in(train_dir: str) -> str:
    """Where a run keeps it."""
    return storage.join(train_dir, FOLDER, NAME)


def write(train_dir: str, kept: EvalSamples) -> None:
    """Writes the file, whole or not at all."""
    told = json.dumps({"figures": kept.figures, "num_classes": kept.num_classes, "seen": kept.seen})
    packed = io.BytesIO()  # a zip goes back to its beginning, which an upload cannot
    np.savez_compressed(packed, told=np.frombuffer(told.encode(), np.uint8), **asdict(kept.videos))
    with storage.write_atomic(path_in(train_dir)) as file:
        file.write(packed.getvalue())


def read(train_dir: str) -> EvalSamples:
    """What the last evaluation with --report has kept.

    Raises:
      RunError: there is none, or it is damaged; the text says what to run.
    """
    path = path_in(train_dir)
    again = f"run `yt8m eval --train_dir={train_dir} --run_once --report` (with --eval_data_pattern)"
    if not storage.exists(path):
        raise RunError(f"{train_dir} has no evaluation with a report ({path} is missing): {again}.")
    try:
        with np.load(io.BytesIO(storage.read_bytes(path)), allow_pickle=False) as arrays:
            told = json_text.parse(arrays["told"].tobytes())
            videos = Videos(**{field.name: arrays[field.name] for field in fields(Videos)})
        return EvalSamples(told["figures"], videos, int(told["num_classes"]), int(told["seen"]))
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(f"{path} is damaged, or another file: {again}.") from error
