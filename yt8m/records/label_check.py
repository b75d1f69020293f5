"""Finds out from the first records of a data set why nothing can be learned from its labels."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from absl import logging

from yt8m.errors import RunError, quantity
from yt8m.records import shards
from yt8m.records.opened_data import OpenedData
from yt8m.records.shards import Feature, Record

_MOST_VIDEOS, _MOST_FILES = 1000, 10  # so many records of so many files are read, until one has a label
_VECTORS = 20  # if so many records have vectors of 0 and 1 in place of labels, all of them probably have
_FEWEST_VECTORS = 2
LABELS, RATINGS = "labels", "segment_labels"
_VECTOR = "this looks like a vector"
_OTHER_NAMES = ("label", "class", "target", "tag", "categor")  # what names of features with labels contain


def describe_problem(opened: OpenedData, feature: str = LABELS) -> str:
    """Says what is wrong with the labels, as a sentence that begins with a path; empty if a video has labels.

    The manifest is asked first. If it does not know, the first 1,000 videos of up to ten files are read, or fewer if
    one of them has a label. Records that are damaged are left to the program that reads all.
    """
    files = opened.files
    if not files:
        return ""
    data = opened.manifest.data
    if feature == LABELS and data is not None and data.positives is not None and not any(data.positives):
        return f"the manifest beside {files[0]} counts no label in any class{_other_feature(files)}"
    count, vectors = 0, list[int]()
    for record in _first_records(files):
        count += 1
        values = record.values(feature)
        if not values:
            continue
        if record.context[feature].kind != "int64":
            return _describe_kind(files, feature, record.context[feature])
        if feature == RATINGS or not _is_vector(values):
            return ""
        vectors.append(len(values))
        if len(vectors) == _VECTORS:
            break
    if vectors:
        return _describe_vectors(files, vectors) if len(vectors) >= _FEWEST_VECTORS else ""
    if not count or (feature == LABELS and data is not None and data.positives is not None):
        return ""  # damaged files; or the manifest counts labels, which then are in later records
    noun = "rated segment" if feature == RATINGS else "label"
    return f"{files[0]}: none of the first {count} videos has a {noun}{_other_feature(files)}"


def warn(data: OpenedData, feature: str = LABELS, *, are_needed: bool = True) -> None:
    """Logs a warning with the problem that `describe_problem` finds, if there is one.

    Args:
      are_needed: whether the program needs labels; if not, videos may have none.
    """
    problem = describe_problem(data, feature)
    if problem and are_needed:
        logging.warning(f"{problem}; such figures say nothing about a model")
    elif _VECTOR in problem:
        logging.warning(problem)


def without_one_label(opened: OpenedData) -> str:
    """Names a video among the first records that has not exactly one label; empty if there is none."""
    for record in _first_records(opened.files):
        count = len(set(record.values(LABELS)))
        if count != 1:
            labels = quantity(count, "label") if count else "no label"
            return f"video {shards.id_text(record.id())} of {opened.pattern} has {labels}"
    return ""


def _first_records(files: Sequence[str]) -> Iterator[Record]:
    """Yields the first records of files that are spread over all; of a damaged file those before the damage."""
    chosen = [files[index * len(files) // _MOST_FILES] for index in range(_MOST_FILES)]
    chosen = list(dict.fromkeys(chosen))
    for path in chosen:
        with contextlib.suppress(RunError):
            yield from (
                record for _, record in itertools.islice(shards.read_contexts(path), _MOST_VIDEOS // len(chosen))
            )


def _describe_kind(files: Sequence[str], feature: str, values: Feature) -> str:
    """The problem that labels are no whole numbers."""
    kind = "texts" if values.kind == "bytes" else "fractions"
    shown = values.value[0].decode("utf-8", "replace") if values.kind == "bytes" else values.value[0]
    return (
        f"{files[0]}: {feature} holds {kind}, such as {repr(shown)[:60]}, but labels must be the numbers of the "
        "video's classes (int64)"
    )


def _is_vector(values: Sequence[object]) -> bool:
    """Whether the labels look like a vector with a 0 or 1 for each class: several equal numbers, and no other ones."""
    return len(values) > 2 and set(values) <= {0, 1}


def _describe_vectors(files: Sequence[str], sizes: Sequence[int]) -> str:
    """The problem that all labels that were found are vectors of 0 and 1; empty if their sizes differ."""
    if len(set(sizes)) > 1:
        return ""
    return (
        f"{files[0]}: labels holds {sizes[0]} numbers in each video, all of them 0 or 1: {_VECTOR} with "
        "a place for each class, but labels must be the numbers of the video's classes"
    )


def _other_feature(files: Sequence[str]) -> str:
    """Names a feature of the first record that seems to hold the labels; empty if there is none."""
    record = next(_first_records(files), None)
    for name, feature in record.context.items() if record is not None else ():
        if name not in (LABELS, RATINGS, *shards.RATING_LISTS) and any(word in name.lower() for word in _OTHER_NAMES):
            value = str(feature.values()[:3])[:60]
            return f"; labels are read from the feature labels, and these records have a feature {name} ({value})"
    return ""
