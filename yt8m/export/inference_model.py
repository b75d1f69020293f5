"""A model as a meta-graph and its weights: all that inference needs, without any model code."""

from __future__ import annotations

import os
from collections.abc import Callable

from yt8m import storage
from yt8m.export.saved_model import replaced_folder
from yt8m.export.small_weights import restored
from yt8m.graph import collections
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.video.modeler import VideoModeler

NAME = "inference_model"  # the file prefix that the published code uses


def write_inference_model(
    folder: str,
    checkpoint: str,
    modeler: VideoModeler,
    *,
    frame_features: bool,
    moving_average_decay: float = 0.0,
    weights: str = "float32",
    names: Vocabulary | None = None,
    describe: Callable[[str, int], None] | None = None,
) -> str:
    """Writes `folder`/inference_model.{meta,index,data-*}, whole or not at all.

    The graph takes `input_batch_raw` (float32 [B, D], or [B, T, D] with frame features) and `num_frames`
    (int32 [B]) and gives `predictions`; each is in the collection of its name. If the run kept
    moving averages, they are written as the weights.

    Args:
      folder: path of the folder, local or gs://.
      checkpoint: path of a checkpoint of the model.
      modeler: the model.
      frame_features: whether the model takes frames.
      moving_average_decay: above 0 if the run kept averages.
      weights: the type to store weights in: float32, float16 or int8.
      names: the model's own vocabulary, which is written beside it.
      describe: called with the folder before it is renamed and the number of parameters; writes a
        description beside the model.

    Returns:
      The prefix of the files.
    """

    def build() -> None:
        collections.publish_predict(modeler.predict_placeholders(frame_features))
        tf.train.get_or_create_global_step()

    with restored(build, checkpoint, moving_average_decay, weights) as model, replaced_folder(folder) as part:
        os.makedirs(part)
        tf.train.Saver().save(model.session, os.path.join(part, NAME))
        _relative_state(part)
        if names:
            vocabulary.write(os.path.join(part, vocabulary.NAME), names)
        if describe is not None:
            describe(part, model.parameters)
    return storage.join(folder, NAME)


def _relative_state(folder: str) -> None:
    """Rewrites the state file with relative paths, since the folder that it names is about to be renamed."""
    with open(os.path.join(folder, "checkpoint"), "w", encoding="utf-8") as state:
        state.write(f'model_checkpoint_path: "{NAME}"\nall_model_checkpoint_paths: "{NAME}"\n')
