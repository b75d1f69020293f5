"""Learning from a teacher: its probabilities for a batch, the loss on them, and the modeler that trains on it.

A teacher is a file of predictions or another model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from yt8m import losses
from yt8m.config.run_options import AugmentConfig
from yt8m.errors import UsageError
from yt8m.graph import collections
from yt8m.lazy import tf
from yt8m.readers import join_features
from yt8m.readers.base import after_checks, message, require
from yt8m.storage import copies
from yt8m.types import Batch, ModelOutput
from yt8m.video import transforms
from yt8m.video.meta_modeler import InferenceGraph
from yt8m.video.modeler import VideoModeler
from yt8m.video.transforms import augment

_MISSING = "?"  # table value for a video that the file lacks; it differs from all lists of class numbers and scores


class PredictionTeacher:
    """Probabilities from a prediction file; a class that a video's line does not list has 0.

    The file becomes a hash table from id to line when the session opens, about as large in memory as the
    file; a line is parsed when its video is in a batch.

    Args:
      path: local path of a `VideoId,LabelConfidencePairs` file, whose lines must have been checked.
      num_classes: number of classes, C.
    """

    def __init__(self, path: str, num_classes: int) -> None:
        self._path, self._num_classes = path, num_classes
        self._table: Any = None
        self._graph: Any = None

    def probabilities(self, batch: Batch) -> tf.Tensor:
        """The teacher's probabilities, float32 [B, C]; InvalidArgumentError names a video that the file lacks."""
        with tf.device("/cpu:0"):
            lines = self._lookup(batch.video_ids)
            words = tf.strings.split(lines, result_type="RaggedTensor")
            classes = tf.strings.to_number(words.values[0::2], tf.int64)
            scores = tf.strings.to_number(words.values[1::2], tf.float32)
            places = tf.stack([words.value_rowids()[0::2], classes], axis=1)
            shape = tf.stack([tf.shape(lines, out_type=tf.int64)[0], self._num_classes])
            return tf.ensure_shape(tf.scatter_nd(places, scores, shape), [None, self._num_classes])

    def restore(self, session: tf.Session) -> None:
        """Does nothing: the table is filled when the session opens."""

    def _lookup(self, ids: tf.Tensor) -> tf.Tensor:
        lines = self._table_of_this_graph().lookup(ids)
        is_known = tf.not_equal(lines, _MISSING)

        def describe(at: tf.Tensor) -> tf.Tensor:
            missing = tf.reduce_sum(tf.cast(~is_known, tf.int32))
            return message(
                f"{self._path} has no prediction for video ",
                *(tf.gather(ids, at), " (", missing, " such in this batch); predict for all of the training data"),
            )

        return after_checks(lines, [require(is_known, describe)])

    def _table_of_this_graph(self) -> Any:
        """The table, which is made only once for all towers."""
        if self._graph is not tf.get_default_graph():
            self._graph = tf.get_default_graph()
            with tf.init_scope():
                lines = tf.lookup.TextFileInitializer(self._path, tf.string, 0, tf.string, 1, delimiter=",")
                self._table = tf.lookup.StaticHashTable(lines, _MISSING)
        return self._table


class ModelTeacher:
    """Another model from a file (an inference model): its graph reads our batches, and its weights are constant.

    The weights are not variables of the run: no checkpoint holds them and no optimizer sees them. A meta-graph can
        execute code: use only files whose origin you trust.

    Args:
      prefix: the prefix of the inference model's files, without `.meta`.
      num_classes: number of classes of the training run.
      width: total width of the features of the training run.
      has_frames: whether the training run reads frames.

    Raises:
      UsageError: the teacher's classes or features differ from those of the run.
    """

    def __init__(self, prefix: str, num_classes: int, width: int, has_frames: bool) -> None:
        self._file = InferenceGraph(prefix)
        _rename_resources(self._file.meta_graph)
        self._check(num_classes, width, has_frames)
        self._graph: Any = None
        self._towers = 0

    def probabilities(self, batch: Batch) -> tf.Tensor:
        """float32 [B, C], the teacher's evaluation-mode predictions; all towers share one set of weights."""
        if self._graph is not tf.get_default_graph():
            self._graph, self._towers = tf.get_default_graph(), 0
        scope, shared = "teacher", {}
        if self._towers:
            scope, shared = f"teacher_of_tower_{self._towers}", _variables(self._file.meta_graph, "teacher")
        predictions, saver = self._file.predict(join_features(batch), batch.num_frames, scope, shared)
        self._towers += 1
        if self._towers == 1:
            collections.publish_teacher_saver(saver.as_saver_def())
        return tf.stop_gradient(predictions)

    def restore(self, session: tf.Session) -> None:
        """Reads the weights through the ops that the first tower's import left in the graph."""
        with session.graph.as_default():
            saver = tf.train.Saver(saver_def=collections.teacher_saver())
        saver.restore(session, copies.copy_of(self._file.prefix))

    def _check(self, num_classes: int, width: int, has_frames: bool) -> None:
        raw = self._file.tensors["input_batch_raw"].shape
        actual = f"{self._file.num_classes} classes and {raw[-1]} features a {'frame' if raw.rank == 3 else 'video'}"
        wanted = f"{num_classes} classes and {width} features a {'frame' if has_frames else 'video'}"
        if actual != wanted:
            raise UsageError(
                f"--teacher: {self._file.prefix} is a model of {actual}, but this run has {wanted}; "
                "train on the teacher's classes and features, or predict with it and use --distill_from."
            )


Teacher = PredictionTeacher | ModelTeacher


def _rename_resources(meta_graph: Any) -> None:
    """Gives the resources of a teacher unique names.

    A scope renames ops only: two variables with the same shared name are one variable in a session, and the
    training run has the same names if both are the same model.
    """
    for node in meta_graph.graph_def.node:
        if "shared_name" in node.attr and node.attr["shared_name"].s:
            node.attr["shared_name"].s = b"teacher/" + node.attr["shared_name"].s


def _variables(meta_graph: Any, scope: str) -> dict[str, tf.Tensor]:
    """{name of a variable in the file: the variable that the import under `scope` made}."""
    graph = tf.get_default_graph()
    return {
        f"{node.name}:0": graph.get_tensor_by_name(f"{scope}/{node.name}:0")
        for node in meta_graph.graph_def.node
        if node.op in ("VarHandleOp", "VariableV2", "Variable")
    }


def distilled(output: ModelOutput, target: tf.Tensor, weight: float) -> ModelOutput:
    """`output` with the loss (1 - weight) * its own + weight * CE(teacher).

    CE is the cross-entropy with the teacher's probabilities in place of labels (Hinton, Vinyals & Dean 2015,
    section 2, at temperature 1, with independent decisions for the classes), and its gradient on the logits is
    (sigmoid(z) - target) / rows. Label weights do not apply to it: a teacher scores every class.

    Args:
      output: the output of the modeler, including its loss.
      target: float32 [B, C] probabilities, not differentiated.
      weight: the teacher's share in the loss, 0..1.
    """
    target = tf.stop_gradient(target)
    cross_entropy = losses.create("CrossEntropyLoss")
    if output.logits is None:
        taught = cross_entropy.calculate_loss(output.predictions, target)
    else:
        taught = cross_entropy.calculate_loss_from_logits(output.logits, target)
    own_loss: Any = output.loss
    loss = (1.0 - weight) * own_loss + weight * taught
    if output.logits is None or not output.loss_gradients:
        return replace(output, loss=loss, loss_gradients=())
    slopes = [(tensor, (1.0 - weight) * slope) for tensor, slope in output.loss_gradients]
    slopes.append((output.logits, weight * cross_entropy.gradient_from_logits(output.logits, target)))
    return replace(output, loss=loss, loss_gradients=tuple(slopes))


class TrainingModeler(VideoModeler):
    """`VideoModeler`, with augmentation and distillation on the towers that train.

    Evaluation, predictions and exports are those of `VideoModeler`. The teacher gets the features without augmentation;
    if videos are mixed, its probabilities are mixed in the same way.

    Args:
      *arguments: the arguments of `VideoModeler`.
      augmentation: the random changes of the features.
      teacher: gives the soft targets; None if there is no teacher.
      distill_weight: the teacher's share in the loss.
    """

    def __init__(
        self, *arguments: Any, augmentation: AugmentConfig, teacher: Teacher | None, distill_weight: float
    ) -> None:
        super().__init__(*arguments)
        self._augmentation, self._teacher, self._weight = augmentation, teacher, distill_weight

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """The same as `VideoModeler.build`, but in training the loss is that of `distilled`."""
        if not is_training:
            return super().build(batch, is_training)
        augmented, mixture = augment(batch, self._augmentation), None
        if self._augmentation.mixup:
            mixture = transforms.draw_mixture(tf.shape(batch.num_frames)[0], self._augmentation.mixup)
            augmented = mixture.mix_batch(augmented)
        output = super().build(augmented, is_training)
        if self._teacher is None:
            return output
        target = self._teacher.probabilities(batch)
        return distilled(output, mixture.mix(target) if mixture else target, self._weight)

    def restore(self, session: tf.Session) -> None:
        """Reads the teacher's weights."""
        if self._teacher is not None:
            self._teacher.restore(session)
