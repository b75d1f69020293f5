"""The flags of a data set, and the class of each label.

The class of a name is its index in the vocabulary; unknown names are appended to the vocabulary. If all labels are
numbers, the numbers are the classes.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from yt8m import options, storage
from yt8m.config.train_config import MOST_CLASSES
from yt8m.errors import UsageError
from yt8m.options import option, path_option
from yt8m.records import manifest, vocabulary
from yt8m.records.vocabulary import Vocabulary

_SEPARATORS = ";,|"  # usual separators of labels in tables
_FEW_CLASSES, _MOST_CLASSES_PER_LABEL = 100, 10  # below the first number of classes there is no warning
NUMBER = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class DataSetFlags(options.Checked):
    """The options that `make-records` and `extract` share: folder, classes, splits, shards."""

    out: str = path_option(
        "folder of the data set; the shards are OUT/<level>/<split>/<split>NNNN.tfrecord",
        shapes="nothing",
        is_required=True,
    )
    _: KW_ONLY
    label_separator: str = option(";", "text between two labels of a video")
    label_names: bool = option(False, "labels are names of classes even if all of them consist of digits")
    vocabulary: str = path_option(
        "CSV of all classes (index,name) [OUT/vocabulary.csv; new names are appended to it]",
        shapes="nothing",  # the class numbers of the labels are compared instead
    )
    splits: tuple[str, ...] = option(
        ("train:0.8", "validate:0.1", "test:0.1"), "name:share of each split, drawn by a hash of the id"
    )
    group_by: str = option("", "column; rows with equal values in it stay in one split")
    max_frames: int = option(300, "with --level=frame: number of frames after which a video is cut", minimum=1)
    shards: int = option(8, "number of files per split", minimum=1, maximum=10_000)
    overwrite: bool = option(
        False, "replace records made from another table, from other files or with other flags", shapes="nothing"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.label_separator:
            raise UsageError("--label_separator is empty; give the text between two labels, such as ';'.")


class Classes(NamedTuple):
    """The class of each label.

    Attributes:
      number: {label, spelt as in the table: class}.
      vocabulary: the names of the classes; None if the labels are numbers without names.
      size: number of classes.
    """

    number: Mapping[str, int]
    vocabulary: Vocabulary | None
    size: int

    def inputs(self, names: Iterable[str], is_from_user: bool) -> tuple[list[tuple[str, int]], Sequence[str]]:
        """The inputs for `inputs_hash`: the class of each of these labels, and all class names if the user gave them.

        Other names in the folder's vocabulary are left out, because making records of another level appends names.
        """
        numbers = sorted((name, self.number.get(name, -1)) for name in names)
        return numbers, self.vocabulary.names if is_from_user and self.vocabulary else ()


def find_vocabulary(flags: DataSetFlags) -> Vocabulary | None:
    """The vocabulary in the file that the user named, or that of the data folder; None if there is neither.

    Raises:
      UsageError: the file is missing, or it does not begin with the classes of the folder's vocabulary.
    """
    path, path_in_flag = storage.join(flags.out, vocabulary.NAME), flags.vocabulary
    old = vocabulary.read(path) if storage.exists(path) else None
    if not path_in_flag:
        return old
    storage.refuse_missing(path_in_flag, "vocabulary")
    new = vocabulary.read(path_in_flag)
    if old is not None and new.first_difference(old) != len(old):
        remedy = "Add new classes at the end, or name another folder as --out."
        vocabulary.refuse_difference(old, path, new, path_in_flag, remedy)
    return new


def with_other_levels(classes: Classes, flags: DataSetFlags, level: str) -> Classes:
    """The classes, with a size of at least that of the records of other levels in the same folder.

    Args:
      classes: the classes of this level.
      flags: name the folder, and perhaps a file of names.
      level: this level.

    Raises:
      UsageError: the labels of those records are numbers but these are names, or those records have more classes.
    """
    out = flags.out
    has_names = bool(flags.vocabulary) or storage.exists(storage.join(out, vocabulary.NAME))
    for path in storage.glob(storage.join(out, "*", "*", manifest.NAME)):
        data = manifest.read(path).data
        if data is None or data.level == level or data.num_classes is None:
            continue
        if classes.vocabulary is None:
            classes = classes._replace(size=max(classes.size, data.num_classes))
        elif not has_names:
            raise UsageError(
                f"the labels are names, but the labels of the {data.level}-level records in {out} are numbers. Name "
                "all classes by --vocabulary=FILE, in the order of these numbers, or name another folder as --out."
            )
        elif classes.size < data.num_classes:
            raise UsageError(
                f"there are {classes.size} classes, but the {data.level}-level records in {out} have "
                f"{data.num_classes}. Name all {data.num_classes} classes by --vocabulary=FILE, or name another "
                "folder as --out."
            )
    return classes


def number_labels(names: Counter[str], flags: DataSetFlags, no_labels_text: str) -> Classes:
    """Gives each label its class.

    If all labels are numbers and none is a name in the known vocabulary, the numbers are the classes. Otherwise labels
    are names, and unknown names are appended to the vocabulary: the most frequent first, equally frequent ones by name.
    If the flags name a vocabulary, unknown names get no class.

    Args:
      names: {label: number of videos}.
      flags: how labels are written, and which classes there are.
      no_labels_text: the first sentence of the message if there is neither a label nor a vocabulary.

    Raises:
      UsageError: there are no classes, the vocabulary has a label twice, or a number is too large.
    """
    vocabulary_so_far = find_vocabulary(flags)
    if not names and vocabulary_so_far is None:
        raise UsageError(
            f"{no_labels_text}. To make records without labels, for a model to predict, name the classes by "
            "--vocabulary=FILE."
        )
    old = vocabulary_so_far.names if vocabulary_so_far else ()
    numbered = {name: index for index, name in reversed(list(enumerate(old)))}
    for label in names if len(numbered) < len(old) else ():
        if old.count(label) > 1:
            raise UsageError(
                f"{old.count(label)} classes of the vocabulary have the name {label!r}; write labels as class numbers."
            )
    if not flags.label_names and all(map(NUMBER.fullmatch, names)) and not names.keys() & numbered.keys():
        return _classes_of_numbers(names, vocabulary_so_far)
    new = [name for name, _ in sorted(names.items(), key=lambda item: (-item[1], item[0])) if name not in numbered]
    if flags.vocabulary:
        return Classes(numbered, vocabulary_so_far, len(old))
    numbered |= {name: index for index, name in enumerate(new, len(old))}
    appended = vocabulary.of_names((*old, *new))
    verticals = (*(vocabulary_so_far.verticals if vocabulary_so_far else ()), *("" for _ in new))
    return Classes(numbered, Vocabulary(appended.names, appended.counts, verticals), len(numbered))


def _classes_of_numbers(names: Counter[str], vocabulary_so_far: Vocabulary | None) -> Classes:
    largest = max(map(int, names), default=-1)
    if largest >= MOST_CLASSES:
        raise UsageError(
            f"a label is {largest}; as the number of a class it must be below {MOST_CLASSES}. If the labels are names "
            "that consist of digits, add --label_names."
        )
    count = len(vocabulary_so_far) if vocabulary_so_far else largest + 1
    return Classes({name: int(name) for name in names if int(name) < count}, vocabulary_so_far, count)


def warn_of_labels(names: Collection[str], classes: Classes, flags: DataSetFlags) -> None:
    """Prints a warning if the classes seem not to be what the user means; none if the user has named all classes."""
    problems = (
        _names_with_other_separator(names, flags.label_separator),
        _similar_names(names),
        _unused_numbers(names, classes),
    )
    for problem in filter(None, problems) if not flags.vocabulary else ():
        print(f"Warning: {problem}", file=sys.stderr)


def _similar_names(names: Collection[str]) -> str:
    """A warning if two names differ only in case or blanks; empty if none do."""
    first: dict[str, str] = {}
    for name in sorted(names):
        other = first.setdefault(" ".join(name.casefold().split()), name)
        if other != name:
            return (
                f"the labels {other[:60]!r} and {name[:60]!r} differ only in case or blanks, and are two classes. If "
                "they mean one class, write them alike, and start with a new folder as --out; with --vocabulary=FILE, "
                "labels that are not in the file are refused."
            )
    return ""


def _unused_numbers(names: Collection[str], classes: Classes) -> str:
    """A warning if the labels are numbers, and few of the classes up to the largest number have a video."""
    if classes.vocabulary is not None or classes.size < max(_FEW_CLASSES, _MOST_CLASSES_PER_LABEL * len(names)):
        return ""
    return (
        f"the labels are {len(names)} numbers, so there are {classes.size} classes, up to the largest number. If the "
        "numbers are names, such as years, add --label_names, and start with a new folder as --out."
    )


def _names_with_other_separator(names: Collection[str], separator: str) -> str:
    """A warning if a name seems to be several names with another separator between them; empty if none does.

    A name may contain a comma. So there is a warning only if a part of the name after the first is itself a class.
    """
    for name in names:
        for other in _SEPARATORS.replace(separator, ""):
            for part in map(str.strip, name.split(other)[1:]):
                if part in names:
                    observation = f"the label {name[:60]!r} is one class here, and {part[:60]!r} another"
                    remedy = f"stop, and start with --label_separator='{other}' and a new folder as --out"
                    return f"{observation}. If {other!r} stands between labels, {remedy}."
    return ""
