"""The ONNX file of a trained model: reads its metadata, and computes scores with onnxruntime, without TensorFlow.

The graph takes `frames`, float32 or uint8 [B, T, D], which are the features side by side, and `num_frames`, int32 [B],
or [1] for all videos. It gives `scores`, float32 [B, C]. Frames from index `num_frames` on are ignored. In the graph, a
video-level model gets the mean of the frames, so the features of a video can be given as one frame. The metadata of the
file are:

    yt8m             JSON: version of this format, name of the model, format of the data, extractors, step, whether the
                     weights are moving averages, type of the weights
    vocabulary.csv   the names of the classes, if the model has its own
    thresholds.csv   the thresholds of the tags, if they were chosen at this step
    spans.json       how cells become spans, if the model learned from cells
    figures.json     the metrics of the last evaluation, if it was of this step
    README.md        the model card
    checksum         the CRC-32C of the file without this entry and without entries that other programs added
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import formats, storage
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.export import descriptions
from yt8m.export.onnx_check import FRAMES, NUM_FRAMES, SCORES, differs_from_checksum, refuse_damaged, refuse_other_graph
from yt8m.numerics.onnx_session import open_session
from yt8m.records import data_format, span_rules, thresholds, vocabulary
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat, Range, dequantized, quantized
from yt8m.records.record_parser import NumpyBatch
from yt8m.storage import copies

ABOUT, FIGURES, CARD = "yt8m", "figures.json", "README.md"
WRITTEN_TEXTS = (
    ABOUT,
    vocabulary.NAME,
    thresholds.NAME,
    span_rules.NAME,
    FIGURES,
    CARD,
)  # the texts that the checksum covers
_ROUNDING = 1e-2  # how far outside of 0 to 1 rounding errors may carry a probability; float16 weights need 1e-3


class OnnxFile:
    """A model in a session of onnxruntime on the CPU. Several threads may call it at once.

    Args:
      path: path of the file, local or gs://.

    Attributes:
      about: the JSON under `yt8m` in the metadata.
    """

    def __init__(self, path: str, content: bytes | None = None) -> None:
        if content is None:
            _refuse_unreadable(path)
        self._path = path
        model = content or copies.file_copy(path)
        stored = model if isinstance(model, bytes) else storage.read_bytes(model)
        is_damaged = differs_from_checksum(stored, WRITTEN_TEXTS)
        del stored  # up to 2 GB
        self._session = open_session(model, path, path, cpu_only=True)
        self.texts, self.about, self.format = self._parse_metadata()
        if is_damaged:
            refuse_damaged(path)
        refuse_other_graph(path, self._session, self.format)
        self._takes_bytes = self._session.get_inputs()[0].type == "tensor(uint8)"
        self._has_warned = False
        self._try_graph()

    def _parse_metadata(self) -> tuple[Mapping[str, str], dict[str, Any], DataFormat]:
        """The texts of the metadata, the JSON under `ABOUT`, and the format of the data in it."""

        def refusal(_: Exception) -> Exception:
            return UsageError(
                f"{self._path}: this project did not write this ONNX file, or its description is damaged, so its "
                "inputs are unknown; `yt8m export --format=onnx` writes such files."
            )

        with refusing(refusal):
            texts = self._session.get_modelmeta().custom_metadata_map
            about: dict[str, Any] = storage.parse_json(texts[ABOUT])
            formats.refuse_newer(self._path, about["version"], formats.ONNX)
            data = data_format.parse(about["format"])
            descriptions.check(about, weights=str)
            if data.num_classes is None:
                raise ValueError("the number of classes is unknown")
        return texts, about, data

    def _try_graph(self) -> None:
        """Runs the graph on two videos of zeros: a graph may compute other shapes than it declares."""
        count = 3 if self.format.num_classes == 2 else 2  # so that transposed scores have another shape
        frames_type = np.uint8 if self._takes_bytes else np.float32
        frames = np.zeros((count, 1, sum(self.format.sizes().values())), frames_type)
        self.scores_of_frames(frames, np.ones(count, np.int32))

    def scores(self, batch: NumpyBatch) -> NDArray[np.float32]:
        """Computes the scores of a batch, float32 [B, C].

        Args:
          batch: videos with the model's features. Features that are bytes are dequantised with YouTube-8M's range, even
            if the model's data have another range.
        """
        values = [batch.features[feature.name] for feature in self.format.features]
        if self._takes_bytes:
            values = list(map(self._as_bytes, values, self.format.features))
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
            scores = np.asarray(self._session.run([SCORES], {FRAMES: frames, NUM_FRAMES: num_frames})[0])
        except Exception as error:  # see `open_session`
            raise RunError(f"{self._path}: the model fails on these videos: {first_line(error)}") from error
        expected = (len(frames), self.format.num_classes)
        if scores.shape != expected or scores.dtype != np.float32:
            raise RunError(
                f"{self._path}: the graph gives scores of type {scores.dtype} and shape {list(scores.shape)}; expected "
                f"float32 {list(expected)} by the description of the file. Export the model again."
            )
        if self.about.get("has_probabilities", True):
            self._refuse_impossible(scores)
        return scores

    def _refuse_impossible(self, scores: NDArray[np.float32]) -> None:
        """Raises `RunError` if a score is no probability. NaN passes: `Scorer.scores` explains it."""
        low, high = scores.min(initial=0), scores.max(initial=1)
        if low < -_ROUNDING or high > 1 + _ROUNDING:
            raise RunError(
                f"{self._path}: a score is {low if low < -_ROUNDING else high:.3g}, but the scores of this model are "
                "probabilities, from 0 to 1: the file is damaged or was changed. Export the model again."
            )

    def _as_bytes(self, values: NDArray[Any], feature: FeatureFormat) -> NDArray[np.uint8]:
        """Quantises values with the range of a feature; dequantised bytes become the original bytes exactly."""
        if values.dtype == np.uint8 and feature.range == PUBLISHED:
            return values
        bounds, floats = feature.range or PUBLISHED, _as_floats(values)
        if not self._has_warned:
            self._warn_if_clipped(floats, bounds, feature.name)
        return quantized(floats, bounds)

    def _warn_if_clipped(self, values: NDArray[np.float32], bounds: Range, name: str) -> None:
        """Says once that bytes cannot hold values of a feature, which changes the scores."""
        margin = (bounds[1] - bounds[0]) / 255  # dequantised bytes may lie outside by half a step
        outside = (values < bounds[0] - margin) | (values > bounds[1] + margin)
        if outside.any():
            self._has_warned = True
            logging.warning(
                f"{self._path} takes bytes, and bytes of {name} stand for {bounds[0]:g} to {bounds[1]:g}: "
                f"{outside.sum()} of {values.size} values of a batch lie outside, up to "
                f"{np.abs(values[outside]).max():g}, and are clipped, so the scores differ from those of the run. "
                "Export the model with --input_type=float32 for such values."
            )


def _refuse_unreadable(path: str) -> None:
    """Raises `UsageError` or `RunError` with the reason if a file cannot be read; onnxruntime gives no reason."""
    if storage.is_dir(path) or not storage.exists(path):
        reason = "this is a folder" if storage.is_dir(path) else "there is no such file"
        raise UsageError(f"{path}: {reason}; name a file that `yt8m export --format=onnx` wrote.")
    storage.read_start(path, 1)


def _as_floats(values: NDArray[Any]) -> NDArray[np.float32]:
    return dequantized(values, PUBLISHED) if values.dtype == np.uint8 else values.astype(np.float32, copy=False)
