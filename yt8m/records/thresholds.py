"""Reads and writes `thresholds.csv`, a threshold for each class.

A class is a tag of a video if the video's score for the class is at least the threshold of the class.

    index,name,threshold,basis,positives,precision,recall,f1,step
    0,cat,0.4375,class,120,0.85,0.8,0.824242424,1000
    1,newt,0.25,common,2,,,,1000

`basis` is `class` for a threshold that was chosen for the class, and `common` for one that was chosen for all classes
together, because the class has too few positives (videos with the label). Precision, recall and F1 are cross-fitted: a
threshold is chosen on each half of the predictions and measured on the other half. `step` is the training step of the
evaluated checkpoint.

Thresholds that guarantee a precision (`yt8m eval --target_precision`) have three further columns. Their fields of
precision and F1 are empty: measured on the videos on which the threshold was chosen, both would be too high.

    index,name,threshold,basis,positives,precision,recall,f1,step,target,confidence,n
    0,cat,0.8125,class,120,,0.6,,1000,0.95,0.9,61
    1,newt,inf,too_few_labels,2,,0,,1000,0.95,0.9,0

`target` is the precision, `confidence` the probability with which it is reached on new videos, and `n` the number of
predictions on which the threshold was tested. A class for which no threshold reaches the target abstains: its threshold
is `inf`, so that it is never a tag, and `basis` says why, `too_few_labels` or `below_target`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, quantity, refusing
from yt8m.records import prediction_files
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.sources.dialects import parse_rows
from yt8m.tables.words.spreadsheets import spreadsheet_text

# The name of the file, and the folder of a run into which an evaluation writes it.
NAME, EVALUATION = "thresholds.csv", "eval"
# The file in a run's folder with those that count until the run is evaluated with a report. They come from the choice
# of the model, on the videos on which the candidates were compared.
OF_CHOICE = "search_thresholds.csv"
# A threshold that was chosen on fewer videos with the label is shown with their number, because it may be far off.
FEW_POSITIVES = 20
NUM_CANDIDATES = 20  # only the 20 classes with the best scores of a video can be tags, and count for thresholds
# The values of the column `basis`; with the last two a class abstains.
CLASS, COMMON, TOO_FEW_LABELS, BELOW_TARGET = "class", "common", "too_few_labels", "below_target"
_ABSTAINING = (TOO_FEW_LABELS, BELOW_TARGET)
_COLUMNS = ("index", "name", "threshold", "basis", "positives", "precision", "recall", "f1", "step")
_GUARANTEE_COLUMNS = ("target", "confidence", "n")
_REQUIRED_COLUMNS = ("index", "threshold")


class PrecisionTarget(NamedTuple):
    """A precision that thresholds must reach on new videos.

    Attributes:
      precision: the least precision, between 0 and 1.
      confidence: the probability with which it must be reached, between 0 and 1.
    """

    precision: float
    confidence: float

    def __str__(self) -> str:
        return f"precision at least {self.precision:g} on new videos, with confidence {self.confidence:g}"


class Guarantee(NamedTuple):
    """The precision that thresholds guarantee, and the evidence for it.

    Attributes:
      tested: int64 [C], for each class the number of predictions on which its threshold was tested.
      has_enough: bool [C], False for a class with so few labels that no threshold could pass the test.
    """

    target: PrecisionTarget
    tested: NDArray[np.int64]
    has_enough: NDArray[np.bool_]


class OperatingPoints(NamedTuple):
    """A threshold for each class, and its precision and recall on the evaluated data. All arrays are [C].

    Attributes:
      thresholds: float64; inf for a class that abstains, which is never a tag.
      positives: int64, number of evaluated videos with the label.
      precision: float64; each half of the predictions is measured with the threshold chosen on the other half. nan for
        a class without a threshold of its own, or if no score reaches the threshold.
      recall, f1: float64, measured in the same way; nan for a class without a threshold of its own.
      guarantee: the precision that the thresholds guarantee; None for thresholds that were chosen for the best F1. With
        a guarantee, `precision` and `f1` are nan, and `recall` is that on all evaluated videos, nan for a class without
        positives.
    """

    thresholds: NDArray[np.float64]
    is_own: NDArray[np.bool_]
    positives: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    guarantee: Guarantee | None = None

    def bases(self) -> list[str]:
        """The column `basis`: whether the threshold was chosen for its class or for all, or why the class abstains."""
        bases = [CLASS if is_own else COMMON for is_own in self.is_own.tolist()]
        if self.guarantee is None:
            return bases
        reasons = [BELOW_TARGET if enough else TOO_FEW_LABELS for enough in self.guarantee.has_enough.tolist()]
        abstains = np.isposinf(self.thresholds).tolist()
        return [
            reason if is_tagless else basis for basis, reason, is_tagless in zip(bases, reasons, abstains, strict=True)
        ]


class Tagger(NamedTuple):
    """Chooses the tags of videos by the thresholds of a file.

    Attributes:
      thresholds: float64 [C]; inf for a class that is never a tag.
      step: the training step of the checkpoint for whose scores the thresholds were chosen; -1 if the file has none.
      target: the precision that the thresholds guarantee; None if the file has none.
      positives: for each class the number of videos with the label on which its threshold was chosen, -1 if the file
        does not say it; empty for no class.
      takes_best: whether the tag of a video is its best class, whatever the thresholds are, because each training video
        has one class.
    """

    thresholds: NDArray[np.float64]
    step: int
    target: PrecisionTarget | None = None
    positives: Sequence[int] = ()
    takes_best: bool = False

    def few_positives(self, index: int) -> int | None:
        """The number of videos on which the threshold of a class was chosen; None if it is not a small one."""
        count = self.positives[index] if index < len(self.positives) else -1
        return count if 0 <= count < FEW_POSITIVES and not self.takes_best else None

    def are_tags(self, classes: NDArray[np.int32], scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which of the best classes of videos, [..., K] from the best on, are tags; bool [..., K]."""
        if self.takes_best:
            return np.broadcast_to(np.arange(scores.shape[-1]) == 0, scores.shape)
        return np.asarray(scores >= self.thresholds[classes])

    def are_tags_of_parts(self, index: int, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Whether a class is a tag of each of T parts of a video, bool [T], whose scores are [T, C]."""
        if self.takes_best:
            return np.asarray(scores.argmax(axis=1) == index)
        return np.asarray(scores[:, index] >= self.thresholds[index])


def write(path: str, points: OperatingPoints, names: Vocabulary, step: int | None) -> None:
    """Writes a file of thresholds atomically; an existing file is replaced.

    A precision, recall or F1 that is nan becomes an empty field.

    Args:
      names: the names of the classes. They are for people who open the file in a spreadsheet, so they are escaped by
        `spreadsheet_text`; `read` ignores them.
      step: the training step of the model for whose scores they were chosen; None if they fit each model of the run.
    """
    rows = []
    measures = zip(points.precision, points.recall, points.f1, strict=True)
    columns = zip(points.thresholds, points.bases(), points.positives, measures, strict=True)
    for index, (threshold, basis, positives, measures_of_class) in enumerate(columns):
        measure_texts = [f"{value:.6g}" if math.isfinite(value) else "" for value in measures_of_class]
        name = spreadsheet_text(names.name(index))
        # Nine digits tell any two float32 values apart, and the threshold lies half-way between two such scores.
        rows.append([index, name, f"{threshold:.9g}", basis, positives, *measure_texts, "" if step is None else step])
    if points.guarantee is not None:
        target = [f"{value:g}" for value in points.guarantee.target]
        rows = [[*row, *target, tested] for row, tested in zip(rows, points.guarantee.tested.tolist(), strict=True)]
    prediction_files.write_table(path, [*_COLUMNS, *(_GUARANTEE_COLUMNS if points.guarantee else ())], rows)


def read(path: str, num_classes: int | None = None) -> Tagger:
    """Reads a file of thresholds; only `index` and `threshold` are required, and the measured columns are ignored.

    Args:
      num_classes: the number of classes of the model, which the file must have; None allows any number.
    """
    return parse(_read_text(path), path, num_classes)


def _read_text(path: str) -> str:
    from yt8m.tables.reading import csv_text  # imports the readers of all kinds of tables

    with refusing(lambda error: RunError(f"{error}. Save the file as CSV in UTF-8.")):
        return csv_text("--thresholds", path)


def parse(text: str, path: str, num_classes: int | None = None) -> Tagger:
    """Parses `text`, the content of the file `path`; the other arguments and the errors are those of `read`."""
    try:
        header, rows = parse_rows(text, path, _REQUIRED_COLUMNS)
        if not set(_REQUIRED_COLUMNS) <= set(header):
            raise ValueError(f"the columns are {', '.join(header) or 'missing'}")
        values, positives, step, target = [], [], -1, None
        for index, (line, fields) in enumerate(rows):
            row = dict(zip(header, fields, strict=False))
            values.append(_parse_threshold(row, index, line))
            positives.append(prediction_files.whole_number((row.get("positives") or "").encode()))
            step = prediction_files.whole_number((row.get("step") or "").encode())
            target = _parse_target(row, line)
    except Exception as error:  # whatever malformed rows raise
        problem = str(error).removeprefix(f"{path}, ").removesuffix(".")
        raise RunError(
            f"{path}: {problem}; expected the columns {', '.join(_REQUIRED_COLUMNS)}, with a line for each class. "
            "Write the file again by `yt8m eval --report`."
        ) from error
    if num_classes is not None and num_classes != len(values):
        raise RunError(
            f"{path} has thresholds of {quantity(len(values), 'class')}, but the model has "
            f"{quantity(num_classes, 'class')}. Use the file that `yt8m eval --report` wrote for this model."
        )
    return Tagger(np.array(values, np.float64), step, target, tuple(positives))


def _parse_target(row: Mapping[str, str | None], line: int) -> PrecisionTarget | None:
    """The precision that a threshold guarantees; None if the fields are empty or missing."""
    texts = [row.get(name) or "" for name in ("target", "confidence")]
    try:
        return PrecisionTarget(*map(float, texts)) if all(texts) else None
    except ValueError as error:
        raise ValueError(f"line {line}: target or confidence is not a number: {', '.join(texts)}") from error


def _parse_threshold(row: Mapping[str, str | None], expected_index: int, line: int) -> float:
    """The threshold in a line, inf for a class that abstains."""
    index, text = row.get("index"), row.get("threshold")
    if index != str(expected_index):
        raise ValueError(f"line {line}: the index is {index!r}, not {expected_index}")
    try:
        value = float((text or "nan").replace(",", "."))  # a decimal comma, as spreadsheets write it
    except ValueError:
        value = math.nan
    abstains = row.get("basis") in _ABSTAINING and value == math.inf
    if not math.isfinite(value) and not abstains:
        raise ValueError(f"line {line}: the threshold is {text!r}, not a number")
    return value


HELP = "thresholds.csv of an evaluation with --report; by default the model's own, or that of its run"


def read_named(path: str, num_classes: int | None) -> Tagger:
    """Reads the thresholds that --thresholds names, and logs that they choose the tags.

    Args:
      num_classes: number of classes of the model; None if it is not known.
    """
    storage.refuse_missing(path, "thresholds", "`yt8m eval --report` writes it")
    tagger = read(path, num_classes)
    log_origin(tagger, path)
    return tagger


def find_own(model: str, run: str, num_classes: int | None) -> tuple[Tagger, str] | None:
    """Reads the thresholds that belong to a model, or else to its run; returns them and their path, or None.

    Nothing is logged: a model of one class a video may choose its tags otherwise.
    """
    for path in (*(storage.join(folder, NAME) for folder in (model, run)), *_paths_of_run(run)):
        if storage.exists(path):
            return read(path, num_classes), path
    return None


def log_origin(tagger: Tagger, path: str) -> None:
    """Logs that the thresholds come from the file `path`, for which checkpoint, and which precision they guarantee."""
    origin = f", chosen on the checkpoint of step {tagger.step}" if tagger.step >= 0 else ""
    if tagger.target is not None:
        abstaining = int(np.isposinf(tagger.thresholds).sum())
        classes = quantity(len(tagger.thresholds), "class")
        origin += f", for {tagger.target}; {abstaining} of {classes} abstain and are never tags"
    logging.info("the thresholds of the tags come from %s%s", path, origin)


def _paths_of_run(run: str) -> tuple[str, str]:
    """Where a run has thresholds: those of its last evaluation count before those of the choice of its model."""
    return storage.join(run, EVALUATION, NAME), storage.join(run, OF_CHOICE)


def text_of_step(train_dir: str, step: int) -> str:
    """The text of the thresholds file of a run; empty if there is none, or it is of another step.

    A file without a step, such as that of the choice of the model, fits all of them.

    If a file cannot be read, a warning is logged and the result is empty: an export should not fail because of it.
    """
    try:
        for path in filter(storage.exists, _paths_of_run(train_dir)):
            text = _read_text(path)
            if parse(text, path).step in (step, -1):
                return text
    except RunError as error:
        logging.warning("the export gets no thresholds: %s", error)
    return ""


def copy(train_dir: str, folder: str, step: int) -> None:
    """Copies the thresholds of a run into a folder, if they were chosen on the checkpoint `step`."""
    if text := text_of_step(train_dir, step):
        storage.write(storage.join(folder, NAME), text)
