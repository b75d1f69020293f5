"""An exported model, read back: records or features in, classes and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.graph.restore import warn_of_program
from yt8m.lazy import quiet_native_stderr, tf
from yt8m.readers.record_check import readable
from yt8m.storage import copies

_FILE = "saved_model.pb"


class Predictions(NamedTuple):
    """What a model says of B records, best class first.

    Attributes:
      video_ids: object [B] of bytes.
      classes: int32 [B, k].
      scores: float32 [B, k], probabilities.
    """

    video_ids: np.ndarray
    classes: np.ndarray
    scores: np.ndarray


def find(folder: str) -> str:
    """The SavedModel in a folder: itself, the one that `yt8m export` put there, or a run's newest.

    Raises:
      UsageError: there is none.
    """
    numbered = [name for name in _names(storage.join(folder, "export")) if name.isdigit()]
    newest = [storage.join(folder, "export", max(numbered, key=int))] if numbered else []
    for place in (folder, storage.join(folder, "saved_model"), *newest):
        if storage.exists(storage.join(place, _FILE)):
            return place
    raise UsageError(
        f"{folder} holds no {_FILE}: name the folder of a run that exported a model, or one that "
        "`yt8m export` wrote."
    )


def opened(folder: str) -> SavedModel:
    """The model that `find` finds; the next, where that is deleted while it is read and there is a newer one.

    Raises:
      UsageError, RunError: as `find` and `SavedModel`.
    """
    place = find(folder)
    try:
        return SavedModel(place)
    except (UsageError, RunError):
        if storage.exists(storage.join(place, _FILE)) or find(folder) == place:
            raise
    logging.warning("%s was deleted while it was read: taking the next", place)
    return opened(folder)


def _names(folder: str) -> list[str]:
    return storage.listdir(folder) if storage.is_dir(folder) else []


class SavedModel:
    """A model in a session of its own on the CPU, by its signatures for records and for features.

    A SavedModel is a program: it runs what its graph says, and the log warns of it. Close it, or use it in a
    `with` block. Several threads may call it at once.

    Args:
      folder: where its `saved_model.pb` is.

    Attributes:
      folder: the same.
      feature_size: D, of the features of a frame; None where the model takes records alone.
      num_classes: C; None if the model does not say, because it takes records alone.

    Raises:
      UsageError: it has no signature that takes records.
      RunError: it cannot be loaded.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        warn_of_program(folder)
        with quiet_native_stderr():  # which complains where there is no GPU
            self._session = tf.Session(graph=tf.Graph(), config=tf.ConfigProto(device_count={"GPU": 0}))
        try:
            with self._session.graph.as_default():
                loaded = tf.saved_model.loader.load(
                    self._session, [tf.saved_model.tag_constants.SERVING], copies.folder_copy(folder)
                )
        except (OSError, RuntimeError, ValueError, tf.errors.OpError, RunError) as error:
            self._session.close()
            raise RunError(f"{folder}: the SavedModel cannot be loaded: {error}") from error
        records = _taking("example_bytes", loaded)
        if records is None:
            known = ", ".join(sorted(loaded.signature_def)) or "none"
            raise UsageError(
                f"{folder}: there is no signature with the input example_bytes (signatures: "
                f"{known}); only models exported by this project take records."
            )
        self._input = records.inputs["example_bytes"].name
        names = ("video_id", "class_indexes", "predictions")
        self._outputs = [records.outputs[name].name for name in names]
        self._features = features = _taking("rgb_and_audio", loaded)
        self.feature_size = features and int(features.inputs["rgb_and_audio"].tensor_shape.dim[-1].size)
        self.num_classes = features and int(features.outputs["predictions"].tensor_shape.dim[-1].size)

    def predict(self, records: Sequence[bytes]) -> Predictions:
        """The classes of serialized records, of the kind the model was trained on.

        Raises:
          RunError: a record is of another kind, or damaged.
        """
        try:
            found: list[Any] = self._session.run(self._outputs, {self._input: np.array(records, object)})
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            reason = readable(str(error.message))
            raise RunError(f"the model in {self.folder} cannot read these records: {reason}") from error
        return Predictions(*found)

    def score(self, frames: np.ndarray, num_frames: np.ndarray) -> np.ndarray:
        """float32 [B, C], the probabilities of all classes, from features.

        Args:
          frames: float32 [B, T, D], not quantised; of a model of videos, the mean over frames is taken.
          num_frames: int32 [B].

        Raises:
          UsageError: the model takes records alone.
        """
        if self._features is None:
            raise UsageError(f"{self.folder}: this model takes records alone; export it anew.")
        inputs = self._features.inputs
        fed = {inputs["rgb_and_audio"].name: frames, inputs["num_frames"].name: num_frames}
        return self._session.run(self._features.outputs["predictions"].name, fed)

    def close(self) -> None:
        """Ends its session."""
        self._session.close()

    def __enter__(self) -> SavedModel:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _taking(name: str, loaded: Any) -> Any:
    """The signature that has an input of this name; None for none."""
    having = [signature for signature in loaded.signature_def.values() if name in signature.inputs]
    return having[0] if having else None
