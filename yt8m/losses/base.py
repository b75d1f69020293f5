"""The base classes of label losses, and the registry of losses by name.

The scores and labels of a batch are matrices [B, C] of B examples and C classes. The static losses of this package
(`BaseLoss.is_static`) are compiled by XLA into one pass over memory. Other losses are not compiled: a custom loss may
fail to compile, and a loss that is not static would be compiled again for every batch.
"""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from yt8m import options
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.numerics.compiled import fused
from yt8m.registry import Catalogue

_losses = Catalogue(
    "loss",
    modules=[f"yt8m.losses.{name}" for name in ("label_losses", "missing_labels", "two_way")],
    group="yt8m.losses",
)

register = _losses.register
get = _losses.get
names = _losses.names
built_in_names = _losses.built_in_names
names_and_packages = _losses.names_and_packages
is_plug_in = _losses.is_plug_in
create = _losses.create
hyper_parameters = _losses.hyper_parameters

# Declares an option of a loss. It never changes the variables of a model, because a loss has none.
option = functools.partial(options.option, shapes="graph")


@dataclass(frozen=True)
class BaseLoss(options.Checked, abc.ABC):
    """A label loss. It gives one value for each row (example); the loss of a batch is the mean of these values.

    Labels are bool or float [B, C], label weights [B, C] or [B, 1]. A row whose weights are all 0 has the loss 0,
    but still counts in the mean. The fields of a loss are its hyper-parameters.

    Attributes:
      is_static: whether the shapes of all tensors depend only on the shape of the batch, not on its values. Then one
        compilation serves all batches of that shape.
    """

    is_static: ClassVar[bool] = True

    @abc.abstractmethod
    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The loss of each row, float32 [B].

        Args:
          predictions: float32 [B, C], from 0 to 1.
          labels: float32 [B, C], 0 or 1.
          weights: float32 [B, C] or [B, 1]; None if there are none.
        """

    @abc.abstractmethod
    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The loss of each row, float32 [B], from logits, float32 [B, C]; labels and weights are as for `rows`."""

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The gradient of the sum of `rows_from_logits` with respect to the logits, float32 [B, C].

        The arguments are those of `rows_from_logits`. The gradient is computed by automatic differentiation, unless a
        subclass overrides this method with a closed form.
        """
        return tf.gradients(self.rows_from_logits(logits, labels, weights), logits)[0]

    def row_losses(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The loss of each row, float32 [B], from predictions [B, C].

        Labels and weights may have any numeric type or bool; without weights, all are 1.
        """
        return self.rows(predictions, *_cast_to_float(labels, label_weights))

    def row_losses_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The loss of each row, float32 [B], from logits [B, C]; labels and weights are as for `row_losses`."""
        return self.rows_from_logits(logits, *_cast_to_float(labels, label_weights))

    def calculate_loss(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The scalar loss of predictions [B, C]: the mean of `row_losses`."""
        # The mean is not part of the compiled function: XLA would compute it as one float32 sum over all pairs, of
        # which only four digits are exact.
        return tf.reduce_mean(self._call_fused(self.row_losses, predictions, labels, label_weights))

    def calculate_loss_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The scalar loss of logits [B, C]: the mean of `row_losses_from_logits`."""
        return tf.reduce_mean(self._call_fused(self.row_losses_from_logits, logits, labels, label_weights))

    def gradient_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The gradient of `calculate_loss_from_logits` with respect to the logits, float32 [B, C].

        If `slopes` is overridden with a closed form, the loss itself is not computed.
        """

        def gradient(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
            slopes = self.slopes(logits, *_cast_to_float(labels, weights))
            return slopes / tf.cast(tf.shape(logits)[0], tf.float32)

        return self._call_fused(gradient, logits, labels, label_weights)

    def _call_fused(self, function: Callable[..., Any], scores: tf.Tensor, *others: Any) -> Any:
        """Returns `function(scores, *others)`; the function is compiled if this is a static loss of this package."""
        is_of_package = type(self).__module__.rpartition(".")[0] == __package__
        scores = tf.convert_to_tensor(scores)
        return fused(function, scores, *others) if is_of_package and self.is_static else function(scores, *others)


@dataclass(frozen=True)
class ClassLoss(BaseLoss, abc.ABC):
    """A loss that is, for each row, the sum of one term per class, each times the label weight of the class.

    Attributes:
      pairwise_terms: whether the term of an (example, class) pair depends only on the score and the label of that pair.
        The value is not inherited: each subclass must declare it again, because a method that it overrides may use
        other pairs too.
    """

    pairwise_terms: ClassVar[bool] = False

    @abc.abstractmethod
    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The unweighted terms, float32 [B, C], from predictions and labels, float32 [B, C] each."""

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The unweighted terms, float32 [B, C], from logits: `terms(logits, labels)`, unless overridden."""
        return self.terms(logits, labels)

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The weighted sum of `terms` over the classes, float32 [B]."""
        return tf.reduce_sum(weighted(self.terms(predictions, labels), weights), 1)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The weighted sum of `terms_from_logits` over the classes, float32 [B]."""
        return tf.reduce_sum(weighted(self.terms_from_logits(logits, labels), weights), 1)


def weighted(terms: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """`terms` [B, C] times `weights` [B, C] or [B, 1]; the terms unchanged if there are no weights."""
    return terms if weights is None else terms * weights


def _cast_to_float(labels: tf.Tensor, weights: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor | None]:
    """(labels, weights) as float32; weights of None stay None."""
    return tf.cast(labels, tf.float32), None if weights is None else tf.cast(weights, tf.float32)


def of_batch(loss: Any, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None) -> tf.Tensor:
    """`loss.calculate_loss` of a batch; losses for the published code may take predictions and labels alone.

    Args:
      loss: an instance with a method `calculate_loss`.
      predictions: float32 [B, C].
      labels: [B, C].
      label_weights: [B, C] or [B, 1]; None if there are none.

    Raises:
      UsageError: there are weights, and the method does not take them.
    """
    parameters = inspect.signature(loss.calculate_loss).parameters
    if "label_weights" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return loss.calculate_loss(predictions, labels, label_weights=label_weights)
    if label_weights is not None:
        raise UsageError(
            f"there are label weights (rated segments, videos whose labels are not all known, or --class_weights), but "
            f"{type(loss).__name__}.calculate_loss takes none, so that unknown labels would count as wrong. Give the "
            "method an argument label_weights=None, and multiply the terms of the loss by it."
        )
    return loss.calculate_loss(predictions, labels)


def is_of_pairs(loss: Any) -> bool:
    """Whether (example, class) pairs of weight 0 can be left out of the computation without changing the loss.

    That is so if the class of `loss` itself, not a base class, declares `pairwise_terms` as True.
    """
    return bool(vars(type(loss)).get("pairwise_terms", False))
