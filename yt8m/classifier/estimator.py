"""The class `Classifier`: scikit-learn's interface to a training and to the model that comes of it."""

from __future__ import annotations

import contextlib
import inspect
import operator
import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from yt8m.classifier import classifier_scores, classifier_training
from yt8m.classifier.given_videos import paths_of, refuse_other_rows, videos_of
from yt8m.classifier.run_folder import RunFolder
from yt8m.python_api.data_errors import DataError, not_fitted, refusing_arguments
from yt8m.python_api.given_labels import GivenLabels, labels_of
from yt8m.python_api.results import EvaluationReport, html_of


class Classifier:
    """Classifies videos, or anything else that is described by vectors, with any number of labels each.

    It has the interface of scikit-learn, which need not be installed: `Pipeline`, `GridSearchCV`, `cross_val_predict`
    and `clone` take it. `fit` trains as `yt8m train` does, in a temporary folder that is removed with the classifier;
    `save` keeps the run, which `yt8m.load` and all commands take. A classifier can be pickled, before and after `fit`.

    It trains in one process, on data that fit into memory. It does not train in a cluster, on records, or on data in a
    bucket (gs://): `yt8m.fit` and `yt8m train` do.

    Args:
      model: `auto` chooses among several models and their settings by videos that are held out; the name of a model,
        such as `MoeModel`, chooses among its settings. A class of
        your own is taken too, if it is in a module.
      budget: seconds for the choice and the training.
      random_state: the seed: a whole number; a NumPy generator, which draws one; None for another one in each `fit`.
      extractors: names of the extractors that compute the features if X has paths of videos, such as
        `("inception", "vggish")`.
      extractor_settings: settings of the extractors and paths of their weights, by name.
      options: further options of `yt8m.fit` by name, such as `{"label_loss": "SoftmaxLoss"}`. With the name of a
        model and `max_steps` or `num_epochs` the training is as long as they say, and nothing is chosen.
      verbose: whether the log is shown.
      label_separator: the text between two labels, if the labels of a video are one text, such as `;` for `cat;dog`;
        `none` if each text is one name; `auto` finds it, as `yt8m make-records` does, and refuses what has two
        readings.

    Attributes:
      classes_: [C], the classes: the names in `y`, sorted; the columns of a DataFrame; or the numbers of the columns.
      thresholds_: float64 [C], the score from which on `predict` says that a video has the class: the one with the best
        F1 on videos that the model had not seen.
      span_thresholds_: float64 [C], the score from which on `spans` says that a part of a video shows the class: the
        one with the best F1 for the labels of up to 1,000 videos, of which the best part counts. Only with frames.
      n_features_in_: the number of values of a video, or of a frame; of the first feature, if there are several.
      feature_names_in_: the columns of X, if it was a DataFrame.
    """

    def __init__(
        self,
        model: str | type[Any] = "auto",
        budget: float = 60.0,
        random_state: Any = 0,
        extractors: Sequence[str] = (),
        extractor_settings: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        verbose: bool = False,
        label_separator: str = "auto",
    ) -> None:
        self.model, self.budget, self.random_state = model, budget, random_state
        self.extractors, self.extractor_settings = extractors, extractor_settings
        self.options, self.verbose, self.label_separator = options, verbose, label_separator

    def fit(self, X: Any, y: Any, groups: Any = None, X_val: Any = None, y_val: Any = None, **unknown: Any) -> Self:
        """Trains on some videos.

        Without `X_val`, a tenth of the videos, but at least 30, is held out to compare models and to choose the
        thresholds; if there are fewer than 5,000 videos, the chosen model is then trained on all.

        Args:
          X: an array [videos, values] or [videos, frames, values]; for each video an array [frames, values]; a dict
            {feature: one of these}; a DataFrame of numbers, or with arrays in its cells; or paths of video files.
          y: for each video a list of the names of its labels, a text with them (see `label_separator`) or a dict
            {class: 0 or 1}; 0 and 1, [videos, classes], as an array, a sparse matrix or a DataFrame; or [videos], the
            one class that each video has. Blanks around a name in a list do not count.
          groups: [videos], for example the channel of each video: the videos of a group are held out together.
          X_val: videos to compare models on, which are never trained on; in the forms of `X`.
          y_val: their labels.
          **unknown: nothing; `sample_weight` is refused, since videos count alike.

        Returns:
          The classifier itself.

        Raises:
          ValueError: a shape does not fit, a value is NaN, no video has a label, an option is wrong, or the process is
            part of a cluster. It is a `yt8m.UsageError` too.
          RunError: the training failed, or a video cannot be decoded.
        """
        _refuse_unknown(unknown)
        refuse_other_rows(X, ("y", y), ("groups", groups))
        refuse_other_rows(X_val, ("y_val", y_val), name="X_val")
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val go together: give both, or none.")
        X = X if paths_of(X) else videos_of(X)
        labels = labels_of(y, separator=self.label_separator)
        settings = self._settings()
        validation = None if X_val is None else (X_val, labels_of(y_val, labels.classes, self.label_separator))
        with refusing_arguments(settings.extractor_settings):
            fitted = classifier_training.train(settings, X, labels, groups, validation)
        self._run, self._input = fitted.run, fitted.input
        self.classes_, self._is_single = labels.classes, labels.is_single
        self.thresholds_ = fitted.thresholds
        self.__dict__.pop("span_thresholds_", None)
        if fitted.span_thresholds is not None:
            self.span_thresholds_ = fitted.span_thresholds
        self.n_features_in_ = next(iter(fitted.input.sizes.values()))
        self.__dict__.pop("feature_names_in_", None)
        if fitted.input.columns is not None:
            self.feature_names_in_ = np.array(fitted.input.columns, dtype=object)
        return self

    def _settings(self) -> classifier_training.TrainingSettings:
        """The arguments of the constructor; scikit-learn wants them checked in `fit`."""
        if not isinstance(self.model, str | type):
            raise DataError(f"model is {self.model!r}: expected 'auto', the name of a model, or a class.")
        if self.budget is not None and (isinstance(self.budget, bool) or not isinstance(self.budget, Real | str)):
            raise DataError(f"budget is {self.budget!r}: expected seconds, such as 60.")
        return classifier_training.TrainingSettings(
            *(self.model, self.budget, _seed(self.random_state), _as_dict("options", self.options)),
            *(tuple(_as_names(self.extractors)), _as_dict("extractor_settings", self.extractor_settings)),
            bool(self.verbose),
        )

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The scores of videos.

        Args:
          X: videos in the forms that `fit` takes, with the features of the training.

        Returns:
          float32 [videos, classes], from 0 to 1, in the order of `classes_`. If the videos of the training had one
          class each, the scores of a video add up to 1.

        Raises:
          ValueError: the classifier is not trained, or X does not fit it.
          RunError: a video cannot be decoded.
        """
        run, takes = self._fitted()
        with refusing_arguments(takes.extractor_settings or ()):
            scores = classifier_scores.scores(run, takes, X, type(self).__name__)
        if not self._is_single or run.model._scorer.takes.format.one_class:
            return scores
        # The model in a pickle of an earlier version does not divide by the sum itself.
        sums = np.maximum(scores.sum(axis=1, keepdims=True, dtype=np.float64), np.finfo(np.float32).tiny)
        return np.asarray(scores / sums, np.float32)

    def predict(self, X: Any) -> NDArray[Any]:
        """The labels of videos.

        Args:
          X: as for `predict_proba`.

        Returns:
          bool [videos, classes], whether the score of a class reaches its threshold. If the videos of the training had
          one class each: [videos], the best class of each video.

        Raises:
          ValueError: the classifier is not trained, or X does not fit it.
          RunError: a video cannot be decoded.
        """
        scores = self.predict_proba(X)
        if self._is_single:
            return np.asarray(self.classes_[scores.argmax(axis=1)])
        return np.asarray(scores >= self.thresholds_)

    def tags(self, X: Any) -> list[list[Any]]:
        """The names of the labels of videos.

        Args:
          X: as for `predict_proba`.

        Returns:
          For each video the classes that reach their thresholds, best first. If the videos of the training had one
          class each, the best class alone.

        Raises:
          ValueError: the classifier is not trained, or X does not fit it.
          RunError: a video cannot be decoded.
        """
        scores = self.predict_proba(X)
        if self._is_single:
            return [[name] for name in self.classes_[scores.argmax(axis=1)].tolist()]
        order, names = np.argsort(-scores, axis=1, kind="stable"), self.classes_.tolist()
        is_tag = np.take_along_axis(scores >= self.thresholds_, order, 1)
        return [[names[index] for index in row[reached].tolist()] for row, reached in zip(order, is_tag, strict=True)]

    def spans(self, X: Any) -> list[list[tuple[float, float, Any, float]]]:
        """The spans of time at which videos show classes.

        Each video is scored in cells of five frames. A span is where a cell reaches the threshold of the class in
        `span_thresholds_`, with the cells before and after it that reach 0.7 of it. A classifier learns the labels of
        whole videos, so its spans show where it sees what these labels have in common. Spans that people have marked
        are learned by `yt8m make-records --rows=spans` and `yt8m train`, whose run `yt8m.load` takes.

        Args:
          X: videos in the forms that `fit` takes, with frames: for each video an array [frames, values]; or paths of
            video files.

        Returns:
          For each video its spans (start, end, class, score), by their starts. Times are seconds if X has paths, else
          frames. The score is the mean of the scores of the cells.

        Raises:
          ValueError: the classifier is not trained, X does not fit it, or X has no frames.
          RunError: a video cannot be decoded.
        """
        run, takes = self._fitted()
        with refusing_arguments(takes.extractor_settings or ()):
            thresholds = getattr(self, "span_thresholds_", self.thresholds_)  # pickles of earlier versions have none
            spans_of_videos = classifier_scores.spans(run, takes, X, type(self).__name__, thresholds)
        names = self.classes_.tolist()
        return [[(span.start, span.end, names[span.number], span.score) for span in spans] for spans in spans_of_videos]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How good the classifier is on some videos.

        Args:
          X: as for `predict_proba`.
          y: their labels, in the forms that `fit` takes.
          sample_weight: [videos], how much each video counts; None for equal weights.

        Returns:
          Full mAP, the mean over the classes that have a label of their average precision, of all scores. If the
          videos of the training had one class each: the share of videos whose best class is right.

        Raises:
          ValueError: the classifier is not trained, or X or y do not fit it.
        """
        self._fitted()
        refuse_other_rows(X, ("y", y), ("sample_weight", sample_weight))
        truth: GivenLabels = labels_of(y, self.classes_, self.label_separator)
        scores = self.predict_proba(X)
        if len(scores) != len(truth):
            raise DataError(f"X has {len(scores)} videos, but y has {len(truth)}: inconsistent numbers of samples.")
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        if not self._is_single:
            return classifier_scores.mean_average_precision(scores, truth.matrix, weights)
        is_right = truth.matrix[np.arange(len(truth)), scores.argmax(axis=1)]
        return float(np.average(is_right, weights=weights))

    def evaluate(self, X: Any, y: Any) -> EvaluationReport:
        """All figures of the classifier on some videos, as `yt8m.evaluate` gives them of a run.

        Args:
          X: as for `predict_proba`, but no paths of videos.
          y: their labels, in the forms that `fit` takes.

        Returns:
          GAP, mAP, Hit@1 and PERR with their 95 % confidence intervals, and the figures of each class. `to_frame()`
          makes a DataFrame of the classes.

        Raises:
          ValueError: the classifier is not trained, or X or y do not fit it.
        """
        run, takes = self._fitted()
        refuse_other_rows(X, ("y", y))
        truth = labels_of(y, self.classes_, self.label_separator)
        with refusing_arguments():
            return classifier_scores.report(run, takes, X, type(self).__name__, truth.matrix)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copies the run into a new folder, which `yt8m.load` and every command take.

        Args:
          path: the folder, on this machine.

        Raises:
          ValueError: the folder exists, or is in a bucket, or the classifier is not trained.
        """
        self._fitted()[0].copy_to(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Refuses, and names what loads a saved run.

        Args:
          path: the folder that `save` wrote.

        Raises:
          ValueError: always: `yt8m.load(path)` gives the model of the run, and a pickle keeps the classifier itself.
        """
        raise DataError(
            f"{cls.__name__}.load does not exist: yt8m.load({os.fspath(path)!r}) gives the saved model, with "
            "predict_proba and tags; pickle.dump(classifier, file) keeps the classifier itself."
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """{name: value} of the arguments of the constructor."""
        return {name: getattr(self, name) for name in self._arguments()}

    def set_params(self, **params: Any) -> Self:
        """Sets arguments of the constructor; returns the classifier itself.

        Raises:
          ValueError: there is no such argument.
        """
        names = self._arguments()
        for name, value in params.items():
            if name not in names:
                raise DataError(f"Invalid parameter {name!r} of {type(self).__name__}; valid are {', '.join(names)}.")
            setattr(self, name, value)
        return self

    @classmethod
    def _arguments(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def _fitted(self) -> tuple[RunFolder, classifier_training.FittedInput]:
        if "_run" not in vars(self):
            raise not_fitted(type(self).__name__)
        return self._run, self._input

    def __sklearn_is_fitted__(self) -> bool:
        return "_run" in vars(self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # only scikit-learn asks for tags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(three_d_array=True),
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if "_run" in state:
            state["_run"] = state["_run"].packed()
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        if "_run" in state:
            self._run = RunFolder.unpacked(state["_run"])

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        arguments = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _is_same(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _repr_html_(self) -> str:
        if "_run" not in vars(self):
            return html_of({"trained": "not yet: call fit(X, y)"}, repr(self))
        return html_of({**self._run.facts(), "classes": len(self.classes_)}, repr(self))


def _refuse_unknown(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if name == "sample_weight" and value is None:
            continue
        hint = (
            'videos count alike; Classifier(options={"class_weights": {"cat": 3.0}}) weighs classes'
            if "weight" in name
            else "its arguments are X, y, groups, X_val and y_val; others go to Classifier(...)"
        )
        raise DataError(f"fit takes no {name}: {hint}.")


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _seed(random_state: Any) -> int:
    """The seed that `random_state` stands for."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    with contextlib.suppress(TypeError):
        if (seed := operator.index(random_state)) >= 0:
            return seed
    raise DataError(f"random_state is {random_state!r}: expected a whole number from 0 on, a generator, or None.")


def _as_names(names: Any) -> Sequence[str]:
    listed = [names] if isinstance(names, str) else names or ()
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise DataError(f"extractors is {names!r}: expected names, such as ('inception', 'vggish').")
    return listed


def _as_dict(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise DataError(f"{name} is {value!r}: expected a dict by the names of the {name.replace('_', ' ')}.")
    return dict(value or {})
