"""The ONNX file of a trained model: reads its metadata, and computes scores with onnxruntime, without TensorFlow.

The graph takes `frames`, float32 or uint8 [B, T, D], which are the features side by side, and `num_frames`, int32 [B],
or [1] for all videos. It gives `scores`, float32 [B, C]. Frames from index `num_frames` on are ignored. In the graph, a
video-level model gets the mean of the frames, so the features of a video can be given as one frame. The metadata of the
file are:

    yt8m             JSON: version of this format, name of the model, format of the data, extractors, step, whether the
                     weights are moving averages, type of the weights
    vocabulary.csv   the names of the classes, if the model has its own
    thresholds.csv   the thresholds of the tags, if they were chosen at this step
    figures.json     the metrics of the last evaluation, if it was of this step
    README.md        the model card
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import formats, storage
from yt8m.errors import RunError, UsageError, first_line
from yt8m.numerics.onnx_session import open_session
from yt8m.records import data_format
from yt8m.records.data_format import PUBLISHED, FeatureFormat, dequantized, quantized
from yt8m.records.record_parser import NumpyBatch
from yt8m.storage import copies

ABOUT, FIGURES = "yt8m", "figures.json"
_OTHER_KEYS = {"model", "extractors", "step", "is_averaged", "weights"}  # must be in the JSON under ABOUT
FRAMES, NUM_FRAMES, SCORES = "frames", "num_frames", "scores"


class OnnxFile:
    """A model in a session of onnxruntime on the CPU. Several threads may call it at once.

    Args:
      path: path of the file, local or gs://.
      content: the content of the file, if the caller has it; then nothing is read, and `path` is only for messages.

    Attributes:
      about: the JSON under `yt8m` in the metadata.
      texts: the texts in the metadata, by name.
      format: the format of the data that the model takes: level, features and number of classes.

    Raises:
      UsageError: there is no such file, this project did not write it, it is damaged, or onnxruntime is not installed.
      RunError: the file cannot be read, or a newer version of this project wrote it.
    """

    def __init__(self, path: str, content: bytes | None = None) -> None:
        if content is None:
            _refuse_unreadable(path)
        self._path = path
        self._session = open_session(content or copies.file_copy(path), path, path, cpu_only=True)
        self.texts: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        try:
            self.about: dict[str, Any] = storage.parse_json(self.texts[ABOUT])
            formats.refuse_newer(path, self.about["version"], formats.ONNX)
            self.format = data_format.parse(self.about["format"])
            if not self.about.keys() >= _OTHER_KEYS:
                raise KeyError(ABOUT)
        except (KeyError, ValueError, TypeError) as error:
            raise UsageError(
                f"{path}: this project did not write this ONNX file, so its inputs are unknown; `yt8m export "
                "--format=onnx` writes such files."
            ) from error
        self._takes_bytes = self._session.get_inputs()[0].type == "tensor(uint8)"

    def scores(self, batch: NumpyBatch) -> NDArray[np.float32]:
        """Computes the scores of a batch, float32 [B, C].

        Args:
          batch: videos with the model's features. Features that are bytes are dequantised with YouTube-8M's range, even
            if the model's data have another range.

        Raises:
          RunError: onnxruntime cannot run the model on the batch.
        """
        values = [batch.features[feature.name] for feature in self.format.features]
        if self._takes_bytes:
            values = list(map(_as_bytes, values, self.format.features))
        else:
            values = list(map(_as_floats, values))
        joined = np.concatenate(values, axis=-1) if len(values) > 1 else values[0]
        return self.scores_of_frames(joined if joined.ndim == 3 else joined[:, np.newaxis], batch.num_frames)

    def scores_of_frames(self, frames: NDArray[Any], num_frames: NDArray[np.int32]) -> NDArray[np.float32]:
        """Computes the scores for the inputs of the graph, float32 [B, C]; raises like `scores`.

        Args:
          frames: [B, T, D], of the type that the graph takes.
          num_frames: [B], or [1] for all videos.
        """
        try:
            return np.asarray(self._session.run([SCORES], {FRAMES: frames, NUM_FRAMES: num_frames})[0])
        except Exception as error:  # see `open_session`
            raise RunError(f"{self._path}: the model fails on these videos: {first_line(error)}") from error


def _refuse_unreadable(path: str) -> None:
    """Raises `UsageError` or `RunError` with the reason if a file cannot be read; onnxruntime gives no reason."""
    if storage.is_dir(path) or not storage.exists(path):
        reason = "this is a folder" if storage.is_dir(path) else "there is no such file"
        raise UsageError(f"{path}: {reason}; name a file that `yt8m export --format=onnx` wrote.")
    storage.read_start(path, 1)


def _as_floats(values: NDArray[Any]) -> NDArray[np.float32]:
    return dequantized(values, PUBLISHED) if values.dtype == np.uint8 else values.astype(np.float32, copy=False)


def _as_bytes(values: NDArray[Any], feature: FeatureFormat) -> NDArray[np.uint8]:
    """Quantises values with the range of a feature; values that were dequantised become the original bytes exactly."""
    if values.dtype == np.uint8 and feature.range == PUBLISHED:
        return values
    return quantized(_as_floats(values), feature.range or PUBLISHED)
