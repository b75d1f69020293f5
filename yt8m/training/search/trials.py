"""Trains candidates in this process, on videos in memory, by the step of the engine.

All candidates of a family share one graph, into which their penalty and rate are fed. A session trains one after the
other, each from the same first weights, because opening a session takes as long as a hundred steps. A session computes
in one thread, so that the result does not depend on the number of cores, and as many candidates train at the same time
as there are cores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import deploy, forks, losses
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError
from yt8m.graph.apply import apply_gradients, tower_gradients
from yt8m.graph.inputs import split_batch
from yt8m.graph.optimizers import create_optimizer
from yt8m.graph.towers import build_towers
from yt8m.lazy import tf
from yt8m.training import training_workload
from yt8m.training.search import candidates
from yt8m.training.search.candidates import Candidate
from yt8m.training.search.videos_in_memory import VideosInMemory
from yt8m.types import Batch, ModelOutput
from yt8m.video import fitted_transforms
from yt8m.video.fitted_transforms import Statistics
from yt8m.video.modeler import VideoModeler
from yt8m.video.transforms import takes_mean

_SCORED_AT_ONCE = 1024  # videos


class CandidateTrial(NamedTuple):
    """What is trained: a candidate, for a number of steps with a batch size."""

    candidate: Candidate
    steps: int
    batch_size: int


class _PenalisedModeler(VideoModeler):
    """A modeler whose regularisation is multiplied by a tensor, so that candidates can share its graph."""

    penalty: Any = 1.0

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        output = super().build(batch, is_training)
        term = output.regularization_loss
        return dataclasses.replace(output, regularization_loss=None if term is None else term * self.penalty)


class Family(NamedTuple):
    """The graph of the candidates of one family, and its handles.

    Attributes:
      penalty, rate: placeholders, float32 scalars.
      initialize: the op that sets all variables.
      first_values: what is fed to `initialize` so that a session begins with the first weights once more.
      variables: {name: variable} of the model, without those of the optimizer.
      scores: [B, C], the predictions of the model in evaluation.
      idle: open sessions that train nothing.
    """

    graph: Any
    batch: Batch
    penalty: Any
    rate: Any
    initialize: Any
    first_values: dict[Any, NDArray[Any]]
    variables: dict[str, Any]
    train: Any
    scores: Any
    idle: list[Any]


class Trainer:
    """Trains candidates on the videos of a search."""

    def __init__(
        self, config: TrainConfig, training: VideosInMemory, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._config, self._training, self._should_stop = config, training, should_stop
        self._statistics: dict[str, Statistics] = {}
        self._families: dict[Any, Family] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the sessions; none may be training."""
        for family in self._families.values():
            while family.idle:
                family.idle.pop().close()

    def scores(
        self, trial: CandidateTrial, videos: VideosInMemory, training: VideosInMemory | None = None
    ) -> NDArray[np.float32] | None:
        """Trains a candidate, then scores `videos`: float32 [N, C]. None if the training was given up.

        Args:
          training: the videos of another fold to train on. All folds share the graph of a family, and so the mean and
            the deviation of its input; these are no labels, and have next to nothing of a single video.
        """
        family = self._family(trial.candidate)
        with self._session(family) as session:
            is_trained = self._train(session, family, trial, self._training if training is None else training)
            return self._score(session, family, videos) if is_trained else None

    def weights(self, trial: CandidateTrial) -> dict[str, NDArray[Any]]:
        """Trains a candidate that nothing stops; returns {name of a variable of the model: value}."""
        family = self._family(trial.candidate)
        with self._session(family) as session:
            self._train(session, family, trial, self._training)
            values: dict[str, NDArray[Any]] = session.run(family.variables)
            return values

    def scores_with(
        self, candidate: Candidate, value: Callable[[str], NDArray[Any]], videos: VideosInMemory
    ) -> NDArray[np.float32]:
        """Scores `videos` with weights from elsewhere: float32 [N, C].

        Args:
          value: returns the value of a variable by its name.
        """
        family = self._family(candidate)
        with self._session(family) as session:
            weights = {variable.initializer.inputs[1]: value(name) for name, variable in family.variables.items()}
            session.run(family.initialize, {**family.first_values, **weights})
            return self._score(session, family, videos)

    def _train(self, session: Any, family: Family, trial: CandidateTrial, training: VideosInMemory) -> bool:
        """Trains from the first weights; returns whether the training came to its end."""
        session.run(family.initialize, family.first_values)
        order = _Order(len(training), trial.batch_size, self._config.seed)
        for step in range(trial.steps):
            if self._should_stop():
                return False
            rate = trial.candidate.rate * 0.5 * (1 + math.cos(math.pi * step / trial.steps))
            feeds = self._feeds(family, training.take(order.next_rows()))
            session.run(family.train, {**feeds, family.penalty: trial.candidate.penalty, family.rate: rate})
        return True

    @contextlib.contextmanager
    def _session(self, family: Family) -> Iterator[Any]:
        """A session of the family that no other thread uses meanwhile."""
        with self._lock:
            session = family.idle.pop() if family.idle else _new_session(family.graph)
        try:
            yield session
        finally:
            with self._lock:
                family.idle.append(session)

    def _score(self, session: Any, family: Family, videos: VideosInMemory) -> NDArray[np.float32]:
        batches = []
        for start in range(0, len(videos), _SCORED_AT_ONCE):
            part = videos.take(np.arange(start, min(start + _SCORED_AT_ONCE, len(videos))))
            batches.append(session.run(family.scores, self._feeds(family, part)))
        scores = np.concatenate(batches)
        if not np.isfinite(scores).all():
            raise RunError("its scores are not finite")
        return scores

    @staticmethod
    def _feeds(family: Family, videos: VideosInMemory) -> dict[Any, Any]:
        batch = family.batch
        feeds = {batch.features[0]: videos.features, batch.num_frames: videos.num_frames}
        return feeds if videos.labels.shape[1] == 0 else {**feeds, batch.labels: videos.labels}

    def _family(self, candidate: Candidate) -> Family:
        """The graph of the candidate, which is built once."""
        with self._lock:
            if candidate.family not in self._families:
                self._families[candidate.family] = self._build(candidate)
            return self._families[candidate.family]

    def _build(self, candidate: Candidate) -> Family:
        config, optimizer = self._config, self._config.optimizer
        modeler = _PenalisedModeler(
            candidates.created(dataclasses.replace(candidate, penalty=1.0), config.data),
            losses.create(config.model.label_loss, config.model.loss_hyper_parameters),
            config.data.num_classes,
            feature_sizes=config.data.feature_sizes,
        )
        modeler.input_statistics, modeler.class_weights = self._fitted(candidate), config.model.loss_weights
        modeler.one_class = config.data.one_class
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(config.seed)
            step = tf.train.get_or_create_global_step()
            batch, rate = self._placeholders(), tf.placeholder(tf.float32, [])
            modeler.penalty = tf.placeholder(tf.float32, [])
            deployment = deploy.DeploymentConfig(1, clone_on_cpu=True)
            start = tf.identity(step.read_value())
            towers = build_towers(
                modeler, deployment, split_batch(batch, 1), mode="train", seed=config.seed, step=start
            )
            of_model = {variable.op.name: variable for variable in tf.global_variables()}
            updater = create_optimizer(optimizer.optimizer, rate, optimizer.weight_decay)
            gradients = tower_gradients(towers, updater, optimizer)
            _, train = apply_gradients(gradients.combined, gradients.norms, updater, optimizer, step, towers.examples())
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                scores = modeler.predict_raw(batch.features[0], batch.num_frames).predictions
            session, initialize, variables = (
                _new_session(graph),
                tf.global_variables_initializer(),
                tf.global_variables(),
            )
            session.run(initialize)
            first_values = {
                v.initializer.inputs[1]: value for v, value in zip(variables, session.run(variables), strict=True)
            }
            handles = batch, modeler.penalty, rate, initialize, first_values, of_model, train, scores
            return Family(graph, *handles, [session])

    def _fitted(self, candidate: Candidate) -> Statistics | None:
        """What the transform of the candidate takes from the training data, which is computed once."""
        name = candidate.transform
        if name in fitted_transforms.NAMES and name not in self._statistics:
            self._statistics[name] = self._training.statistics(name)
        return self._statistics.get(name)

    def _placeholders(self) -> Batch:
        features, labels = self._training.features, self._training.labels
        return Batch(
            video_ids=tf.constant([""]),
            features=(tf.placeholder(tf.float32, [None, *([None] * (features.ndim - 2)), features.shape[-1]]),),
            num_frames=tf.placeholder(tf.int32, [None]),
            labels=tf.placeholder(tf.bool, [None, labels.shape[1]]),
        )


def _new_session(graph: Any) -> Any:
    options = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0})
    options.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L1
    return forks.new_session(graph=graph, config=options)


class _Order:
    """The rows of one batch after the other: each epoch has another order, which depends on the seed alone."""

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        self._rows, self._size = rows, min(batch_size, rows)
        self._generator = np.random.default_rng(seed)
        self._left = np.zeros(0, np.int64)

    def next_rows(self) -> NDArray[np.int64]:
        """int64 [batch size]: the next rows; a batch may have the end of an epoch and the beginning of the next."""
        if len(self._left) < self._size:
            self._left = np.concatenate([self._left, self._generator.permutation(self._rows)])
        rows, self._left = self._left[: self._size], self._left[self._size :]
        return rows


# Seconds of one core for a step, as measured in 2026: what every step takes, and per weight and example.
_SECONDS_OF_STEP, _SECONDS_OF_WEIGHT = 1.2e-3, 1e-10
# The same for the transform by normal scores: what every step takes, and per value.
_SECONDS_OF_SCORES, _SECONDS_OF_VALUE = 4e-4, 4e-8


def seconds_per_step(candidate: Candidate, config: TrainConfig, batch_size: int, num_frames: int = 1) -> float:
    """Seconds of one core for a step of the candidate, by a fixed table and its number of weights."""
    model = candidates.created(candidate, config.data)
    shapes = training_workload.shapes_of(model, config.data, config.data.num_classes)
    frames = 1 if takes_mean(model) else num_frames
    weights = frames * sum(math.prod(shape) for shape in shapes.values() if len(shape) == 2)
    seconds = _SECONDS_OF_STEP + _SECONDS_OF_WEIGHT * weights * batch_size
    if candidate.transform == fitted_transforms.NORMAL_SCORES:
        values = num_frames * sum(config.data.feature_sizes) * batch_size
        seconds += _SECONDS_OF_SCORES + _SECONDS_OF_VALUE * values
    return seconds
