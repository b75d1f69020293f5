"""The scorer of an ONNX file that this project wrote. It needs no TensorFlow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.export.onnx_file import OnnxFile
from yt8m.records import span_rules, thresholds, vocabulary
from yt8m.records.batches import Records
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.model_input import ModelInput, Videos, padded
from yt8m.scoring.scorer import ArrayScorer
from yt8m.storage import own_runs


class OnnxScorer(ArrayScorer):
    """A model in an ONNX file, which onnxruntime runs on the CPU. Records are parsed with NumPy.

    Args:
      path: the file, local or gs://.
    """

    def __init__(self, path: str) -> None:
        self._file = OnnxFile(path)
        about, names = self._file.about, self._file.texts.get(vocabulary.NAME)
        # The file can make this process run code only if it names an extractor with code of its own.
        is_own = bool(about["extractors"]) and own_runs.is_noted(storage.read_bytes(path))
        takes = ModelInput(path, self._file.format, about["extractors"], is_own, has_own_reader=False)
        own_names = vocabulary.parse(names.encode(), path) if names else vocabulary.of_names(())
        super().__init__(path, takes, own_names, path, about)
        self._records = Records([], takes.format, max_frames=takes.max_frames)

    def own_tagger(self) -> tuple[thresholds.Tagger, str] | None:
        """See `Scorer.own_tagger`; the thresholds, if the model has any, are in the ONNX file."""
        text = self._file.texts.get(thresholds.NAME)
        return (thresholds.parse(text, self.path, self.num_classes), self.path) if text else None

    def span_rule(self) -> tuple[str, str]:
        """See `Scorer.span_rule`; the text is in the ONNX file."""
        text = self._file.texts.get(span_rules.NAME, "")
        return text, self.path if text else ""

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], NDArray[np.float32]]:
        """See `Scorer.compute`; raises `UsageError` if the videos are given as numbers of cached records."""
        if isinstance(videos, np.ndarray):
            raise UsageError(
                f"{self.path} is an ONNX file, which cannot read a cache: name its run, or leave out --cache."
            )
        # Only clients of `yt8m serve` send serialized records. Records do not say how their features were quantised, so
        # bytes are dequantised with the ranges of the training data.
        if not isinstance(videos, NumpyBatch):
            videos = self.takes.arranged(self._records.parsed(videos))
        return list(videos.ids), self._file.scores(padded(videos, rows))[: len(videos)]

    def close(self) -> None:
        """Does nothing: onnxruntime frees the session together with this object."""
