"""Knowledge distillation: the probabilities of a teacher for a batch, the loss on them, and the modeler for both.

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

_MISSING = "?"  # the value in the table for a video that the file lacks; no line of class numbers and scores equals it


class PredictionTeacher:
    """Probabilities from a prediction file. A class that the line of a video does not list has probability 0.

    When the session opens, the file becomes a hash table {id: line}, which takes about as much memory as the file. A
    line is parsed when its video is in a batch.
    """

    def __init__(self, path: str, num_classes: int) -> None:
        self._path, self._num_classes = path, num_classes
        self._table: Any = None
        self._graph: Any = None

    def probabilities(self, batch: Batch) -> tf.Tensor:
        """The teacher's probabilities, float32 [B, C]; an InvalidArgumentError names a video that the file lacks."""
        with tf.device("/cpu:0"):
            lines = self._lookup(batch.video_ids)
            words = tf.strings.split(lines, result_type="RaggedTensor")
            classes = tf.strings.to_number(words.values[0::2], tf.int64)
            scores = tf.strings.to_number(words.values[1::2], tf.float32)
            pairs = tf.stack([words.value_rowids()[0::2], classes], axis=1)
            shape = tf.stack([tf.shape(lines, out_type=tf.int64)[0], self._num_classes])
            return tf.ensure_shape(tf.scatter_nd(pairs, scores, shape), [None, self._num_classes])

    def restore(self, session: tf.Session) -> None:
        """Does nothing: the table is filled when the session opens."""

    def _lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """The classes and scores of the lines of these videos, string [B]."""
        lines = self._table_of_this_graph().lookup(ids)
        is_known = tf.not_equal(lines, _MISSING)

        def describe(index: tf.Tensor) -> tf.Tensor:
            num_missing = tf.reduce_sum(tf.cast(~is_known, tf.int32))
            return message(
                f"{self._path} has no prediction for video ",
                *(tf.gather(ids, index), " (", num_missing, " such videos in this batch); "),
                "predict for all of the training data",
            )

        return after_checks(lines, [require(is_known, describe)])

    def _table_of_this_graph(self) -> Any:
        """The hash table {id: line} of the current graph; the first call makes it, and all towers share it."""
        if self._graph is not tf.get_default_graph():
            self._graph = tf.get_default_graph()
            with tf.init_scope():
                lines = tf.lookup.TextFileInitializer(self._path, tf.string, 0, tf.string, 1, delimiter=",")
                self._table = tf.lookup.StaticHashTable(lines, _MISSING)
        return self._table


class ModelTeacher:
    """Probabilities from an inference model, whose graph is imported with our batches as input.

    The teacher's weights are not variables of the run: no checkpoint holds them, and no optimizer changes them. A
    meta-graph can execute code: use only files whose origin you trust.

    Args:
      prefix: the prefix of the inference model's files, without `.meta`.
    """

    def __init__(self, prefix: str, num_classes: int, width: int, has_frames: bool) -> None:
        self._file = InferenceGraph(prefix)
        _rename_resources(self._file.meta_graph)
        self._check(num_classes, width, has_frames)
        self._graph: Any = None
        self._towers = 0

    def probabilities(self, batch: Batch) -> tf.Tensor:
        """The teacher's predictions as in evaluation, float32 [B, C]; all towers share its weights."""
        if self._graph is not tf.get_default_graph():
            self._graph, self._towers = tf.get_default_graph(), 0
        scope, shared_variables = "teacher", {}
        if self._towers:
            scope = f"teacher_of_tower_{self._towers}"
            shared_variables = _imported_variables(self._file.meta_graph, "teacher")
        predictions, saver = self._file.predict(join_features(batch), batch.num_frames, scope, shared_variables)
        self._towers += 1
        if self._towers == 1:
            collections.publish_teacher_saver(saver.as_saver_def())
        return tf.stop_gradient(predictions)

    def restore(self, session: tf.Session) -> None:
        """Reads the teacher's weights into the variables of the first tower's import, which all towers use."""
        with session.graph.as_default():
            saver = tf.train.Saver(saver_def=collections.teacher_saver())
        saver.restore(session, copies.copy_of(self._file.prefix))

    def _check(self, num_classes: int, width: int, has_frames: bool) -> None:
        raw = self._file.tensors["input_batch_raw"].shape
        teacher_shape = (
            f"{self._file.num_classes} classes and {raw[-1]} features a {'frame' if raw.rank == 3 else 'video'}"
        )
        run_shape = f"{num_classes} classes and {width} features a {'frame' if has_frames else 'video'}"
        if teacher_shape != run_shape:
            raise UsageError(
                f"--teacher: {self._file.prefix} is a model of {teacher_shape}, but this run has {run_shape}; "
                "train on the teacher's classes and features, or predict with it and use --distill_from."
            )


Teacher = PredictionTeacher | ModelTeacher


def _rename_resources(meta_graph: Any) -> None:
    """Puts `teacher/` before the shared names of a teacher's resources.

    The scope of an import renames only ops, and two variables with the same shared name are one variable in a session.
    The run has variables with the teacher's names if both are the same kind of model.
    """
    for node in meta_graph.graph_def.node:
        if "shared_name" in node.attr and node.attr["shared_name"].s:
            node.attr["shared_name"].s = b"teacher/" + node.attr["shared_name"].s


def _imported_variables(meta_graph: Any, scope: str) -> dict[str, tf.Tensor]:
    """{name of a variable in the file: the variable that the import under `scope` created}."""
    graph = tf.get_default_graph()
    return {
        f"{node.name}:0": graph.get_tensor_by_name(f"{scope}/{node.name}:0")
        for node in meta_graph.graph_def.node
        if node.op in ("VarHandleOp", "VariableV2", "Variable")
    }


def with_teacher_loss(output: ModelOutput, target: tf.Tensor, weight: float) -> ModelOutput:
    """`output` with the loss (1 - weight) * (its own loss) + weight * CE.

    CE is the cross-entropy with the teacher's probabilities in place of labels (Hinton, Vinyals & Dean 2015,
    section 2, at temperature 1, with independent decisions for the classes). Its gradient on the logits z is
    (sigmoid(z) - target) / B. Label weights do not apply to it: a teacher scores every class.

    Args:
      target: the probabilities of the teacher, float32 [B, C]; they are not differentiated.
      weight: the teacher's share in the loss, 0..1.
    """
    target = tf.stop_gradient(target)
    cross_entropy = losses.create("CrossEntropyLoss")
    if output.logits is None:
        teacher_loss = cross_entropy.calculate_loss(output.predictions, target)
    else:
        teacher_loss = cross_entropy.calculate_loss_from_logits(output.logits, target)
    own_loss: Any = output.loss
    loss = (1.0 - weight) * own_loss + weight * teacher_loss
    if output.logits is None or not output.loss_gradients:
        return replace(output, loss=loss, loss_gradients=())
    gradients = [(tensor, (1.0 - weight) * gradient) for tensor, gradient in output.loss_gradients]
    gradients.append((output.logits, weight * cross_entropy.gradient_from_logits(output.logits, target)))
    return replace(output, loss=loss, loss_gradients=tuple(gradients))


class TrainingModeler(VideoModeler):
    """`VideoModeler`, with augmentation and distillation on the towers that train.

    Evaluation, predictions and exports are those of `VideoModeler`. The teacher gets the features without augmentation.
    If videos are mixed, the teacher's probabilities are mixed in the same way.

    Args:
      teacher: gives the probabilities to learn; None if there is no teacher.
      distill_weight: the teacher's share in the loss.
    """

    def __init__(
        self, *arguments: Any, augmentation: AugmentConfig, teacher: Teacher | None, distill_weight: float
    ) -> None:
        super().__init__(*arguments)
        self._augmentation, self._teacher, self._weight = augmentation, teacher, distill_weight

    @property
    def reads_parts(self) -> bool:  # type: ignore[override]
        """As in `VideoModeler`, but augmentation, mixing and a teacher read all frames."""
        changes = self._augmentation
        return super().reads_parts and not (changes.is_on or changes.mixup or self._teacher is not None)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """The same as `VideoModeler.build`; in training on augmented features, and with the teacher's loss if any."""
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
        return with_teacher_loss(output, mixture.mix(target) if mixture else target, self._weight)

    def restore(self, session: tf.Session) -> None:
        """Reads the teacher's weights into the session."""
        if self._teacher is not None:
            self._teacher.restore(session)
