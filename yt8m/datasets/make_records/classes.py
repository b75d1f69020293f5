"""The class of each label: its place in the vocabulary, to which new names are added, or its own number."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from yt8m import storage
from yt8m.config.train_config import MOST_CLASSES
from yt8m.errors import UsageError
from yt8m.records import manifest, vocabulary
from yt8m.records.vocabulary import Vocabulary

_SEPARATORS = ";,|"  # that tables have between labels
_FEW_CLASSES, _MOST_GAPS = 100, 10  # classes that are too few for a warning, and classes for each label
NUMBER = re.compile(r"\d{1,18}", re.ASCII)


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

    def inputs(self, names: Iterable[str], is_given: bool) -> tuple[list[tuple[str, int]], Sequence[str]]:
        """What determines the records: the class of each of these labels, and all names if the user gave them.

        Only the labels of the table count: making records of another level appends names to the folder's vocabulary.
        """
        numbers = sorted((name, self.number.get(name, -1)) for name in names)
        return numbers, self.vocabulary.names if is_given and self.vocabulary else ()


def known_vocabulary(path_in_flag: str, out: str) -> Vocabulary | None:
    """The vocabulary that the user names, or else that in the folder of the data; None if there is neither.

    Raises:
      UsageError: the file is missing, or it does not begin with the classes of the folder's vocabulary.
    """
    path = storage.join(out, vocabulary.NAME)
    old = vocabulary.read(path) if storage.exists(path) else None
    if not path_in_flag:
        return old
    if not storage.exists(path_in_flag):
        raise UsageError(f"--vocabulary={path_in_flag}: there is no such file.")
    new = vocabulary.read(path_in_flag)
    if old is not None and new.first_difference(old) != len(old):
        remedy = "Add new classes at the end, or name another folder as --out."
        vocabulary.refuse_difference(old, path, new, path_in_flag, remedy)
    return new


def with_other_levels(classes: Classes, out: str, level: str, path_in_flag: str) -> Classes:
    """The classes, at least as many as the records of other levels in the same folder have.

    Args:
      classes: the classes of this level.
      out: the folder of the data.
      level: this level.
      path_in_flag: the file of names that the user gave; empty for none.

    Raises:
      UsageError: the labels of those records are numbers without names, and a vocabulary would name some of them wrong
        or not at all.
    """
    has_names = bool(path_in_flag) or storage.exists(storage.join(out, vocabulary.NAME))
    for path in storage.glob(storage.join(out, "*", "*", manifest.NAME)):
        data = manifest.read(path).data
        if data is None or data.level == level or data.num_classes is None:
            continue
        if classes.vocabulary is None:
            classes = classes._replace(size=max(classes.size, data.num_classes))
        elif not has_names:
            raise UsageError(
                f"the labels are names, but those of the {data.level}-level records in {out} are numbers. Name all "
                "classes by --vocabulary=FILE, in the order of these numbers, or name another folder as --out."
            )
        elif classes.size < data.num_classes:
            raise UsageError(
                f"there are {classes.size} classes, but the {data.level}-level records in {out} have "
                f"{data.num_classes}. Name all of them by --vocabulary=FILE, or name another folder as --out."
            )
    return classes


def number_labels(
    names: Counter[str], vocabulary_so_far: Vocabulary | None, may_append: bool, numbers_are_names: bool
) -> Classes:
    """Gives each label its class.

    If all labels are numbers and none is a name in the known vocabulary, the numbers are the classes. Otherwise labels
    are names, and unknown names are appended to the vocabulary: the most frequent first, equally frequent ones by name.

    Args:
      names: {label: number of videos}.
      vocabulary_so_far: the vocabulary so far.
      may_append: whether unknown names are appended; otherwise they get no class.
      numbers_are_names: treat labels as names even if all of them are numbers.

    Raises:
      UsageError: the vocabulary has a label twice, or a number is too large.
    """
    old = vocabulary_so_far.names if vocabulary_so_far else ()
    numbered = {name: index for index, name in reversed(list(enumerate(old)))}
    for label in names if len(numbered) < len(old) else ():
        if old.count(label) > 1:
            raise UsageError(f"the vocabulary calls {old.count(label)} classes {label!r}; give labels by number.")
    if not numbers_are_names and all(map(NUMBER.fullmatch, names)) and not names.keys() & numbered.keys():
        return _by_number(names, vocabulary_so_far)
    new = [name for name, _ in sorted(names.items(), key=lambda item: (-item[1], item[0])) if name not in numbered]
    if not may_append:
        return Classes(numbered, vocabulary_so_far, len(old))
    numbered |= {name: index for index, name in enumerate(new, len(old))}
    appended = vocabulary.of_names((*old, *new))
    verticals = (*(vocabulary_so_far.verticals if vocabulary_so_far else ()), *("" for _ in new))
    return Classes(numbered, Vocabulary(appended.names, appended.counts, verticals), len(numbered))


def _by_number(names: Counter[str], vocabulary_so_far: Vocabulary | None) -> Classes:
    largest = max(map(int, names), default=-1)
    if largest >= MOST_CLASSES:
        raise UsageError(
            f"a label is {largest}; as the number of a class it must be below {MOST_CLASSES}. If the labels are names "
            "that consist of digits, add --label_names."
        )
    count = len(vocabulary_so_far) if vocabulary_so_far else largest + 1
    return Classes({name: int(name) for name in names if int(name) < count}, vocabulary_so_far, count)


def warn_of_labels(names: Collection[str], classes: Classes, separator: str, has_vocabulary: bool) -> None:
    """Prints a warning if the labels seem to mean other classes; none if the user has named all classes."""
    problems = () if has_vocabulary else (_joined_names(names, separator), _similar_names(names), _gaps(names, classes))
    for problem in filter(None, problems):
        print(f"Warning: {problem}", file=sys.stderr)


def _similar_names(names: Collection[str]) -> str:
    """A warning if two names differ in case or blanks alone; empty if none do."""
    first: dict[str, str] = {}
    for name in sorted(names):
        other = first.setdefault(" ".join(name.casefold().split()), name)
        if other != name:
            return (
                f"the labels {other[:60]!r} and {name[:60]!r} differ in case or blanks alone, and are two classes. If "
                "they mean one, write them alike, and start with a new folder as --out; with --vocabulary=FILE, labels "
                "that are not in the file are refused."
            )
    return ""


def _gaps(names: Collection[str], classes: Classes) -> str:
    """A warning if the labels are numbers, and few of the classes up to the largest one have a video."""
    if classes.vocabulary is not None or classes.size < max(_FEW_CLASSES, _MOST_GAPS * len(names)):
        return ""
    return (
        f"the labels are {len(names)} numbers, so there are {classes.size} classes, up to the largest number. If the "
        "numbers are names, such as years, add --label_names, and start with a new folder as --out."
    )


def _joined_names(names: Collection[str], separator: str) -> str:
    """A warning if a name seems to be several names with another separator between them; empty if none does.

    A name may contain a comma. So a name is suspected only if a part of it after the first is itself a class.
    """
    for name in names:
        for other in _SEPARATORS.replace(separator, ""):
            for part in map(str.strip, name.split(other)[1:]):
                if part in names:
                    observation = f"the label {name[:60]!r} is one class here, and {part[:60]!r} another"
                    remedy = f"stop, and start with --label_separator='{other}' and a new folder as --out"
                    return f"{observation}. If {other!r} stands between labels, {remedy}."
    return ""
