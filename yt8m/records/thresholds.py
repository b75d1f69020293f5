"""Files of thresholds, one for each class: a class is a tag of a video if its score is at least its threshold.

    index,name,threshold,basis,positives,precision,recall,f1,step
    0,cat,0.4375,class,120,0.85,0.8,0.824242424,1000
    1,newt,0.25,common,2,0.5,0.5,0.5,1000

`basis` is `class` for a threshold that was chosen for the class, and `common` for one that was chosen for all classes
together, because the class has too few positives. `step` is the step of the evaluated checkpoint.
"""

from __future__ import annotations

import csv
import io
import math
from typing import NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.records import prediction_files
from yt8m.records.vocabulary import Vocabulary

NAME, EVALUATION = "thresholds.csv", "eval"
_NEEDED = ("index", "threshold")


class OperatingPoints(NamedTuple):
    """A threshold for each class, and what it gives on the evaluated data. All arrays are [C].

    Attributes:
      thresholds: float64.
      is_own: bool, False for a class that has the common threshold.
      positives: int64, number of labels.
      precision: float64; nan if no score reaches the threshold.
      recall: float64; nan without a positive.
      f1: float64; nan if there is neither.
    """

    thresholds: NDArray[np.float64]
    is_own: NDArray[np.bool_]
    positives: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]


class Tagger(NamedTuple):
    """Chooses the tags of videos.

    Attributes:
      thresholds: float64 [C].
      step: the step of the checkpoint on which the thresholds were chosen; -1 if the file does not say it.
    """

    thresholds: NDArray[np.float64]
    step: int

    def are_tags(self, classes: NDArray[np.int32], scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which of the classes reach their thresholds. All arrays have one shape."""
        return np.asarray(scores >= self.thresholds[classes])


def write(path: str, points: OperatingPoints, names: Vocabulary, step: int) -> None:
    """Writes the file, whole or not at all. A value that is not defined is an empty field.

    Names are written by `spreadsheet_text`; nothing reads them.
    """
    with storage.write_atomic(path, "w") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["index", "name", "threshold", "basis", "positives", "precision", "recall", "f1", "step"])
        for index, (threshold, is_own, positives, *shares) in enumerate(zip(*points, strict=True)):
            # Nine digits tell any two values of float32 apart, and the threshold is half-way between two of them.
            share_texts = [f"{share:.6g}" if math.isfinite(share) else "" for share in shares]
            basis, name = "class" if is_own else "common", prediction_files.spreadsheet_text(names.name(index))
            lines.writerow([index, name, f"{threshold:.9g}", basis, positives, *share_texts, step])


def read(path: str, num_classes: int | None = None) -> Tagger:
    """The thresholds of a file; only the columns `index`, `threshold` and, if it is there, `step` are read.

    Raises:
      RunError: a line has a wrong index or no finite threshold, or there are not `num_classes` lines; the message names
        the line.
    """
    return parse(storage.read_text(path), path, num_classes)


def parse(text: str, path: str, num_classes: int | None = None) -> Tagger:
    """The thresholds in the text of a file; raises like `read`."""
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if not set(_NEEDED) <= set(rows.fieldnames or ()):
            raise ValueError(f"the columns are {', '.join(rows.fieldnames or ()) or 'missing'}")
        values, step = [], -1
        for index, row in enumerate(rows):
            values.append(_threshold(row["index"], row["threshold"], index, rows.line_num))
            step = prediction_files.whole_number((row.get("step") or "").encode())
    except (ValueError, csv.Error) as error:
        raise RunError(
            f"{path}: {error}; expected the columns {', '.join(_NEEDED)}, with a line for each class. Write the file "
            "again by `yt8m eval --report`."
        ) from error
    if num_classes not in (None, len(values)):
        raise RunError(f"{path} has thresholds of {len(values)} classes, but the model has {num_classes} classes.")
    return Tagger(np.array(values, np.float64), step)


def _threshold(index: str | None, text: str | None, expected: int, line: int) -> float:
    if index != str(expected):
        raise ValueError(f"line {line}: the index is {index!r}, not {expected}")
    try:
        value = float(text or "nan")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"line {line}: the threshold is {text!r}, not a number")
    return value


HELP = "thresholds.csv of an evaluation with --report; by default the model's own, or that of its run"


def find(model: str, run: str, num_classes: int | None, path_in_flag: str = "") -> Tagger | None:
    """The thresholds that belong to a model; None if there are none. Raises like `read`.

    Args:
      model: the folder of its SavedModel, whose own file counts first.
      run: the folder that the user named: of an export, or of a run, where the last evaluation's file counts.
      num_classes: number of classes of the model; None if it is not known.
      path_in_flag: the file that the user named by --thresholds, which counts alone; empty if none was named.

    Raises:
      UsageError: there is no file `path_in_flag`.
    """
    if path_in_flag and not storage.exists(path_in_flag):
        raise UsageError(f"--thresholds={path_in_flag}: there is no such file; `yt8m eval --report` writes it.")
    usual = [storage.join(folder, NAME) for folder in (model, run, storage.join(run, EVALUATION))]
    for path in [path_in_flag] if path_in_flag else usual:
        if storage.exists(path):
            points = read(path, num_classes)
            origin = f", chosen on the checkpoint of step {points.step}" if points.step >= 0 else ""
            logging.info("the thresholds of the tags come from %s%s", path, origin)
            return points
    return None


def text_of_step(train_dir: str, step: int) -> str:
    """The text of the file of the run's last evaluation; empty if that is not of this step.

    A file that cannot be read is left out with a warning, because no export should fail for it.
    """
    path = storage.join(train_dir, EVALUATION, NAME)
    try:
        text = storage.read_text(path) if storage.exists(path) else ""
        return text if text and parse(text, path).step == step else ""
    except (RunError, UnicodeDecodeError) as error:
        logging.warning("the export gets no thresholds: %s", error)
        return ""


def copy(train_dir: str, folder: str, step: int) -> None:
    """Copies the file of `text_of_step` to `folder`, if there is one."""
    if text := text_of_step(train_dir, step):
        storage.write(storage.join(folder, NAME), text)
