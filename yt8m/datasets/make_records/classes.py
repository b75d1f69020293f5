"""The flags that `make-records` and `extract` share, and the class index of each label.

The class of a label is the index of its name in the vocabulary. Names that the vocabulary lacks are appended to it,
but with --vocabulary they get no class. If all labels consist of digits and none is a name in the vocabulary, the
labels are the class indices themselves, unless --label_names is given.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

from yt8m import options, storage, terminal
from yt8m.config.data_config import MOST_CLASSES, DataConfig
from yt8m.errors import UsageError
from yt8m.options import option, path_option
from yt8m.records import manifest, vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.cells import separators
from yt8m.tables.cells.separators import AUTO
from yt8m.tables.understood import SPANS, VIDEOS
from yt8m.tables.words.class_names import clean_name

# Labels that are numbers, such as years, need not be meant as class numbers. They are refused if there would be at
# least `_FEW_CLASSES` classes, and at least `_MOST_CLASSES_PER_LABEL` times as many classes as labels.
_FEW_CLASSES, _MOST_CLASSES_PER_LABEL = 100, 10
WHOLE = "whole"  # the value of --annotated for videos that people have seen to their end
MOST_FRAMES_WITH_SPANS = 100_000  # a film of 27 hours at a frame a second
CLASS_NUMBER = re.compile(r"\d{1,18}", re.ASCII)  # a label that can be the number of a class


@dataclass(frozen=True, kw_only=True)
class SpanFlags(options.Checked):
    """The options of spans of time."""

    rows: str = option(
        "",
        "what a row with a start and an end is: a span of a video, so that ids repeat; or a video [a video; spans for "
        "frames and an export of spans]",
        choices=("", SPANS, VIDEOS),
    )
    frame_rate: float | None = option(
        None, "frames per second, if starts and ends of spans count frames [they are times]", minimum=1e-3
    )
    segment_size: float = option(
        5.0, "of spans: seconds of a cell of the grid on which they are stored; 1 for fine ones", minimum=1e-3
    )
    annotated: str = option(
        "",
        "of spans: which part of a video people have looked at: the whole video, so that a class is absent outside its "
        "spans; or the spans, and nothing is known outside them [whole; spans for clips of longer videos]",
        choices=("", WHOLE, SPANS),
    )

    def with_spans(self, are_clips: bool) -> Self:
        """The flags for a table of spans; `are_clips` says whether these seem to be clips of longer videos."""
        return dataclasses.replace(self, rows=SPANS, annotated=self.annotated or (SPANS if are_clips else WHOLE))


@dataclass(frozen=True)
class DataSetFlags(SpanFlags):
    """The options that `make-records` and `extract` share: folder, classes, splits, shards."""

    out: str = path_option(
        "folder of the data set; the shards are OUT/<level>/<split>/<split>NNNN.tfrecord",
        shapes="nothing",
        is_required=True,
    )
    _: KW_ONLY
    json: bool = option(False, terminal.JSON_HELP, shapes="nothing")
    columns: tuple[str, ...] = option(
        (),
        "MEANING=COLUMN: which column is id, path, labels, split, start or end; present says whether the label of a "
        "row is there, and unused=A+B are columns that mean nothing [by their names]",
    )
    label_separator: str = option(
        AUTO, "text between two labels of a video; auto finds it from the cells, none takes each cell as one name"
    )
    label_names: bool | None = option(
        None, "labels that are numbers are names of classes; if false, they are the numbers of classes"
    )
    vocabulary: str = path_option(
        "CSV of all classes (index,name) [OUT/vocabulary.csv; new names are appended to it]",
        shapes="nothing",  # `Classes.inputs` gives the hash of the inputs the labels' classes instead
    )
    splits: tuple[str, ...] = option(
        ("train:0.8", "validate:0.1", "test:0.1"), "name:share of each split, drawn by a hash of the id"
    )
    group_by: str = option("", "column; rows with equal values in it stay in one split")
    max_frames: int | None = option(
        None, "with --level=frame: number of frames after which a video is cut [300; 100,000 with spans]", minimum=1
    )
    shards: int = option(8, "number of files per split", minimum=1, maximum=10_000)
    dry_run: bool = option(False, "say how the table is understood, and write nothing", shapes="nothing")
    overwrite: bool = option(
        False, "replace records made from another table, from other files or with other flags", shapes="nothing"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.label_separator:
            raise UsageError("--label_separator is empty; give the text between two labels, such as ';'.")
        if self.rows == VIDEOS and self.frame_rate:
            raise UsageError("--frame_rate is for spans: leave it out, or --rows=videos.")

    def shaping_values(self) -> dict[str, Any]:
        """{option: value} of the options that determine the records.

        Options of spans are left out if they have their defaults, so that the values are those of earlier versions.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(SpanFlags)} | {"annotated": WHOLE}
        values = options.shaping_values(self)
        values["max_frames"] = self.frame_limit
        values["annotated"] = self.annotated or WHOLE
        return {name: value for name, value in values.items() if value != defaults.get(name, self)}

    @property
    def frame_limit(self) -> int:
        """The number of frames after which a video is cut."""
        return self.max_frames or (MOST_FRAMES_WITH_SPANS if self.rows == SPANS else DataConfig.max_frames)


class Classes(NamedTuple):
    """The classes of a data set.

    Attributes:
      number: {label, spelt as in the table: class}; it lacks labels without a class, and may have names that are no
        label of any video.
      vocabulary: the names of the classes; None if the labels are numbers without names.
    """

    number: Mapping[str, int]
    vocabulary: Vocabulary | None
    size: int

    def describe_unknown(self, name: str) -> str:
        """What is wrong with a row that has the label `name`, which has no class."""
        return f"the label {name[:60]!r} is not one of the {self.size} classes of the vocabulary"

    def without_video(self, positives: Sequence[int]) -> list[str]:
        """The classes that no video of a split has; `positives` is the number of videos of each class."""
        absent = [index for index, count in enumerate(positives) if not count]
        return [self.vocabulary.name(index) if self.vocabulary else f"class {index}" for index in absent]

    def inputs(self, names: Iterable[str], is_from_user: bool) -> tuple[list[tuple[str, int]], Sequence[str]]:
        """What the records depend on, for `hash_inputs`: the class of each label (-1 for none), and all classes' names.

        If the user did not name the classes, there are no names in the result: the folder's own vocabulary may grow
        when records of another level are made, which does not change these records.
        """
        numbers = sorted((name, self.number.get(name, -1)) for name in names)
        return numbers, self.vocabulary.names if is_from_user and self.vocabulary else ()


def find_vocabulary(flags: DataSetFlags) -> Vocabulary | None:
    """The vocabulary that --vocabulary names, or else that of the folder --out; None if there is neither."""
    path, path_in_flag = storage.join(flags.out, vocabulary.NAME), flags.vocabulary
    old = vocabulary.read(path) if storage.exists(path) else None
    if not path_in_flag:
        return old
    storage.refuse_missing(path_in_flag, "vocabulary")
    new = vocabulary.read(path_in_flag)
    if old is not None and new.first_difference(old) != len(old):
        remedy = "Add new classes at the end, or name another folder as --out."
        old.refuse_other(new, path, path_in_flag, remedy)
    return new


def match_other_levels(classes: Classes, flags: DataSetFlags, level: str) -> Classes:
    """Makes the number of classes at least that of the records of other levels in the same folder."""
    out = flags.out
    has_names = bool(flags.vocabulary) or storage.exists(storage.join(out, vocabulary.NAME))
    for path in storage.glob_in(out, "*", "*", manifest.NAME):
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

    The beginning of this module says how. Names are appended to the vocabulary in the order of their frequency, the
    most frequent first, and equally frequent ones in alphabetical order.

    Args:
      names: {label: number of videos}.
      no_labels_text: the first sentence of the message if there is neither a label nor a vocabulary, without a period.
    """
    vocabulary_so_far = find_vocabulary(flags)
    if not names and vocabulary_so_far is None:
        raise UsageError(
            f"{no_labels_text}. To make records without labels, for a model to predict, name the classes by "
            "--vocabulary=FILE."
        )
    old_names = vocabulary_so_far.names if vocabulary_so_far else ()
    class_of_name = {clean_name(name): index for index, name in reversed(list(enumerate(old_names)))}
    for label in names if len(class_of_name) < len(old_names) else ():  # only if the vocabulary has a name twice
        if old_names.count(label) > 1:
            raise UsageError(
                f"{old_names.count(label)} classes of the vocabulary have the name {label!r}; write labels as class "
                "numbers."
            )
    if (
        flags.label_names is not True
        and all(map(CLASS_NUMBER.fullmatch, names))
        and not names.keys() & class_of_name.keys()
    ):
        return _classes_of_numbers(names, vocabulary_so_far)
    if flags.vocabulary:
        return Classes(class_of_name, vocabulary_so_far, len(old_names))
    by_frequency = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    new_names = [name for name, _ in by_frequency if name not in class_of_name]
    class_of_name |= {name: index for index, name in enumerate(new_names, len(old_names))}
    appended = vocabulary.of_names((*old_names, *new_names))
    verticals = (*(vocabulary_so_far.verticals if vocabulary_so_far else ()), *("" for _ in new_names))
    return Classes(class_of_name, Vocabulary(appended.names, appended.counts, verticals), len(class_of_name))


def _classes_of_numbers(names: Counter[str], vocabulary_so_far: Vocabulary | None) -> Classes:
    """The classes if the labels are class numbers; labels beyond the end of a vocabulary get no class."""
    largest = max(map(int, names), default=-1)
    if largest >= MOST_CLASSES:
        raise UsageError(
            f"a label is {largest}; as the number of a class it must be below {MOST_CLASSES}. If the labels are names "
            "that consist of digits, add --label_names."
        )
    count = len(vocabulary_so_far) if vocabulary_so_far else largest + 1
    return Classes({name: int(name) for name in names if int(name) < count}, vocabulary_so_far, count)


def refuse_unclear_labels(names: Collection[str], classes: Classes, flags: DataSetFlags) -> None:
    """Refuses labels with two readings; none if the user named all classes by --vocabulary."""
    _refuse_leading_zeros(names, classes, flags)
    if flags.vocabulary:
        return
    earlier = find_vocabulary(flags)
    known_names = set(map(clean_name, earlier.names)) if earlier else set()
    _refuse_similar_names(names, known_names)
    _refuse_unused_numbers(names, classes, flags)
    if flags.label_separator != separators.NONE:
        _refuse_joined_classes(set(names), known_names, storage.join(flags.out, vocabulary.NAME))


def _refuse_similar_names(names: Collection[str], known_names: Collection[str]) -> None:
    """Refuses two names that differ only in case, blanks or kinds of letters, unless the vocabulary has both."""
    first: dict[str, str] = {}
    for name in sorted(names):
        other = first.setdefault(" ".join(unicodedata.normalize("NFKC", name).casefold().split()), name)
        if other != name and not {other, name} <= set(known_names):
            raise UsageError(
                f"the labels {_apart(other, name)} differ only in case, blanks or how letters are encoded. If they "
                "mean one class, write them alike; if they mean two, name all classes by --vocabulary=FILE."
            )


def _refuse_leading_zeros(names: Collection[str], classes: Classes, flags: DataSetFlags) -> None:
    """Refuses labels such as `007`, which would become the class 7."""
    padded = sorted(name for name in names if len(name) > 1 and name.startswith("0") and name.isdecimal())
    if padded and flags.label_names is None and classes.number.get(padded[0]) == int(padded[0]):
        raise UsageError(
            f"the labels are numbers, and some begin with 0, such as {padded[0]!r}. If they are names, such as codes, "
            "add --label_names, which keeps the zeros; if they are the numbers of classes, add --nolabel_names."
        )


def _refuse_unused_numbers(names: Collection[str], classes: Classes, flags: DataSetFlags) -> None:
    """Refuses labels that are numbers, if at most a tenth of at least 100 classes are labels."""
    is_sparse = classes.size >= max(_FEW_CLASSES, _MOST_CLASSES_PER_LABEL * len(names))
    if classes.vocabulary is None and is_sparse and flags.label_names is None:
        raise UsageError(
            f"the labels are {len(names)} numbers, so there would be {classes.size} classes, up to the largest number. "
            "If the numbers are names, such as years, add --label_names; if they are the numbers of classes, add "
            "--nolabel_names."
        )


def _refuse_joined_classes(names: Collection[str], known_names: Collection[str], path: str) -> None:
    """Refuses to add labels to a vocabulary in which combinations of them are classes."""
    for name in known_names if names else ():
        for separator in separators.USUAL:
            pieces = separators.split(name, separator) if separator in name else []
            if len(pieces) > 1 and all(part in names for part in pieces):
                raise UsageError(
                    f"{path} has the class {name[:60]!r}, but {' and '.join(map(repr, pieces[:3]))} are labels of "
                    "their own now. Name another folder as --out; or, to go on with such classes, add "
                    "--label_separator=none."
                )


def look_alike(first: str, second: str) -> bool:
    """Whether two names differ at most in how letters are encoded."""
    return unicodedata.normalize("NFKC", first) == unicodedata.normalize("NFKC", second)


def _apart(first: str, second: str) -> str:
    """The two names for a message; in ASCII if they would look alike."""
    shown = ascii if look_alike(first, second) else repr
    return f"{shown(first[:60])} and {shown(second[:60])}"
