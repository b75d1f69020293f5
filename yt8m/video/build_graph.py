"""`build_graph` with the arguments of the published code: an adaptor to `build`."""

from __future__ import annotations

from typing import Any

from yt8m import deploy, losses, readers
from yt8m.config.train_config import OptimizerConfig
from yt8m.graph.build import build
from yt8m.graph.protocols import TrainOps
from yt8m.video.modeler import VideoModeler


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
      reader: parses the records, and defines features and classes.
      model: an instance with `create_model`.
      train_data_pattern: pattern of the files; these are fed to `ops.input.files` when `ops.input.initializer` runs.
      label_loss_fn: an instance of a loss; CrossEntropyLoss if None.
      batch_size: number of examples per tower and step.
      base_learning_rate, learning_rate_decay, learning_rate_decay_examples: exponential decay by number of examples.
      optimizer_class: a v1 optimizer, or its name.
      clip_gradient_norm: largest norm of each variable's gradient; 0 for no limit.
      regularization_penalty: weight of the regularisation loss.
      num_readers: number of files read in parallel.
      num_epochs: number of passes over the data; None for no end.
      num_towers: number of towers, on GPUs if there are enough, else on as many CPU devices (the session needs
        `deploy.local(num_towers, gpus)[0].session_config()`).
      seed: the seed of all random ops.

    Raises:
      UsageError: an argument is invalid.
    """
    queue = readers.BatchQueue(
        reader, train_data_pattern, batch_size, num_epochs, shuffle=True, num_readers=num_readers, seed=seed
    )
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
    deployment, _ = deploy.local(num_towers, deploy.count_gpus())
    return build(queue, modeler, deployment, optimizer, seed=seed)
