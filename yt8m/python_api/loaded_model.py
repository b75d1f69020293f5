"""`yt8m.load`: a trained model, which predicts and is evaluated."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from yt8m import registry, scoring, storage
from yt8m.config.programs import EvalConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.named_figures import SPELLINGS
from yt8m.eval_util.top_k import top_k as best_classes
from yt8m.python_api import given_files
from yt8m.python_api.call_scope import call_scope, in_words_of_python, local_path, name_list, video_path
from yt8m.python_api.results import EvaluationReport, Predictions, ResultRows, ScoredClass, VideoPrediction, html_of
from yt8m.records import data_folders, label_check
from yt8m.records.batches import Records
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.thresholds import Tagger
from yt8m.scoring import (
    EvaluationSettings,
    Scorer,
    evaluation,
    evaluation_results,
    film_spans,
    span_finder,
    video_features,
    video_predictions,
)
from yt8m.scoring.evaluation_results import EvaluationResult
from yt8m.scoring.model_input import Data, Videos, refuse_nan_in
from yt8m.scoring.scorer import tags
from yt8m.scoring.table_input import index_difference
from yt8m.types import Closing

_RESAMPLES = 200  # sets of videos that are drawn for intervals

# {what a model of another package has: what it is here}
_OTHER_NAMES = {
    **dict.fromkeys(("classes", "classes_", "class_names", "labels"), "model.names are the names of the classes"),
    **dict.fromkeys(("fit", "train"), "yt8m.Classifier().fit(X, y) trains on arrays, yt8m.fit(data=...) on records"),
    **dict.fromkeys(("val", "score", "eval", "test"), "model.evaluate(X, y) gives the figures"),
    **dict.fromkeys(("save", "export"), "yt8m.export_model(path, out=...) writes the model as a file"),
    **dict.fromkeys(("to", "cuda", "cpu"), "a GPU is used if TensorFlow sees one, and CUDA_VISIBLE_DEVICES says which"),
    "transform": "model.embeddings(X) gives the last hidden layer",
    "decision_function": "model.predict_proba(X) gives the scores",
}


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

    @in_words_of_python()
    def predict(self, data: Data, top_k: int = 5) -> Predictions:
        """The best classes of each video. Only one batch is in memory.

        Args:
          data: the result of `read_records`, a file pattern or a list of them, one or several `NumpyBatch`, or a dict
            {feature: array [videos, size] or [videos, frames, size], or for each video an array [frames, size]}. If the
            model takes one feature, its array need not be in a dict, and may be a DataFrame: its columns must be those
            of the training if the model was trained on a DataFrame, else they count by their place. The id of a video
            is then its label in the index of the DataFrame, or else the number of its row.
          top_k: number of classes for each video.

        Returns:
          An iterator over the predictions, which has `to_frame()` too.

        Raises:
          UsageError: at the call: the data do not fit the model, no file matches, an array holds NaN, `top_k` is below
            1, or the model is closed. Of several batches only the first is looked at.
          RunError: at its turn: a record is damaged (the message names file and record), or a score is NaN.
        """
        self._refuse_closed()
        if top_k < 1:
            raise UsageError(f"top_k is {top_k}; it must be at least 1.")
        return Predictions(self._predict_batches(self._checked_batches(data), top_k))

    def _checked_batches(self, data: Data) -> Iterator[Videos]:
        if (paths := given_files.paths_in(data)) and not self._scorer.takes.has_own_reader:
            given_files.refuse_other_files(paths)
            return self._scorer.batches(self._scorer.records(paths if len(paths) > 1 else paths[0]))
        data = self._scorer.takes.by_name(data)
        batches = self._scorer.batches(data)
        if isinstance(data, Mapping | NumpyBatch):
            for videos in batches:
                refuse_nan_in(videos)
            return self._scorer.batches(data)
        return batches if isinstance(data, str | os.PathLike | Records) else _with_checked_first(batches)

    @in_words_of_python()
    def predict_proba(self, data: Data) -> NDArray[np.float32]:
        """The scores of all classes, for data whose scores fit into memory; `predict` gives the ids too.

        Args:
          data: as in `predict`.

        Returns:
          float32 [videos, classes], from 0 to 1, in the order of the data and of `vocabulary`.

        Raises:
          UsageError: for the reasons of `predict`.
          RunError: a record is damaged, or there is no video.
        """
        self._refuse_closed()
        scores = [self._scorer.scores(videos)[1] for videos in self._checked_batches(data)]
        if not scores:
            raise RunError("there is no video in these data.")
        return np.concatenate(scores)

    @in_words_of_python()
    def tags(self, data: Data) -> list[list[str]]:
        """The names of the classes that reach their thresholds, of the 20 best classes of each video.

        Args:
          data: as in `predict`.

        Returns:
          For each video, in the order of the data, the names of its tags, best first.

        Raises:
          UsageError: for the reasons of `predict`; or the model has no thresholds.
          RunError: a record is damaged, or there is no video.
        """
        self._refuse_closed()
        if (tagger := self._tagger) is None:
            raise UsageError(
                f"{self.path} has no thresholds, which say from which score on a class is a tag: `yt8m eval --report` "
                "writes those of a run, on data with labels; `predict` needs none."
            )
        return [[self.vocabulary.name(index) for index, _ in tags(row, tagger)] for row in self.predict_proba(data)]

    def __getattr__(self, name: str) -> Any:
        hint = f"; {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    @property
    def names(self) -> list[str]:
        """The names of the classes, in the order of the scores."""
        return list(map(self.vocabulary.name, range(self.num_classes)))

    @functools.cached_property
    def thresholds(self) -> dict[str, float]:
        """{name of a class: the score from which on a video gets it as a tag}; empty if the model has none.

        A training that chooses its model writes them, and so does an evaluation with --report. The threshold of a class
        that is never a tag is infinite.
        """
        if self._tagger is None:
            return {}
        return dict(zip(self.names, self._tagger.thresholds.tolist(), strict=True))

    def _predict_batches(self, batches: Iterator[Videos], top_k: int) -> Iterator[VideoPrediction]:
        with in_words_of_python():
            for videos in batches:
                ids, scores = self._scorer.scores(videos)
                best = best_classes(scores, top_k)
                for video_id, classes, values in zip(ids, best.classes.tolist(), best.scores.tolist(), strict=True):
                    yield self._prediction(video_id, classes, values)

    def _prediction(self, video: str, classes: list[int], scores: list[float]) -> VideoPrediction:
        names = map(self.vocabulary.name, classes)
        return VideoPrediction(video, tuple(map(ScoredClass, classes, names, scores)))

    @in_words_of_python()
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

    @in_words_of_python()
    def evaluate(
        self,
        data: Data,
        labels: Any = None,
        *,
        top_k: int = 20,
        segment_labels: bool = False,
        metrics: str | Sequence[str] = (),
        intervals: bool = False,
    ) -> EvaluationReport:
        """Computes the same metrics as eval.py for these data; nothing is written.

        Args:
          data: as in `predict`. Of a folder of records, the split `test`, or else `validate`, is read.
          labels: of arrays, the labels of the videos, in the forms that `Classifier.fit` takes: for each a list of the
            names of its classes, or a text such as `cat;dog`; or 0 and 1, [videos, classes], as an array or as a
            DataFrame with the names of the classes. Records and batches have labels.
          top_k: number of best predictions of each video that count.
          segment_labels: evaluate on the rated segments of frame records, which must come from files.
          metrics: custom metrics in addition to the built-in ones, as `package.module:Class`.
          intervals: whether to compute the 95 % confidence intervals of the figures, from 200 sets of resampled videos.
            An export gives none.

        Returns:
          A report: `GAP`, `mAP`, `Hit@1`, `PERR`, `loss`, `num_examples`, `classes` and more; the thresholds of the
          classes; a DataFrame of the classes. An export gives no `loss`, since it does not contain the loss function.

        Raises:
          UsageError: for the reasons of `predict`; or the data have no labels, or other ones; or a metric is
            wrong.
          RunError: for the reasons of `predict`; or the data have no example.
        """
        self._refuse_closed()
        data = self._with_labels(data, labels)
        settings = EvaluationSettings(top_k, segment_labels, intervals)
        with call_scope("give trust_code=True to yt8m.load"):
            metrics = name_list("metrics", metrics)
            registry.set_command_line_names(metrics)
            needs = label_check.RATINGS if segment_labels else label_check.LABELS
            if isinstance(data, str | os.PathLike):
                data = data_folders.of_evaluation(os.fspath(data))
            batches = self._scorer.batches(data, needs=needs)
            result = evaluation.evaluate_with(self._scorer, batches, settings, metrics)
        content = evaluation_results.report_json(result, self._scorer.model)
        return EvaluationReport(
            content, self._intervals_of(result, content) if intervals else None, _thresholds_of(result)
        )

    def _with_labels(self, data: Data, labels: Any) -> Data:
        """The data as batches with labels, if they are arrays; else as they are."""
        arrays = self._scorer.takes.by_name(data)
        if isinstance(arrays, Mapping):
            if difference := index_difference(data, labels, name="data", other="labels"):
                raise UsageError(difference)
            if labels is None:
                raise UsageError("arrays have no labels: give the labels of the videos too, evaluate(data, labels).")
            from yt8m.python_api.labelled_arrays import with_labels  # few evaluations have arrays

            batches = cast(list[NumpyBatch], list(self._scorer.batches(arrays)))
            return list(with_labels(batches, labels, self.names))
        if labels is not None:
            raise UsageError(f"labels are given, but {str(data)[:200]} has labels of its own: leave the argument out.")
        return data

    def _intervals_of(self, result: EvaluationResult, content: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """{figure: (low, high)} of the figures that have an interval."""
        from yt8m.reports import loading  # few evaluations have intervals

        videos = result.sample.videos() if result.sample else None
        if result.sample is None or result.chosen is None or videos is None:
            return {}
        samples = EvalSamples(content, videos, self.num_classes, result.sample.seen, result.chosen.points)
        run = loading.evaluated_run(self.path, samples, _RESAMPLES, 0, result.metric_classes, None)
        bounds = {name: loading.interval_of(run, SPELLINGS[name][0]) for name in ("GAP", "mAP", "Hit@1", "PERR")}
        return {name: (interval.low, interval.high) for name, interval in bounds.items() if interval is not None}

    def predict_video(
        self,
        path: str | os.PathLike[str],
        top_k: int = 5,
        *,
        extractors: str | Sequence[str] = (),
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
        takes, video = self._scorer.takes, video_path(path)
        is_trusted = trust_code or self._trusts_code
        with (
            call_scope(),
            in_words_of_python(),
            video_features.for_model(
                takes,
                settings,
                name_list("extractors", extractors),
                trust_code=is_trusted,
                max_bad_packets=max_bad_packets,
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

    @in_words_of_python()
    def spans(
        self,
        data: Data | Sequence[str | os.PathLike[str]],
        *,
        spans_from: str | os.PathLike[str] = "",
        extractors: str | Sequence[str] = (),
        trust_code: bool = False,
        max_bad_packets: int = 0,
        **settings: Any,
    ) -> ResultRows:
        """Finds the spans of time at which videos show classes, as `yt8m predict --spans` does.

        Args:
          data: records of frames, batches or arrays as in `predict`; the path of a video file, or a list of such paths.
          spans_from: the file `eval/spans.json` that `yt8m eval --spans` wrote; by default that of the run. Without it,
            a class is shown where its score reaches 0.5.
          extractors: of video files, as in `predict_video`; so are `trust_code`, `max_bad_packets` and `settings`.
            Arrays have no rate: their frames count as those of the model. `frames_per_second`, the only setting that
            may be given with them or with records, is compared with that.

        Returns:
          A row for each span: `video`, `start` and `end` in seconds, `class` (its name), `index` and `score`, the mean
          of the scores of its cells. They are in the order of the videos, and of their starts. `to_frame()` makes a
          DataFrame of them.

        Raises:
          UsageError: for the reasons of `predict` and `predict_video`; or the model takes whole videos, and the data
            are neither frames nor video files.
          RunError: a record, a video or the file of the rule is damaged.
        """
        self._refuse_closed()
        rule_path = storage.expanded(os.fspath(spans_from)) if spans_from else ""
        videos = [storage.expanded(path) for path in video_features.video_paths_in(data)]
        if not videos:
            joining = film_spans.joining_for(self._scorer, rule_path)
            if "frames_per_second" in settings:
                film_spans.refuse_stated_rate(settings.pop("frames_per_second"), joining)
            if settings or extractors:
                names = ", ".join([*settings, *(["extractors"] if extractors else [])])
                raise UsageError(f"{names}: settings of video files, but the data are none; leave them out.")
            spans = span_finder.in_data(self._scorer, joining, cast(Data, data))
            return ResultRows("spans", list(span_finder.as_rows(spans, self.vocabulary.name)), span_finder.COLUMNS)
        with (
            call_scope(),
            video_features.for_model(
                *(self._scorer.takes, settings, name_list("extractors", extractors)),
                trust_code=trust_code or self._trusts_code,
                max_bad_packets=max_bad_packets,
            ) as source,
        ):
            joining = film_spans.joining_for(self._scorer, rule_path, source.per_second)
            spans = span_finder.in_videos(self._scorer, joining, source, videos)
            return ResultRows("spans", list(span_finder.as_rows(spans, self.vocabulary.name)), span_finder.COLUMNS)

    @functools.cached_property
    def _tagger(self) -> Tagger | None:
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

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<model {', '.join(f'{name} {value}' for name, value in self._facts().items())}, from {self.path}>"

    def _repr_html_(self) -> str:
        return html_of(self._facts(), self.path)

    def _facts(self) -> dict[str, Any]:
        scorer = self._scorer
        sizes = scorer.takes.format.sizes()
        is_plain = list(sizes) == ["features"]  # "features of 20" would say the same word twice
        features = " and ".join(f"{size}" if is_plain else f"{name} of {size}" for name, size in sizes.items())
        facts = {"class": scorer.model or "unknown", "step": scorer.step, "classes": self.num_classes}
        return {**facts, f"{scorer.takes.format.level} features": features}

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
    # Graphs are built, and `os.fspath(model)` is used, later: perhaps after a change of the current folder.
    model_path = storage.absolute(local_path(path).rstrip("/"))
    with call_scope(), in_words_of_python():
        scorer = scoring.open(model_path, str(checkpoint), trust_code=trust_code)
        return Model(model_path, scorer, trust_code=trust_code)


def _close_in_process(pid: int, scorer: Scorer) -> None:
    """Closes a scorer in process `pid`; in a process that was forked from it, TensorFlow would hang."""
    if pid == os.getpid():
        scorer.close()


def _with_checked_first(batches: Iterator[Videos]) -> Iterator[Videos]:
    """The same batches; the first one is made and checked at once."""
    first = list(itertools.islice(batches, 1))
    for videos in first:
        refuse_nan_in(videos)
    return itertools.chain(first, batches)


def _thresholds_of(result: EvaluationResult) -> dict[str, float]:
    """{name of a class: threshold} with the best F1, of the classes with a label."""
    points = result.metrics.operating_points(EvalConfig.min_positives) if result.metrics else None
    if points is None:
        return {}
    return {
        result.names.name(index): float(points.thresholds[index]) for index in np.flatnonzero(points.positives).tolist()
    }
