"""A model as a meta-graph and its weights: all that inference needs, without any model code."""

from __future__ import annotations

import os

from yt8m.graph import collections
from yt8m.graph.export import replaced_folder
from yt8m.graph.modeler import VideoModeler
from yt8m.graph.restore import Restorer
from yt8m.lazy import tf

NAME = "inference_model"  # the file prefix, as published


def write_inference_model(
    folder: str,
    checkpoint: str,
    modeler: VideoModeler,
    *,
    frame_features: bool,
    moving_average_decay: float = 0.0,
) -> str:
    """Writes `folder`/inference_model.{meta,index,data-*}, whole or not at all.

    The graph takes `input_batch_raw` (float32 [B, D], or [B, T, D] with frame features) and `num_frames`
    (int32 [B]) and gives `predictions`; all three are collections of those names. Where the run kept
    moving averages, these are the weights.

    Returns:
      The prefix of the files.
    """
    width = sum(modeler.feature_sizes)
    with tf.Graph().as_default() as graph:
        raw = tf.placeholder(tf.float32, [None, None, width] if frame_features else [None, width])
        collections.publish_predict(modeler.predict_raw(raw, tf.placeholder(tf.int32, [None])))
        tf.train.get_or_create_global_step()
        restorer, saver = Restorer(moving_average_decay), tf.train.Saver()
        with tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0})) as session:
            restorer.restore(session, checkpoint)
            with replaced_folder(folder) as partial:
                os.makedirs(partial)
                saver.save(session, os.path.join(partial, NAME))
                _relative_state(partial)
    return os.path.join(folder, NAME)


def _relative_state(folder: str) -> None:
    """Rewrites the state file, which names the folder that is about to be renamed."""
    with open(os.path.join(folder, "checkpoint"), "w", encoding="utf-8") as state:
        state.write(f'model_checkpoint_path: "{NAME}"\nall_model_checkpoint_paths: "{NAME}"\n')
