"""The Python interface: `yt8m.fit` trains a model, `yt8m.load` opens a trained one, `yt8m.extract` computes features.

`yt8m.read_records` is in `yt8m.records.batches`.

model = yt8m.load("runs/mine")
for video in model.predict("data/video/test/*.tfrecord", top_k=3):
    print(video.id, [(scored.name, scored.score) for scored in video.classes])
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from yt8m import options, registry, runner, scoring, storage
from yt8m.command_line import flag_parsing, flags, program
from yt8m.datasets.extract.computing import Settings
from yt8m.deploy import cluster
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.top_k import top_k as best_classes
from yt8m.records import thresholds
from yt8m.runs.opened_run import RunFiles
from yt8m.scoring import EvaluationSettings, Scorer, evaluation, evaluation_results, video_features, video_predictions
from yt8m.scoring.model_input import Data, Videos
from yt8m.scoring.scorer import tags
from yt8m.training import training_run
from yt8m.types import Closing


@dataclass(frozen=True)
class ScoredClass:
    """A predicted class: its index, its name in the model's vocabulary, and its score from 0 to 1.

    Attributes:
      index, name, score: as said above.
      few_positives: of a tag whose threshold was chosen on fewer than 20 videos with the label, their number; the
        threshold may be far off. None for other tags, and for classes that are no tags.
    """

    index: int
    name: str
    score: float
    few_positives: int | None = None


@dataclass(frozen=True)
class VideoPrediction:
    """The prediction for one video.

    Attributes:
      id: the id of a record as a text, or the path of a video file.
      classes: the best classes, best first.
      seconds: how many seconds of a video file were scored; None for a record.
      tags: of a video file, the classes whose scores reach their thresholds, best first; None for a record, and if the
        model has no thresholds.
      window_seconds: of a film, which is longer than the videos of the training, the length of the windows in which it
        was scored; 0 for other videos.
    """

    id: str
    classes: tuple[ScoredClass, ...]
    seconds: float | None = None
    tags: tuple[ScoredClass, ...] | None = None
    window_seconds: float = 0.0


class Model(Closing):
    """A trained model that is ready to predict, from `load`. Several threads may use it at the same time.

    Close it after use, or use it in a `with` block.

    Attributes:
      path: the path that the model was loaded from.
      vocabulary: the names of the classes.
      num_classes: number of classes, C.
    """

    def __init__(self, path: str, scorer: Scorer, *, trust_code: bool = False) -> None:
        self.path, self._scorer, self._trusts_code = path, scorer, trust_code
        self.num_classes, self.vocabulary = scorer.num_classes, scorer.shown_names
        self._close = weakref.finalize(self, _close_in_process, os.getpid(), scorer)

    def predict(self, data: Data, top_k: int = 5) -> Iterator[VideoPrediction]:
        """Yields the best classes of each video. Only one batch is in memory.

        Args:
          data: the result of `read_records`, a file pattern, one or several `NumpyBatch`, or a dict {feature: array
            [videos, size] or [videos, frames, size]}. With a dict the id of a video is the number of its row.
          top_k: number of classes for each video.

        Raises:
          UsageError: the data do not fit the model, no file matches, an array holds NaN, `top_k` is below 1, or the
            model is closed.
          RunError: a record is damaged (the message names file and record), or a score is NaN.
        """
        self._refuse_closed()
        if top_k < 1:
            raise UsageError(f"top_k is {top_k}; it must be at least 1.")
        return self._predict_batches(self._scorer.batches(data), top_k)

    def _predict_batches(self, batches: Iterator[Videos], top_k: int) -> Iterator[VideoPrediction]:
        for videos in batches:
            ids, scores = self._scorer.scores(videos)
            best = best_classes(scores, top_k)
            for video_id, classes, values in zip(ids, best.classes.tolist(), best.scores.tolist(), strict=True):
                yield self._prediction(video_id, classes, values)

    def _prediction(self, video: str, classes: list[int], scores: list[float]) -> VideoPrediction:
        names = map(self.vocabulary.name, classes)
        return VideoPrediction(video, tuple(map(ScoredClass, classes, names, scores)))

    def embeddings(self, data: Data) -> tuple[list[str], NDArray[np.float32]]:
        """Computes the last hidden layer of the model for each video, from which its classes are computed.

        Args:
          data: as in `predict`.

        Returns:
          The ids of the N videos, and their vectors, float32 [N, F].

        Raises:
          UsageError: for the reasons of `predict`; or the model is an export, or has no hidden layer.
          RunError: a record is damaged (the message names file and record), or there is no video.
        """
        self._refuse_closed()
        batches = [self._scorer.hidden(videos) for videos in self._scorer.batches(data)]
        if not batches:
            raise RunError("there is no video in these data.")
        ids, vectors = zip(*batches, strict=True)
        return [video_id for names in ids for video_id in names], np.concatenate(vectors)

    def evaluate(
        self, data: Data, *, top_k: int = 20, segment_labels: bool = False, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Computes the same metrics as eval.py for these data; nothing is written.

        Args:
          data: as in `predict`, but with labels, so not a dict of arrays.
          top_k: number of best predictions of each video that count.
          segment_labels: evaluate on the rated segments of frame records, which must come from files.
          metrics: custom metrics in addition to the built-in ones, as `package.module:Class`.

        Returns:
          A dict with the content of eval/report.json: `gap`, `map`, `hit_at_one`, `perr`, `loss`, `num_examples`,
          `classes` and more. An export gives no `loss`, since it does not contain the loss function.

        Raises:
          UsageError: for the reasons of `predict`; or the data are a dict of arrays; or a metric is wrong.
          RunError: for the reasons of `predict`; or the data have no example.
        """
        self._refuse_closed()
        if isinstance(data, Mapping):
            raise UsageError("a dict of arrays has no labels; give a yt8m.NumpyBatch.")
        settings = EvaluationSettings(top_k, segment_labels)
        with _call_scope("give trust_code=True to yt8m.load"):
            registry.set_command_line_names(metrics)
            result = evaluation.evaluate_with(self._scorer, self._scorer.batches(data), settings, metrics)
        return evaluation_results.report_json(result, self._scorer.model)

    def predict_video(
        self,
        path: str | os.PathLike[str],
        top_k: int = 5,
        *,
        extractors: Sequence[str] = (),
        trust_code: bool = False,
        max_bad_packets: int = 0,
        tags_of: Literal["", "windows", "whole"] = "",
        **settings: Any,
    ) -> VideoPrediction:
        """The best classes of a video file. Its features come from the extractors of the model's training data.

        A film, a video that is longer than all videos of the training, is scored in windows of their median length,
        each of which overlaps the next one by half; the score of a class is that of its best window. With
        `tags_of="whole"`, for features of YouTube-8M, and if the lengths of the training videos are not known, a video
        is scored as a whole: if it has more frames than the records of the training may have, in parts of so many
        frames, and the scores are the means of those of the parts, weighted by their numbers of frames.

        Args:
          path: the video, local or gs://.
          top_k: number of classes.
          extractors: names of the extractors to use in place of those of the training data; needed if the model does
            not name these.
          trust_code: import the code or load the SavedModel that the model names as an extractor, even if you did not
            train the model on this machine. If you gave it to `load`, you need not give it here.
          max_bad_packets: number of damaged packets of the video that may be left out.
          tags_of: `windows` or `whole`, to choose how a film is scored.
          **settings: the paths of weights, by the names of their flags, such as `vggish_model="..."`, and settings of
            the extractors that do not change the features.

        Raises:
          UsageError: an extractor is unknown, is not trusted, or has other weights or settings than in the training; or
            the model takes a feature that no extractor computes; or the model is closed.
          RunError: the video cannot be decoded, or weights cannot be fetched.
        """
        self._refuse_closed()
        takes, video = self._scorer.takes, storage.expanded(os.fspath(path))
        is_trusted = trust_code or self._trusts_code
        with (
            _call_scope(),
            video_features.for_model(
                takes, settings, extractors, trust_code=is_trusted, max_bad_packets=max_bad_packets
            ) as source,
        ):
            (scored,) = video_predictions.predict(self._scorer, source, [video], tags_of=tags_of)
        if scored.bad:
            raise RunError(f"{video}: {scored.bad}.")
        best = best_classes(scored.scores[np.newaxis], top_k)
        prediction = self._prediction(video, best.classes[0].tolist(), best.scores[0].tolist())
        return dataclasses.replace(
            prediction, seconds=scored.seconds, tags=self._tags(scored.scores), window_seconds=scored.window_seconds
        )

    @functools.cached_property
    def _tagger(self) -> thresholds.Tagger | None:
        return self._scorer.tagger()

    def _tags(self, scores: NDArray[np.float32]) -> tuple[ScoredClass, ...] | None:
        tagger = self._tagger
        if tagger is None:
            return None
        return tuple(
            ScoredClass(index, self.vocabulary.name(index), score, tagger.few_positives(index))
            for index, score in tags(scores, tagger)
        )

    def _refuse_closed(self) -> None:
        if not self._close.alive:
            raise UsageError(f"{self.path}: this model is closed; load it again.")

    def close(self) -> None:
        """Closes the sessions, and removes the files that were unpacked from an archive. A second call does nothing."""
        self._close()


def load(path: str | os.PathLike[str], *, checkpoint: str | int = "", trust_code: bool = False) -> Model:
    """Loads a trained model.

    Args:
      path: the folder of a run, the folder of an export (SavedModel), an archive (.tgz) that inference.py packed, or an
        ONNX file (.onnx); local or gs://.
      checkpoint: which checkpoint of a run: `last`, `best` (kept by train.py --eval_data_pattern or eval.py
        --keep_best), or a step; empty for `best` if the training chose its own validation videos, else `last`.
      trust_code: import the code that the run names, even if you did not train the run on this machine.

    Raises:
      UsageError: there is no such model, `checkpoint` is not `last` for a model that is not a run, or the model names
        code that is not trusted.
      RunError: the model or the checkpoint cannot be read.
    """
    model_path = os.path.expanduser(os.fspath(path)).rstrip("/")
    with _call_scope():
        # Graphs are built, and their weights read, when they are needed: perhaps after a change of the current folder.
        scorer = scoring.open(storage.absolute(model_path), str(checkpoint), trust_code=trust_code)
        return Model(model_path, scorer, trust_code=trust_code)


def _close_in_process(pid: int, scorer: Scorer) -> None:
    """Closes a scorer in process `pid`; in a process that was forked from it, TensorFlow would hang."""
    if pid == os.getpid():
        scorer.close()


@contextlib.contextmanager
def _call_scope(remedy: str = "give trust_code=True") -> Iterator[None]:
    """The context of a call from Python. What is trusted inside is not trusted after it.

    Args:
      remedy: replaces the advice to add the flag --trust_code in error messages.
    """
    try:
        with registry.local_trust():
            yield
    except UsageError as error:
        raise UsageError(str(error).replace("add --trust_code", remedy)) from error


def extract(
    path: str | os.PathLike[str],
    *,
    extractors: Sequence[str] = ("inception", "vggish"),
    frames_per_second: float = 1.0,
    max_frames: int = 300,
    max_bad_packets: int = 0,
    **settings: Any,
) -> dict[str, NDArray[np.float32]]:
    """Extracts the features of a video file, as `yt8m extract` does.

    Args:
      path: the video, local or gs://.
      extractors: names of the extractors, as for the flag --extractors.
      frames_per_second: number of rows for each second of the video.
      max_frames: largest number of rows.
      max_bad_packets: number of damaged packets of the video that may be left out.
      **settings: values for the fields of the extractors, such as `picture_size=384` or `vggish_model="..."`.

    Returns:
      {feature: float32 [rows, size]}, all with the same number of rows.

    Raises:
      UsageError: an extractor or a setting is wrong.
      RunError: the video cannot be decoded, or weights cannot be fetched.
    """
    sampling = Settings(frames_per_second, max_frames, max_bad_packets=max_bad_packets)
    video = storage.expanded(os.fspath(path))
    with _call_scope():
        registry.set_command_line_names(extractors)
        ((_, features, names),) = video_features.extract([video], extractors, settings, sampling, 1)
    if features.bad:
        raise RunError(f"{video}: {features.bad}.")
    return dict(zip(names, features.arrays, strict=True))


@dataclass(frozen=True)
class FittedRun:
    """The result of a training that has finished, or that a signal has stopped; its last step is saved.

    Attributes:
      folder: the absolute path of the run's folder, which you can pass to `load`.
      status: `finished`, `out_of_data` (all epochs were read), or `stopped` (by Ctrl-C or SIGTERM).
      step: the last training step.
      message: how the training ended, in words.
      figures: the last row of metrics.jsonl about a training step, which has no `mode`: `step`, `loss`, `GAP` and other
        metrics of one batch; empty if there is no such row.
      validations: if `eval_data_pattern` was given, the metrics of each validation with its `step`, including the
        validations of earlier starts of the run. `load` with `checkpoint="best"` loads the best one by `best_metric`.
    """

    folder: str
    status: str
    step: int
    message: str
    figures: Mapping[str, float]
    validations: tuple[Mapping[str, float | None], ...] = ()


def fit(**flag_values: Any) -> FittedRun:
    """Trains a model in this process, as train.py does.

    Args:
      **flag_values: the flags of train.py by name, such as `model="MoeModel"`; lists for flags that take several
        values. None stands for a flag that is not given.

    Raises:
      UsageError: a flag is wrong, as on the command line; or TF_CONFIG or CLUSTER_SPEC describes a cluster in which
        several processes train.
      RunError: the training failed; the message says why.
    """
    cluster_config = cluster.from_environment()
    if cluster_config is not None and cluster_config.is_distributed:
        raise UsageError(
            "TF_CONFIG or CLUSTER_SPEC makes this process part of a cluster: use `yt8m train`, or unset the variable."
        )
    with _call_scope(), program.shown_log():
        config, outcome = training_run.train(*flags.training(_command_line(flag_values)))
    if outcome.status is runner.Status.FAILED:
        raise RunError(outcome.message) from outcome.error
    validations = tuple(outcome.results.get("validations", ()))
    lines = RunFiles(config.train_dir).training_lines
    figures = dict(lines[-1]) if lines else {}
    folder = storage.absolute(config.train_dir)  # `load` finds it after a change of the current folder too
    return FittedRun(folder, str(outcome.status), outcome.global_step, outcome.message, figures, validations)


def _command_line(flag_values: Mapping[str, Any]) -> list[str]:
    """The arguments of train.py with these flags."""
    for name in flag_values:
        if name in flag_parsing.HELP:
            raise UsageError(f"{name} is not a flag of a training: see help(yt8m.fit), or `yt8m train --help`.")
    return [f"--{name}={_flag_text(name, value)}" for name, value in flag_values.items() if value is not None]


def _flag_text(name: str, value: Any) -> str:
    """The value of the flag `name` as it is written on the command line."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, np.generic):
        value = value.item()
    items = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(part, str | bool | int | float) for part in items):
        raise UsageError(f"{name}={value!r}: expected a text, a number, True or False, or a list of them.")
    return options.shown(value)
