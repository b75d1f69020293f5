"""The classes of YouTube-8M: names, verticals, numbers of training videos, and the classes rated in segments."""

from __future__ import annotations

import csv
import functools
import importlib.resources
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yt8m.records import prediction_files


@dataclass(frozen=True)
class Vocabulary:
    """The 3862 classes of the 2018 version of YouTube-8M, or no class. All attributes are indexed by class.

    Attributes:
      names: one for each class; `class 123` for the few without a name.
      counts: int64 [3862], the number of training videos with the class.
      verticals: the first vertical of each class; `(Unknown)` for a class without one.
    """

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    verticals: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """The name of a class; `class 5000` for one that the vocabulary does not have."""
        return self.names[index] if 0 <= index < len(self.names) else f"class {index}"

    def vertical(self, index: int) -> str:
        """The first vertical of a class; empty for one that the vocabulary does not have."""
        return self.verticals[index] if 0 <= index < len(self.verticals) else ""


def _packaged(name: str) -> bytes:
    return (importlib.resources.files("yt8m") / "data" / name).read_bytes()


@functools.cache
def load() -> Vocabulary:
    """The vocabulary that ships with the package."""
    rows = list(csv.DictReader(io.StringIO(_packaged("vocabulary.csv").decode("utf-8"), newline="")))
    counts = np.array([int(row["TrainVideoCount"]) for row in rows], np.int64)
    counts.flags.writeable = False  # one array for all callers
    return Vocabulary(
        names=tuple(row["Name"].strip() or f"class {row['Index']}" for row in rows),
        counts=counts,
        verticals=tuple(row["Vertical1"] for row in rows),
    )


def of(num_classes: int | None) -> Vocabulary:
    """The vocabulary of data or of a model with this many classes.

    If the number differs from YouTube-8M's, the classes are the user's own, and YouTube-8M's names would be wrong. The
    vocabulary is then empty, and class 7 is called `class 7`. None stands for an unknown number, with the same result.
    """
    return load() if num_classes == len(load()) else Vocabulary((), np.zeros(0, np.int64), ())


@functools.cache
def segment_classes() -> NDArray[np.int64]:
    """int64 [1000], ascending: the classes for which segments are rated."""
    lines = _packaged("segment_label_ids.csv").decode("ascii").split()
    classes = np.sort(np.array(lines[1:], np.int64))
    classes.flags.writeable = False
    return classes


@functools.cache
def pca_eigenvalues() -> NDArray[np.float32]:
    """float32 [2048], largest first: eigenvalues of the PCA whose first 1024 components are the frame features."""
    values: NDArray[np.float32] = np.load(io.BytesIO(_packaged("pca_eigenvals.npy"))).ravel()
    values.flags.writeable = False
    return values


def read_segment_classes(path: str = "") -> set[int]:
    """The classes in a CSV file with the header `Index`; without a path, the published 1000.

    Raises:
      RunError: a line of the file is no class number, or the file has none.
    """
    if not path:
        return set(segment_classes().tolist())
    found: set[int] = set()
    line = prediction_files.TextLine(path, 1, b"")
    for line in prediction_files.read_lines(path):
        name = line.text.strip()
        number = prediction_files.whole_number(name)
        if number >= 0:
            found.add(number)
        elif line.number > 1:
            line.refuse(f"{prediction_files.shown(name)} is no class number; expected one a line under `Index`.")
    if not found:
        line.refuse("there is no class; expected one number a line under the header `Index`.")
    return found
