"""Several models in one graph; the mean of their predictions is the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from yt8m.export.small_weights import cpu_session
from yt8m.graph.protocols import PredictOps
from yt8m.graph.restore import AVERAGE
from yt8m.lazy import tf
from yt8m.readers import join_features
from yt8m.storage import copies
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler


class EnsembleModeler(VideoModeler):
    """The weighted mean of the predictions of several modelers for the same features; only for inference.

    The variables of the i-th member are under `member_<i>/`.

    Args:
      members: of the same class count and features.
      weights: one each, adding up to 1.
    """

    def __init__(self, members: Sequence[VideoModeler], weights: Sequence[float]) -> None:
        first = members[0]
        super().__init__(None, None, first.num_classes, first.top_k, first.feature_sizes)
        self._members, self._weights = list(members), list(weights)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """The mean of the members' predictions.

        Raises:
          ValueError: asked for a training graph.
        """
        if is_training:
            raise ValueError("an ensemble is for inference; train its members one by one")
        return ModelOutput(predictions=self.predict_raw(join_features(batch), batch.num_frames).predictions)

    def predict_raw(self, raw: tf.Tensor, num_frames: tf.Tensor) -> PredictOps:
        """The mean of the members' predictions of dequantised features."""
        raw, frames = tf.identity(raw, name="input_batch_raw"), tf.identity(num_frames, name="num_frames")
        parts = []
        for place, (member, weight) in enumerate(zip(self._members, self._weights, strict=True)):
            with tf.variable_scope(scope_of(place)):
                ops = member.predict_raw(raw, frames)
            parts.append(tf.cast(ops.predictions, tf.float32) * weight)
        mean = tf.identity(tf.add_n(parts), name="predictions")
        return replace(ops, predictions=mean, input_batch_raw=raw, num_frames=frames)


def scope_of(place: int) -> str:
    """The variable scope of a member."""
    return f"member_{place}"


def gather_checkpoint(path: str, modeler: EnsembleModeler, checkpoints: Sequence[str], width: Sequence[int]) -> str:
    """Writes one checkpoint of all members' weights, from their averages if a member kept some.

    Args:
      path: prefix of the files to write.
      modeler: the members.
      checkpoints: one for each member.
      width: shape of an example's features: (D,) or (T, D).

    Returns:
      `path`.
    """
    shape = [None, *([None] * (len(width) - 1)), width[-1]]
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        modeler.predict_raw(tf.placeholder(tf.float32, shape), tf.placeholder(tf.int32, [None]))
        step = tf.train.get_or_create_global_step()
        session.run(step.initializer)
        variables = [variable for variable in tf.global_variables() if variable is not step]
        for place, checkpoint in enumerate(checkpoints):
            reader, prefix = tf.train.load_checkpoint(copies.copy_of(checkpoint)), f"{scope_of(place)}/"
            for variable in (one for one in variables if one.op.name.startswith(prefix)):
                name = variable.op.name.removeprefix(prefix)
                average = name + AVERAGE
                value = reader.get_tensor(average if reader.has_tensor(average) else name)
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})
        return str(tf.train.Saver().save(session, path, write_state=False, write_meta_graph=False))
