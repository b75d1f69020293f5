"""Videos in batches of different sizes, for tests that compare several towers or replicas with one tower."""

from __future__ import annotations

import copy

import numpy as np
from contract.model_cases import SIZES, C, T

from yt8m import deploy, graph
from yt8m.lazy import tf
from yt8m.types import Batch


class Videos(graph.Inputter):
    """An inputter that yields a batch of each of the sizes, `epochs` times; some videos have no frame."""

    def __init__(self, sizes: list[int], is_frames: bool, towers: int, epochs: int | None = None) -> None:
        self.epochs = epochs
        generator = np.random.default_rng(0)
        self.batch_size = -(-max(sizes) // towers)
        self.batches = [self._batch(generator, size, is_frames) for size in sizes]

    @staticmethod
    def _batch(generator: np.random.Generator, size: int, is_frames: bool) -> Batch:
        shape = (size, T) if is_frames else (size,)
        counts = generator.integers(0, T + 1, size).astype(np.int32)
        counts[0] = T
        # Each row has its own mean, so that the statistics of two halves of a batch differ.
        place = 3 * generator.normal(size=(size,) + (1,) * len(shape))
        features = tuple((generator.normal(size=(*shape, n)) + place).astype(np.float32) for n in SIZES)
        if is_frames:
            there = (np.arange(T) < counts[:, None])[:, :, None]
            features = tuple(feature * there for feature in features)
        labels = generator.random((size, C)) < 0.3
        return Batch(np.array([b"id"] * size), features, counts if is_frames else np.ones_like(counts), labels)

    def files(self) -> list[str]:
        return ["videos"]

    def share(self, index: int, count: int) -> Videos:
        """An inputter over the rows of each batch that tower `index` of `count` gets; leaves out empty batches."""
        cut = [[-(-len(batch.labels) * place // count) for place in (index, index + 1)] for batch in self.batches]
        mine = copy.copy(self)
        mine.batches = [
            tf.nest.map_structure(lambda part, lo=lo, hi=hi: None if part is None else part[lo:hi], batch)
            for batch, (lo, hi) in zip(self.batches, cut, strict=True)
            if hi > lo
        ]
        return mine

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        made = [tf.data.Dataset.from_tensors(batch) for batch in self.batches]
        whole = made[0]
        for more in made[1:]:
            whole = whole.concatenate(more)
        return whole.repeat(self.epochs)


def quick(deployment: deploy.DeploymentConfig) -> tf.ConfigProto:
    """A config of sessions that run only a few times, so that optimising the graph takes longer than it saves."""
    config = deployment.session_config()
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
