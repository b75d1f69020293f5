"""An exported model, read back: records in, ids with classes and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.graph.export import SIGNATURE
from yt8m.lazy import quiet_native_stderr, tf

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


def _names(folder: str) -> list[str]:
    return storage.listdir(folder) if storage.is_dir(folder) else []


class SavedModel:
    """A model in a session of its own on the CPU, by its signature for serialized records.

    A SavedModel is a program: it runs what its graph says. Close it, or use it in a `with` block.

    Args:
      folder: where its `saved_model.pb` is.

    Raises:
      UsageError: it has no signature that takes records.
      RunError: it cannot be loaded.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with quiet_native_stderr():  # which complains where there is no GPU
            self._session = tf.Session(graph=tf.Graph(), config=tf.ConfigProto(device_count={"GPU": 0}))
        try:
            with self._session.graph.as_default():
                loaded = tf.saved_model.loader.load(
                    self._session, [tf.saved_model.tag_constants.SERVING], folder
                )
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            raise RunError(f"{folder}: the SavedModel cannot be loaded: {error}") from error
        signature = loaded.signature_def.get(SIGNATURE)
        if signature is None or "example_bytes" not in signature.inputs:
            known = ", ".join(sorted(loaded.signature_def)) or "none"
            raise UsageError(
                f"{folder}: there is no signature {SIGNATURE} with the input example_bytes (signatures: "
                f"{known}); only models exported by this project take records."
            )
        self._input = signature.inputs["example_bytes"].name
        names = ("video_id", "class_indexes", "predictions")
        self._outputs = [signature.outputs[name].name for name in names]

    def predict(self, records: Sequence[bytes]) -> Predictions:
        """The classes of serialized records, of the kind the model was trained on.

        Raises:
          RunError: a record is of another kind, or damaged.
        """
        try:
            found: list[Any] = self._session.run(self._outputs, {self._input: np.array(records, object)})
        except tf.errors.InvalidArgumentError as error:
            reason = str(error.message).splitlines()[0]
            raise RunError(f"the model in {self.folder} cannot read these records: {reason}") from error
        return Predictions(*found)

    def close(self) -> None:
        """Ends its session."""
        self._session.close()

    def __enter__(self) -> SavedModel:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
