"""The modeler of videos, which builds a model on a `Batch`, and the evaluator, which computes metrics from its reports.

Reports are the tensors of each step that leave the graph as NumPy arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from absl import logging

from yt8m import deploy, losses, readers
from yt8m.config.train_config import OptimizerConfig
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Ints64
from yt8m.eval_util.guaranteed_precision import PrecisionCalibration
from yt8m.eval_util.metrics import Loss, Metric
from yt8m.eval_util.segments import Pairs
from yt8m.eval_util.top_k import top_k as best_classes
from yt8m.eval_util.videos import VideoSample
from yt8m.graph.build import build
from yt8m.graph.protocols import Modeler, PredictOps, Report, TrainOps
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.numerics import whole_blocks
from yt8m.numerics.compiled import is_on_gpu
from yt8m.runner import metric_files
from yt8m.types import Batch, ModelOutput
from yt8m.video.fitted_transforms import Statistics
from yt8m.video.scores import (
    RatedPairScores,
    columns_on_host,
    refuse_nan,
    reports_of_videos,
    scored_columns,
    select_classes,
)
from yt8m.video.transforms import can_average_bytes, mean_of_unit_frames, takes_mean, transform, transform_batch

_RATED_PAIRS = "rated_pairs"  # the key of a `RatedPairScores` in `ModelOutput.extras`
_MOST_PICKED = 150  # half of the frames of YouTube-8M's videos
SCOPE = "tower"  # the variable scope of the published code, so that its checkpoints can be restored


class VideoModeler(Modeler):
    """A model and its label loss on video- or frame-level batches.

    Args:
      label_loss: an instance with `calculate_loss`; None for inference.
      top_k: number of best scores that are kept of each video for metrics and predictions (at most C).
      feature_sizes: size of each feature, in the order of the batch.

    Attributes:
      listed_classes: if set, inference reports the scores of all these classes, as `class_scores`, in place of the
        `top_k` best scores.
      calibrates: whether the evaluator also collects the predictions of all videos, to choose thresholds that guarantee
        a precision; needs `keeps_videos`.
      metric_classes: the metrics that its evaluator computes; None for the built-in ones.
      trains_new_only: whether training changes only the weights of new classes; the model is then built as for
        evaluation (without dropout, for example).
      class_counts: int64 [C], number of training videos of each class, for its evaluator; None if it is not known.
      class_weights: float32 [C], how much each class counts in the label loss of a training; None if all count 1.
      one_class: whether each training video has one class; outside of training, the scores of a video then add up to 1.
      input_statistics: what the input transform takes from the training data, from which its variables start; None if
        they are read from a checkpoint, or if it takes nothing.
    """

    unpacks = True

    def __init__(
        self, model: Any, label_loss: Any, num_classes: int, top_k: int = 20, feature_sizes: tuple[int, ...] = ()
    ) -> None:
        self.model = model
        self.label_loss = label_loss
        self.num_classes = num_classes
        self.top_k = min(top_k, num_classes)
        self.feature_sizes = feature_sizes
        self.listed_classes: tuple[int, ...] = ()
        self.keeps_videos = False
        self.calibrates = False
        self.trains_new_only = False
        self.metric_classes: Sequence[type[Metric]] | None = None
        self.class_counts: Ints64 | None = None
        self.class_weights: np.ndarray | None = None
        self.one_class = False
        self.input_statistics: Statistics | None = None

    @property
    def reads_parts(self) -> bool:  # type: ignore[override]
        """Whether training reads so few frames of a video that copying all to the tower's device takes longer."""
        return 0 < getattr(self.model, "picked_frames", 0) <= _MOST_PICKED

    def unpacked(self, batch: Batch) -> Batch:
        """The batch with multi-hot labels."""
        if batch.label_lists is None:
            return batch
        return batch._replace(labels=readers.multi_hot(batch.label_lists, self.num_classes), label_lists=None)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """Builds the model on the dequantised, joined and transformed features, and its label loss."""
        # In inference the score of a class must be the same to its last bit, whichever other classes the model has, so
        # weights are padded to whole blocks of columns. Metrics do not depend on the last bit.
        with whole_blocks.scope(self.label_loss is None):
            name = self._transform_name()
            if name == "l2_normalize" and takes_mean(self.model) and can_average_bytes(batch):
                mean, ones = mean_of_unit_frames(batch), tf.ones_like(batch.num_frames)
                output = self._call_model(mean, ones, batch.labels, is_training)
                return self._with_label_loss(output, batch, is_training)
            inputs = self._transformed(batch)
            with frames.build_on_demand(inputs, batch.features[0], lambda numbers: self._frames_at(batch, numbers)):
                film = self._transformed_film(readers.join_film_means(batch))
                output = self._call_model(inputs, batch.num_frames, batch.labels, is_training, film)
            return self._with_label_loss(output, batch, is_training)

    def _transformed_film(self, film: tf.Tensor | None) -> tf.Tensor | None:
        """The transformed means of the videos that segments are part of, float32 [B, D]; None if there are none."""
        return None if film is None else self._transform(film)

    def _frames_at(self, batch: Batch, numbers: tf.Tensor) -> tf.Tensor:
        """The transformed frames with these numbers, int [B, S]: float32 [B, S, D], zeros past the end of a video."""
        size = tf.shape(numbers)[1] if numbers.shape[1] is None else int(numbers.shape[1])
        selected = batch._replace(
            features=tuple(frames.gather_stored(feature, numbers) for feature in batch.features),
            num_frames=tf.fill(tf.shape(batch.num_frames), size),
        )
        inputs = self._transformed(selected)
        with frames.on_device_of(numbers):
            is_real = numbers < batch.num_frames[:, tf.newaxis]
        return tf.where_v2(is_real[:, :, tf.newaxis], inputs, 0.0)

    def predict(self, batch: Batch) -> PredictOps:
        """The predictions, the float tensors that can be fed as in published graphs, and features for a histogram."""
        ops = self.predict_raw(readers.join_features(batch), batch.num_frames)
        histograms = {"model/input_raw": _sample_of_values(batch)}
        return replace(
            ops,
            labels=tf.cast(batch.labels, tf.float32),  # as in the published graphs
            video_ids=batch.video_ids,
            label_weights=batch.label_weights,
            histograms=histograms,
        )

    def predict_placeholders(self, has_frames: bool) -> PredictOps:
        """`predict_raw` on new placeholders: features, float32 [B, T, D] or [B, D], and frame counts, int32 [B]."""
        width = sum(self.feature_sizes)
        raw = tf.placeholder(tf.float32, [None, None, width] if has_frames else [None, width])
        return self.predict_raw(raw, tf.placeholder(tf.int32, [None]))

    def predict_raw(self, raw: tf.Tensor, num_frames: tf.Tensor, film: tf.Tensor | None = None) -> PredictOps:
        """Predictions for dequantised features.

        Args:
          raw: float32 [B, D] or [B, T, D], 0 past `num_frames`.
          num_frames: int [B].
          film: the dequantised means of the videos that segments are part of, float32 [B, D]; None for whole videos.
        """
        raw = tf.identity(raw, name="input_batch_raw")
        counts = tf.identity(num_frames, name="num_frames")
        inputs = self._transform(raw, counts)
        inputs = tf.identity(inputs, name="input_batch")
        output = self._call_model(inputs, counts, None, is_training=False, film=self._transformed_film(film))
        return PredictOps(
            predictions=tf.identity(output.predictions, name="predictions"),
            input_batch_raw=raw,
            input_batch=inputs,
            num_frames=counts,
        )

    def reports(self, batch: Batch, output: ModelOutput, mode: str) -> dict[str, Report]:
        """The `top_k` best scores of each video with their labels; in inference with the ids in place of the labels.

        On a CPU the reports have all scores and labels, of which `completed` takes the best. If `listed_classes` is
        set, inference reports the scores of these classes instead. An evaluation on rated pairs (with label weights)
        reports these pairs, and the best scores too only if videos are kept.
        """
        if mode == "infer":
            return self._inference_reports(batch, output)
        if mode == "train" or batch.label_weights is None:
            return self._score_reports(batch, output, mode)
        reports = self._rated_pairs(output, batch).reports()
        return reports | self._score_reports(batch, output, mode) if self.keeps_videos else reports

    def _inference_reports(self, batch: Batch, output: ModelOutput) -> dict[str, Report]:
        if self.listed_classes:
            class_scores = select_classes(output.predictions, tf.constant(self.listed_classes))
            return {"video_ids": Report(batch.video_ids), "class_scores": Report(class_scores)}
        if not is_on_gpu(output.predictions):
            return {"video_ids": Report(batch.video_ids), "all_scores": Report(whole_blocks.uncut(output.predictions))}
        values, classes = tf.nn.top_k(output.predictions, self.top_k)
        return {"video_ids": Report(batch.video_ids), "scores": Report(values), "classes": Report(classes)}

    def _score_reports(self, batch: Batch, output: ModelOutput, mode: str) -> dict[str, Report]:
        scores = tf.stop_gradient(output.predictions)
        positives = batch.labels > 0 if batch.labels.dtype != tf.bool else batch.labels
        if batch.label_weights is not None:
            # Unrated pairs are neither correct nor wrong, so they are not ranked.
            is_rated = batch.label_weights > 0
            scores = tf.where_v2(is_rated, scores, tf.fill([], float("-inf")))
            positives &= is_rated
        if not is_on_gpu(scores):
            reports = {"all_scores": Report(scores), "positives": Report(positives)}
        else:
            reports = scored_columns(scores, tf.cast(positives, tf.float32), self.top_k)
        if mode == "eval" and self.keeps_videos:
            reports |= reports_of_videos(batch, scores, positives)
        return reports

    def completed(self, reports: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Replaces all scores, which are reported on a CPU, by the `top_k` best ones; other reports are unchanged.

        On a CPU, NumPy takes a third of the time of TensorFlow's op for this.
        """
        if "all_scores" in reports:
            reports = {**reports, "all_scores": reports["all_scores"][:, : self.num_classes]}
        for name in ("all_scores", "class_scores", "scores", "pair_scores"):
            if name in reports:
                refuse_nan(reports[name])
        if "all_scores" not in reports:
            return reports
        others = {name: value for name, value in reports.items() if name not in ("all_scores", "positives")}
        if "positives" in reports:
            return others | columns_on_host(reports["all_scores"], reports["positives"], self.top_k)
        return others | best_classes(reports["all_scores"], self.top_k)._asdict()

    def evaluator(self) -> VideoEvaluator:
        """A new evaluator, which computes metrics from the reports."""
        return VideoEvaluator(self)

    def _with_label_loss(self, output: ModelOutput, batch: Batch, is_training: bool) -> ModelOutput:
        """The output with the label loss; unchanged in inference, or if the model has computed a loss itself."""
        if self.label_loss is None or output.loss is not None:
            return output
        weights = batch.label_weights
        if hasattr(self.label_loss, "weights_of"):
            weights = self.label_loss.weights_of(weights, batch.video_labels)
        if is_training:
            if self.class_weights is not None:
                weights = self.class_weights[np.newaxis] if weights is None else weights * self.class_weights
            return _with_loss(output, self.label_loss, batch.labels, weights)
        # Computed from probabilities, as in the published code, so that evaluation losses are comparable.
        if batch.label_weights is not None and losses.is_of_pairs(self.label_loss):
            pairs = self._rated_pairs(output, batch)
            return replace(output, loss=pairs.loss(self.label_loss), extras={**output.extras, _RATED_PAIRS: pairs})
        return replace(output, loss=losses.of_batch(self.label_loss, output.predictions, batch.labels, weights))

    def _rated_pairs(self, output: ModelOutput, batch: Batch) -> RatedPairScores:
        """The rated pairs of a batch: those in `output.extras` if the loss was computed from them, else new ops."""
        built: RatedPairScores | None = output.extras.get(_RATED_PAIRS)
        return built or RatedPairScores.of_batch(output.predictions, batch)

    def _transform_name(self) -> str:
        return getattr(self.model, "input_transform", "l2_normalize")

    def _transformed(self, batch: Batch) -> tf.Tensor:
        """The transformed features of a batch, whose variables, if there are any, are in the scope of the model."""
        with tf.variable_scope(SCOPE, auxiliary_name_scope=False):
            return transform_batch(self._transform_name(), batch, self.feature_sizes, self.input_statistics)

    def _transform(self, raw: tf.Tensor, num_frames: tf.Tensor | None = None) -> tf.Tensor:
        """The transformed features, float32 [..., D]; 0 past `num_frames`, unless that is None."""
        with tf.variable_scope(SCOPE, auxiliary_name_scope=False):
            return transform(
                self._transform_name(), raw, self.feature_sizes, num_frames, statistics=self.input_statistics
            )

    def _call_model(
        self, inputs: tf.Tensor, num_frames: tf.Tensor, labels: Any, is_training: bool, film: tf.Tensor | None = None
    ) -> ModelOutput:
        """The output of the model.

        Args:
          inputs: the transformed features, float32 [B, D] or [B, T, D].
          num_frames: int [B].
          labels: [B, C]; None if there are none. The model then gets zeros, because published models may compute a loss
            from labels; nothing uses that loss.
          film: the transformed means of whole videos, float32 [B, D]; None if the model gets none.
        """
        deploy.count_gpus()  # a loop in a graph makes TensorFlow look for GPUs; the first look logs errors without any
        labels = tf.zeros([tf.shape(inputs)[0], self.num_classes]) if labels is None else tf.cast(labels, tf.float32)
        film_context = contextlib.nullcontext() if film is None else frames.video_mean_scope(film)
        with film_context, tf.variable_scope(SCOPE, auxiliary_name_scope=False):
            output = self.model.create_model(
                inputs,
                num_frames=num_frames,
                vocab_size=self.num_classes,
                labels=labels,
                is_training=is_training and not self.trains_new_only,
            )
        output = ModelOutput.of_returned(output)
        return _summing_to_one(output) if self.one_class and not is_training else output


def _summing_to_one(output: ModelOutput) -> ModelOutput:
    """The output with the predictions of each video [B, C] divided by their sum."""
    sums = tf.reduce_sum(output.predictions, axis=-1, keepdims=True)
    return replace(output, predictions=output.predictions / tf.maximum(sums, np.finfo(np.float32).tiny))


def _with_loss(output: ModelOutput, label_loss: Any, labels: Any, weights: Any) -> ModelOutput:
    """The output with the label loss of the model and of its side outputs, computed from logits where there are any."""
    loss, gradients = _head_loss(label_loss, output.predictions, output.logits, labels, weights)
    for side in output.side_outputs:
        # Label weights say which labels are known. A side output with its own target has a target for every class.
        target, target_weights = (labels, weights) if side.target is None else (side.target, None)
        side_loss = losses.create(side.loss) if side.loss else label_loss
        value, side_gradients = _head_loss(side_loss, tf.sigmoid(side.logits), side.logits, target, target_weights)
        loss += side.weight * value
        gradients += tuple((tensor, side.weight * gradient) for tensor, gradient in side_gradients)
    # `loss_gradients` replace automatic differentiation, so they must be the whole gradient of the loss. They are if
    # every head has one, and no side output has a target of its own, through which a gradient would flow too.
    are_complete = len(gradients) == 1 + len(output.side_outputs)
    are_complete &= all(side.target is None for side in output.side_outputs)
    return replace(output, loss=loss, loss_gradients=gradients if are_complete else ())


def _head_loss(
    label_loss: Any, predictions: Any, logits: Any, labels: Any, weights: Any
) -> tuple[tf.Tensor, tuple[tuple[tf.Tensor, tf.Tensor], ...]]:
    """(the loss of one output of a model, ((logits, gradient of the loss on them),)).

    The second is () if there are no logits, or if the class of the loss has no `gradient_from_logits`.
    """
    if logits is None or not hasattr(label_loss, "calculate_loss_from_logits"):
        return losses.of_batch(label_loss, predictions, labels, weights), ()
    loss = label_loss.calculate_loss_from_logits(logits, labels, label_weights=weights)
    if not hasattr(label_loss, "gradient_from_logits"):
        return loss, ()
    return loss, ((logits, label_loss.gradient_from_logits(logits, labels, label_weights=weights)),)


# The histogram of the features in TensorBoard is of at most so many videos, and of about so many of their values.
_HISTOGRAM_VIDEOS, _HISTOGRAM_VALUES = 16, 1 << 15


def _sample_of_values(batch: Batch) -> tf.Tensor:
    """Dequantised values of the first videos, float32 [N]; those of a whole batch of frames would take a gigabyte."""
    first_videos = batch._replace(
        features=tuple(feature[:_HISTOGRAM_VIDEOS] for feature in batch.features),
        num_frames=batch.num_frames[:_HISTOGRAM_VIDEOS],
    )
    values = tf.reshape(readers.join_features(first_videos), [-1])
    # The stride is odd, so that values of all columns are taken even if the number of columns is a power of 2.
    return values[:: tf.size(values) // _HISTOGRAM_VALUES * 2 + 1]


_TOP_K_REPORTS = ("scores", "classes", "hits", "num_labels", "label_counts", "perr")


class VideoEvaluator:
    """Computes metrics from the reports of a `VideoModeler`. The engine calls it; `EvaluationMetrics` does the work.

    Attributes:
      sample: a sample of the videos; None if no videos are kept.
      calibration: all predictions, from which thresholds are chosen; None unless the modeler calibrates.
    """

    def __init__(self, modeler: VideoModeler) -> None:
        self.sample = VideoSample() if modeler.keeps_videos else None
        self.calibration = PrecisionCalibration(modeler.num_classes) if modeler.calibrates else None
        self.metrics = EvaluationMetrics(
            modeler.num_classes, modeler.top_k, metric_classes=modeler.metric_classes, class_counts=modeler.class_counts
        )

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; returns {name: value} of the metrics of that step alone, without the loss."""
        if "pair_scores" in reports:
            pairs = Pairs(*(reports[f"pair_{name}"] for name in Pairs._fields))
            figures = self.metrics.accumulate_pairs(pairs, loss)
        else:
            figures = self.metrics.accumulate_top_k(**{name: reports[name] for name in _TOP_K_REPORTS}, loss=loss)
        if self.sample is not None and "labels" in reports:
            self.sample.add(reports)
        if self.calibration is not None:
            self.calibration.add(reports)
        # The loss is left out, because the engine adds it to the log line itself.
        logged = (metric for metric in self.metrics.metric_classes if metric.key in figures and metric is not Loss)
        return {metric.name: figures[metric.key] for metric in logged}

    def get(self) -> dict[str, Any]:
        """All metrics so far, named as by `EvaluationMetrics.get`.

        The entry `threshold_counts` has the data of the precision-recall curve in TensorBoard.
        """
        return self.metrics.get() | {"threshold_counts": self.metrics.threshold_counts(metric_files.NUM_THRESHOLDS)}

    def clear(self) -> None:
        """Forgets all steps."""
        self.metrics.clear()
        for collection in (self.sample, self.calibration):
            if collection is not None:
                collection.clear()


def build_graph(
    reader: readers.Reader,
    model: Any,
    train_data_pattern: str,
    label_loss_fn: Any = None,
    batch_size: int = 1000,
    base_learning_rate: float = 0.01,
    learning_rate_decay_examples: float = 1_000_000,
    learning_rate_decay: float = 0.95,
    optimizer_class: type | str = "AdamOptimizer",
    clip_gradient_norm: float = 1.0,
    regularization_penalty: float = 1.0,
    num_readers: int = 1,
    num_epochs: int | None = None,
    num_towers: int = 1,
    seed: int = 0,
) -> TrainOps:
    """Builds a training step in the current graph, with its handles also in the collections of the published code.

    Args:
      label_loss_fn: an instance of a loss; CrossEntropyLoss if None.
      optimizer_class: a v1 optimizer, or its name.
      clip_gradient_norm: largest norm of each variable's gradient; 0 for no limit.
      num_epochs: number of passes over the data; None to repeat them forever.
      num_towers: number of towers: one for each GPU, at most as many as there are; without a GPU as many CPU devices
        (the session needs `deploy.local(num_towers, gpus)[0].session_config()`).
    """
    queue = readers.BatchQueue(
        reader, train_data_pattern, batch_size, num_epochs, shuffle=True, num_readers=num_readers, seed=seed
    )
    queue.files()  # refuses a pattern without files
    loss = label_loss_fn or losses.get("CrossEntropyLoss")()
    modeler = VideoModeler(model, loss, reader.num_classes, feature_sizes=reader.feature_sizes)
    optimizer = OptimizerConfig(
        optimizer=optimizer_class if isinstance(optimizer_class, str) else optimizer_class.__name__,
        base_learning_rate=base_learning_rate,
        learning_rate_decay=learning_rate_decay,
        learning_rate_decay_examples=learning_rate_decay_examples,
        clip_gradient_norm=clip_gradient_norm,
        regularization_penalty=regularization_penalty,
    )
    deployment, message = deploy.local(num_towers, deploy.count_gpus())
    if deployment.num_clones < num_towers:
        logging.warning("num_towers=%d: %s.", num_towers, message)
    return build(queue, modeler, deployment, optimizer, seed=seed)
