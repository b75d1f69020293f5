"""How a run learns beside its data and its model: steps, a teacher, noise on the features."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.errors import UsageError
from yt8m.options import option


@dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become steps. Everything about the learning rate counts examples (all towers)."""

    optimizer: str = option("AdamOptimizer", "class name of a TensorFlow 1 optimizer, or AdamWOptimizer")
    base_learning_rate: float = option(0.01, "the learning rate before any decay", minimum=1e-12, maximum=1e6)
    learning_rate_schedule: str = option(
        "exponential",
        "how the learning rate falls: in stairs, by half a cosine to 0, or not at all",
        choices=("exponential", "cosine", "constant"),
    )
    learning_rate_decay: float = option(
        0.95, "factor of the learning rate, once every learning_rate_decay_examples", minimum=1e-6, maximum=1
    )
    learning_rate_decay_examples: float = option(
        4_000_000, "examples between two decays; with cosine, those at which the rate is 0", minimum=1
    )
    learning_rate_warmup_examples: float = option(
        0, "examples over which the learning rate rises to its value in a straight line", minimum=0
    )
    weight_decay: float | None = option(
        None, "AdamWOptimizer's decay of matrices, times the learning rate [0.01]", minimum=0, maximum=1
    )
    clip_gradient_norm: float = option(1.0, "largest norm of a gradient; 0: no clipping", minimum=0)
    clip_by: str = option(
        "variable",
        "whose norm is clipped: each variable's, or that of all of them together",
        choices=("variable", "global"),
    )
    accumulate_steps: int = option(
        1, "batches whose gradients together make one step of the optimizer", minimum=1, maximum=1_000_000
    )
    regularization_penalty: float = option(1.0, "weight of the regularization loss in the total", minimum=0)
    combine_gradients: str = option(
        "mean",
        "how the gradients of towers become one; the published code takes the sum",
        choices=("mean", "sum"),
    )
    moving_average_decay: float = option(
        0.0,
        "decay of the weights' moving averages, which eval and export use; 0: none",
        minimum=0,
        maximum=0.999999,
    )

    def __post_init__(self) -> None:
        options.check(self)
        warmup, end = self.learning_rate_warmup_examples, self.learning_rate_decay_examples
        if self.learning_rate_schedule == "cosine" and warmup >= end:
            raise UsageError(
                f"--learning_rate_warmup_examples={warmup:g} does not end before the cosine does "
                f"(--learning_rate_decay_examples={end:g}); give the whole run's examples to the latter."
            )
        if self.weight_decay is not None and self.optimizer != "AdamWOptimizer":
            raise UsageError(
                f"--weight_decay={self.weight_decay:g} has no effect with --optimizer={self.optimizer}; "
                "choose AdamWOptimizer, or leave it out."
            )
