"""Reads and writes eval/videos.npz, which holds the metrics of an evaluation and a sample of its videos.

Both are in one file, so that they always come from the same evaluation.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m import storage
from yt8m.errors import RunError, refusing
from yt8m.eval_util.metrics import Description
from yt8m.eval_util.videos import Videos
from yt8m.records.thresholds import Guarantee, OperatingPoints, PrecisionTarget

FOLDER, NAME = "eval", "videos.npz"
_DESCRIPTION = "told"  # name of the array that holds `figures`, `num_classes` and `seen` as JSON (UTF-8 bytes)
_POINTS_PREFIX = "class_"  # the names of the arrays of `OperatingPoints` begin with it


class EvalSamples(NamedTuple):
    """The metrics, the sampled videos and the thresholds of one evaluation."""

    figures: Mapping[str, Any]
    videos: Videos
    num_classes: int
    seen: int
    points: OperatingPoints

    def descriptions(self) -> list[Description]:
        """The name, the key and the format of each metric in `figures`."""
        return [Description(**row) for row in self.figures["metrics"]]


_VIDEO_ARRAYS = [field.name for field in fields(Videos) if field.name != "ids"]


def _read_ids(arrays: Mapping[str, Any]) -> npt.NDArray[np.object_]:
    """The ids of the videos, object [N] of bytes, from the arrays of the file by name.

    The file has the bytes of all ids in one array and their sizes in another, because an array of objects could be read
    only by unpickling, which can run code.
    """
    ends = np.cumsum(arrays["id_sizes"]).tolist()
    text = arrays["ids"].tobytes()
    ids = np.empty(len(ends), object)
    ids[:] = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return ids


def _arrays_of_points(points: OperatingPoints) -> dict[str, Any]:
    """{name of the field: array} of the thresholds, and of their guarantee if they have one."""
    arrays = points._asdict()
    guarantee: Guarantee | None = arrays.pop("guarantee")
    if guarantee is None:
        return arrays
    return arrays | {name: np.array(values) for name, values in guarantee._asdict().items()}


def _read_points(arrays: Mapping[str, Any]) -> OperatingPoints:
    """The thresholds of the classes, from the arrays of the file by name."""
    names = [name for name in OperatingPoints._fields if name != "guarantee"]
    points = OperatingPoints(**{name: arrays[f"{_POINTS_PREFIX}{name}"] for name in names})
    if f"{_POINTS_PREFIX}target" not in arrays:
        return points
    target, *others = (arrays[f"{_POINTS_PREFIX}{name}"] for name in Guarantee._fields)
    return points._replace(guarantee=Guarantee(PrecisionTarget(*target.tolist()), *others))


def path_in(train_dir: str) -> str:
    """The path of videos.npz in a run's folder."""
    return storage.join(train_dir, FOLDER, NAME)


def write(train_dir: str, samples: EvalSamples) -> None:
    """Writes videos.npz in a run's folder, whole or not at all; raises `RunError` if it cannot be written."""
    description = json.dumps({"figures": samples.figures, "num_classes": samples.num_classes, "seen": samples.seen})
    points = {f"{_POINTS_PREFIX}{name}": values for name, values in _arrays_of_points(samples.points).items()}
    videos = {name: getattr(samples.videos, name) for name in _VIDEO_ARRAYS}
    ids = [bytes(video_id) for video_id in samples.videos.ids]
    videos |= {
        "ids": np.frombuffer(b"".join(ids), np.uint8),
        "id_sizes": np.array([len(video_id) for video_id in ids], np.int64),
    }
    arrays = {_DESCRIPTION: np.frombuffer(description.encode(), np.uint8), **videos, **points}
    file = io.BytesIO()  # in memory, because writing a zip file needs seeking, which an upload to a bucket lacks
    np.savez_compressed(file, **arrays)
    storage.write(path_in(train_dir), file.getvalue())


def read(train_dir: str) -> EvalSamples:
    """Reads the videos.npz of the last evaluation with --report."""
    path = path_in(train_dir)
    remedy = f"run `yt8m eval --model={train_dir} --data=FILES --run_once --report`"
    if not storage.exists(path):
        if storage.exists(storage.join(train_dir, "saved_model.pb")):
            remedy = "it is an exported model, which has none: name the run that it was exported from"
        raise RunError(f"{train_dir} has no evaluation with a report ({path} is missing): {remedy}.")

    def refusal(_: Exception) -> Exception:
        return RunError(f"{path} is damaged, or is not the videos.npz of an evaluation: {remedy}.")

    with refusing(refusal):
        with np.load(io.BytesIO(storage.read_bytes(path)), allow_pickle=False) as arrays:
            description = storage.parse_json(arrays[_DESCRIPTION].tobytes())
            videos = Videos(**{name: arrays[name] for name in _VIDEO_ARRAYS}, ids=_read_ids(arrays))
            points = _read_points(arrays)
        samples = EvalSamples(
            description["figures"], videos, int(description["num_classes"]), int(description["seen"]), points
        )
        samples.descriptions()  # fails here, not later, if the metrics in the file are damaged
        return samples
