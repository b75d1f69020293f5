"""Models loaded for Python code: the kinds of input (files, records or arrays), and the sessions that compute."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import readers, storage
from yt8m.commands import inference, saved_run
from yt8m.commands.fed_model import FedExport, FedModel, Input
from yt8m.config import data_fit, run_dir
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.config.train_config import DataConfig
from yt8m.errors import UsageError
from yt8m.export import saved_model
from yt8m.export.saved_model import SavedModel
from yt8m.records import manifest, vocabulary
from yt8m.records.batches import Records, read_records
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat, usual_range
from yt8m.records.record_parser import NumpyBatch
from yt8m.runner import checkpoints
from yt8m.storage import copies

Data = str | os.PathLike[str] | Records | NumpyBatch | Iterable[NumpyBatch] | Mapping[str, Any]
_ROWS_AT_ONCE = 256  # rows of arrays in a batch
ARCHIVES = (".tgz", ".tar.gz")
OTHER_RANGES = (
    "the bytes of these records stand for another range of values than those that the model was trained on, so they "
    "cannot be read as they are: write the records again with the range of the training data."
)


class Takes(NamedTuple):
    """What a model takes as input.

    Attributes:
      folder: the folder of the model.
      features: names of the features, in the order of the model.
      has_frames: whether it takes frames; an export also takes frames for a model of videos, and computes their means.
      extractors: the extractors of the features, as manifests name them; empty if they are unknown.
      is_own: whether this user is known to have trained the run on this machine.
    """

    folder: str
    features: Sequence[str]
    has_frames: bool
    extractors: Sequence[Mapping[str, Any]]
    is_own: bool


class LoadedRun:
    """The model of a run or of an archive.

    Args:
      source: the model.
      config: how the records are read: limits, and what is done with damaged ones.

    Attributes:
      unpacked: holds the folder that an archive was unpacked into, until the model is closed.
      source: the model as it was found.
      data: the features and classes that the model reads, and how.
      num_classes: number of classes, C.
      names: the vocabulary.
      checkpoint, step: the path of the weights, and the training step at which they were saved.
      model: the name of the model.
    """

    def __init__(self, source: inference.Source, config: InferenceConfig | None = None) -> None:
        self.source, self.unpacked, self._lock = source, contextlib.ExitStack(), threading.Lock()
        self._is_closed = False
        self.data = saved_run.data_for(config or InferenceConfig(), source.run.data, "", False)
        self.num_classes, self.model = self.data.num_classes, source.run.model.model
        self.names = vocabulary.of(self.num_classes, source.names)
        self.checkpoint = source.checkpoint
        self.step = 0 if source.meta_prefix else checkpoints.step_of(source.checkpoint)
        self._fed: dict[Any, FedModel] = {}
        self._with(None)

    def takes(self) -> Takes:
        """What the model takes."""
        source, data = self.source, self.data
        return Takes(
            source.folder, data.feature_names, data.frame_features, source.run.data.extractors, is_own=source.is_own
        )

    def _with(self, dtypes: tuple[np.dtype[Any], ...] | None) -> FedModel:
        """The `FedModel` for arrays of these types; for records if `dtypes` is None."""
        with self._lock:
            if self._is_closed:
                raise UsageError(f"{self.source.folder}: this model is closed; load it again.")
            if dtypes not in self._fed:
                self._fed[dtypes] = FedModel(self.source, self.data, "infer", dtypes=dtypes)
            return self._fed[dtypes]

    def fed(self, given: Input) -> FedModel:
        """The model for input of the same kind as `first`."""
        return self._with(_types(given))

    @contextlib.contextmanager
    def evaluating(self, config: EvalConfig, first: Input) -> Iterator[FedModel]:
        """A model for evaluation on input of the same kind as `first`; it is closed after the block."""
        segments = config.segment_labels or (self.source.run.data.segment_labels and _types(first) is None)
        data = saved_run.data_for(config, self.source.run.data, "", segments)
        with contextlib.closing(FedModel(self.source, data, "eval", config.top_k, _types(first))) as fed:
            fed.modeler.class_counts = data_fit.training_counts(self.names, self.source.run.data)
            yield fed

    def inputs(self, data: Data, batch_size: int = 1024) -> Iterator[Input]:
        """The data in batches; records stay as they are. `batch_size` is that of files that are named.

        Raises:
          UsageError: this is not a form of data, no file matches, or features or vocabulary differ from the model's.
        """
        if isinstance(data, str | os.PathLike):
            own = Records(manifest.shards_at(data), _format_of(self.data), batch_size) if self.data.reader else None
            data = own or read_records(data, batch_size=batch_size)
        if not isinstance(data, Records):
            return map(self._arranged, _batches(data))
        self._check(data)
        return data.serialized() if self._has_ranges_of(data) else map(self._arranged, data)

    def reader(self) -> readers.Reader:
        """The reader of the run's records."""
        return readers.reader_for(self.data)

    def refuse_other_data(self, data: Records) -> None:
        """Refuses records that the run's reader cannot parse as they are.

        Raises:
          UsageError: features or vocabulary differ from the model's, or bytes stand for other values.
        """
        self._check(data)
        if not self._has_ranges_of(data):
            raise UsageError(OTHER_RANGES)

    def _check(self, data: Records) -> None:
        source = self.source
        vocabulary.for_model(source.names, self.num_classes, source.folder, vocabulary.of_data("", data.files))
        if self.data.reader:
            return
        wanted, found = _format_of(self.data), {one.name: one.size for one in data.format.features}
        if data.format.level != wanted.level or any(found.get(one.name) != one.size for one in wanted.features):
            raise UsageError(f"the model takes {_told(wanted)}; these records are {_told(data.format)}.")

    def _has_ranges_of(self, data: Records) -> bool:
        """Whether the bytes have the same ranges as in the records that the model was trained on."""
        found = {one.name: one.range for one in data.format.features}
        return bool(self.data.reader) or all(found[one.name] == one.range for one in _format_of(self.data).features)

    def _arranged(self, batch: NumpyBatch) -> NumpyBatch:
        """The batch in the form in which it is fed.

        Features are in the model's order, as float32 or as bytes of YouTube-8M's range.
        """
        data, found = self.data, batch.features
        if any(batch.ranges.get(name, PUBLISHED) != PUBLISHED for name in found):
            batch = batch.dequantize()
        rank = 3 if data.frame_features else 2
        for name, size in zip(data.feature_names, data.feature_sizes, strict=True):
            if name not in found or found[name].ndim != rank or found[name].shape[-1] != size:
                told = ", ".join(f"{key} {list(value.shape)}" for key, value in found.items())
                raise UsageError(f"the model takes {_told(_format_of(data))}; this batch has {told}.")
        features = {name: _as_fed(batch.features[name]) for name in data.feature_names}
        shape = (len(batch), self.num_classes)
        labels = batch.labels if batch.labels.size else np.zeros(shape, np.bool_)
        if labels.shape != shape:
            raise UsageError(f"the labels of this batch are {list(labels.shape)}, expected {list(shape)}.")
        return NumpyBatch(batch.ids, features, np.asarray(batch.num_frames, np.int32), labels)

    def close(self) -> None:
        """Closes the sessions, and removes the unpacked archive."""
        with self._lock:
            self._is_closed = True
            while self._fed:
                self._fed.popitem()[1].close()
        self.unpacked.close()


class LoadedExport:
    """The model of an export; its members are those of `LoadedRun`.

    Args:
      model: the loaded model.
    """

    def __init__(self, model: SavedModel) -> None:
        self._model = model
        try:
            self._fed = FedExport(model)
        except BaseException:
            model.close()
            raise
        self.num_classes, self.model = int(model.num_classes or 0), ""
        self.names = vocabulary.of(self.num_classes, model.names)
        self.checkpoint, self.step = model.folder, 0

    def takes(self) -> Takes:
        """What the model takes."""
        return Takes(self._model.folder, self._model.feature_names, True, self._model.extractors, is_own=False)

    def fed(self, given: Input) -> FedExport:
        """The model."""
        return self._fed

    @contextlib.contextmanager
    def evaluating(self, config: EvalConfig, first: Input) -> Iterator[FedExport]:
        """The model for evaluation."""
        if config.segment_labels:
            raise UsageError("an export cannot be evaluated on rated segments: load the run instead, or use eval.py.")
        fed = FedExport(self._model, config.top_k)
        fed.modeler.class_counts = data_fit.training_counts(self.names, DataConfig(num_classes=self.num_classes))
        yield fed

    def inputs(self, data: Data, batch_size: int = 1024) -> Iterator[Input]:
        """The data in batches of arrays; raises like `LoadedRun.inputs`."""
        if isinstance(data, str | os.PathLike):
            data = read_records(data, num_classes=self.num_classes, batch_size=batch_size)
        if isinstance(data, Records):
            found = vocabulary.of_data("", data.files)
            vocabulary.for_model(self._model.names, self._model.num_classes, self._model.folder, found)
        return iter(_batches(data))

    def close(self) -> None:
        """Closes the model."""
        self._model.close()


def load(
    path: str, checkpoint: str = "last", *, trust_code: bool = False, config: InferenceConfig | None = None
) -> LoadedRun | LoadedExport:
    """The model in a folder of a run, a folder of an export, or an archive.

    The arguments are those of `yt8m.load`, except `config`: how the model of a run reads records.
    """
    if path.endswith(ARCHIVES):
        return _of_archive(path, trust_code, config)
    if not run_dir.is_run(path):
        if not storage.is_dir(path):
            raise UsageError(f"{path}: there is no such folder; name a run, an export, or an archive (.tgz).")
        return LoadedExport(saved_model.opened(path))
    named = InferenceConfig(train_dir=path, trust_code=trust_code)

    def find() -> inference.Source:
        chosen = "" if checkpoint == "last" else saved_run.find_checkpoint(path, checkpoint)
        return inference.from_run(named, chosen)

    return inference.with_newer(find, lambda source: LoadedRun(source, config))


def _of_archive(path: str, trust_code: bool, config: InferenceConfig | None) -> LoadedRun:
    with contextlib.ExitStack() as folder:
        inner = os.path.join(folder.enter_context(copies.private_folder("yt8m-model-")), "model")
        source = inference.from_archive(path, inner, trust_code=trust_code)
        loaded = LoadedRun(source, config)
        loaded.unpacked, loaded.checkpoint = folder.pop_all(), path
        return loaded


def _types(given: Input) -> tuple[np.dtype[Any], ...] | None:
    return tuple(one.dtype for one in given.features.values()) if isinstance(given, NumpyBatch) else None


def _as_fed(values: Any) -> Any:
    return values if values.dtype == np.uint8 else np.asarray(values, np.float32)


def _batches(data: Any) -> Iterable[NumpyBatch]:
    """Yields batches from `Records`, from one batch, from several, or from arrays."""
    if isinstance(data, Mapping):
        return _of_arrays(data)
    return [data] if isinstance(data, NumpyBatch) else map(_refuse_other, data)


def _of_arrays(given: Mapping[str, Any]) -> Iterator[NumpyBatch]:
    """Batches of the rows of arrays, without labels. The ids are the numbers of the rows."""
    arrays = {name: _as_array(values) for name, values in given.items()}
    shapes = {values.shape[:-1] for values in arrays.values() if values.dtype.kind in "fiu"}
    shape = shapes.pop() if len(shapes) == 1 else ()
    if len(shape) not in (1, 2) or any(values.shape[:-1] != shape for values in arrays.values()):
        told = ", ".join(f"{name} {values.dtype} {list(values.shape)}" for name, values in arrays.items())
        raise UsageError(
            "expected arrays of numbers, [videos, size] or [videos, frames, size], with as many videos and frames in "
            f"each; found {told or 'none'}. If the videos differ in length, give yt8m.NumpyBatch with num_frames."
        )
    for start in range(0, shape[0], _ROWS_AT_ONCE):
        rows = {name: values[start : start + _ROWS_AT_ONCE] for name, values in arrays.items()}
        ids = [str(row) for row in range(start, min(start + _ROWS_AT_ONCE, shape[0]))]
        lengths = np.full(len(ids), shape[1] if len(shape) == 2 else 1, np.int32)
        yield NumpyBatch(ids, rows, lengths, np.zeros((len(ids), 0), np.bool_))


def _as_array(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # lists of different lengths
        return np.array(None)


def _refuse_other(batch: Any) -> NumpyBatch:
    if not isinstance(batch, NumpyBatch):
        raise UsageError(
            f"expected a file pattern, what read_records gives, batches of yt8m.NumpyBatch, or arrays by name; found "
            f"a {type(batch).__name__}."
        )
    return batch


def _format_of(data: DataConfig) -> DataFormat:
    """The features and classes that the model reads."""
    level = "frame" if data.frame_features else "video"
    ranges = data.feature_ranges or tuple(usual_range(level, name) or () for name in data.feature_names)
    features = tuple(
        FeatureFormat(name, size, (bounds[0], bounds[1]) if bounds else None)
        for name, size, bounds in zip(data.feature_names, data.feature_sizes, ranges, strict=True)
    )
    return DataFormat(level, features, num_classes=data.num_classes)


def _told(data: DataFormat) -> str:
    return f"{data.level} level with {', '.join(f'{one.name} of {one.size}' for one in data.features)}"
