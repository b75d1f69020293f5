"""Decisions on labels that may be wrong or missing, which `yt8m make-records --corrections` applies.

    rank,video,class,kind,chance,decision
    1,clip 017,dog,wrong,0.998,yes
    2,clip 203,cat,missing,0.991,no

`yt8m audit` writes such a table with an empty column `decision`. `yes` in it removes a wrong label, or adds a missing
one. `no` leaves the label as it is, and so does an empty cell. Only video, class, kind and decision are read, in any
order. The cells may be separated by semicolons or tabs, as spreadsheets write them in some countries.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.datasets.make_records.classes import NUMBER, Classes
from yt8m.datasets.make_records.rows import Labels
from yt8m.errors import RunError, UsageError, suggestion
from yt8m.eval_util.arrays import Ints64
from yt8m.records.prediction_files import text_of_spreadsheet
from yt8m.records.shards import id_bytes

WRONG, MISSING = "wrong", "missing"
COLUMNS = ("video", "class", "kind", "decision")
ADDED, REMOVED = "labels added", "labels removed"
_ANSWERS = {"": None, "yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


class Decision(NamedTuple):
    """One row of the table.

    Attributes:
      line: the number of its line.
      video: the id.
      label: the class, as the labels of the records' table name it.
      kind: WRONG or MISSING.
      is_right: whether the label is wrong or missing indeed; None if nobody has decided.
    """

    line: int
    video: bytes
    label: str
    kind: str
    is_right: bool | None

    @property
    def says_present(self) -> bool:
        """Whether the class is there by this decision: a missing label that is, or a wrong one that is not."""
        return (self.kind == MISSING) == self.is_right


class Corrected(NamedTuple):
    """Labels of a batch after the decisions, and the rows of those that were added and removed."""

    labels: Labels
    added: Ints64
    removed: Ints64


def read_decisions(path: str) -> list[Decision]:
    """All rows of a table of decisions.

    Raises:
      UsageError: there is no such file, or it lacks a column.
      RunError: a row cannot be read, or contradicts another one; the message names the line.
    """
    if not storage.exists(path):
        raise UsageError(f"--corrections={path}: there is no such file; `yt8m audit` writes a decisions.csv.")
    try:
        text = storage.read_text(path).removeprefix("\ufeff")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise UsageError(
                f"--corrections={path}: there is no column {missing[0]!r}; expected {','.join(COLUMNS)} at least."
            )
        decisions = [_decision(path, rows.line_num, row) for row in rows]
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunError(f"{path} is no CSV file of UTF-8 text: {error}; save it as CSV in UTF-8.") from error
    _refuse_contradiction(path, decisions)
    return decisions


def _decision(path: str, line: int, row: Mapping[str, Any]) -> Decision:
    video, label, kind, answer = (row[name] or "" for name in COLUMNS)
    label, kind, answer = label.strip(), kind.strip(), answer.strip()  # an id may begin or end with blanks
    if kind not in (WRONG, MISSING):
        raise RunError(f"{path}, line {line}: the kind is {kind[:40]!r}; expected {WRONG} or {MISSING}.")
    if answer.lower() not in _ANSWERS:
        raise RunError(f"{path}, line {line}: the decision is {answer[:40]!r}; expected yes or no, or nothing.")
    if not video.strip() or not label:
        raise RunError(f"{path}, line {line}: the {'class' if video.strip() else 'video'} is empty.")
    name = id_bytes(text_of_spreadsheet(video).encode("utf-8", "surrogateescape"))
    return Decision(line, name, text_of_spreadsheet(label), kind, _ANSWERS[answer.lower()])


def _refuse_contradiction(path: str, decisions: Sequence[Decision]) -> None:
    """A class cannot be both there and not there."""
    earlier: dict[tuple[bytes, str], Decision] = {}
    for decision in decisions:
        if decision.is_right is None:
            continue
        first = earlier.setdefault((decision.video, decision.label), decision)
        if first.says_present != decision.says_present:
            raise RunError(
                f"{path}, line {decision.line}: the decision on class {decision.label!r} of this video contradicts "
                f"that of line {first.line}; remove one of them."
            )


class Corrections:
    """The decisions of a table, by video; none if the path is empty.

    Attributes:
      path: the table.
      count: number of decisions that ask for a change.
    """

    def __init__(self, path: str) -> None:
        self.path, self._changes = path, dict[bytes, list[Decision]]()
        for decision in read_decisions(path) if path else ():
            if decision.is_right:
                self._changes.setdefault(decision.video, []).append(decision)
        self.count = sum(map(len, self._changes.values()))
        self._digest = hashlib.sha256(storage.read_bytes(path)).hexdigest() if path else ""

    def manifest_entry(self, added: int, removed: int) -> dict[str, Any]:
        """What a manifest says of the decisions; empty without a table."""
        if not self.path:
            return {}
        name = self.path.replace("\\", "/").rpartition("/")[2]
        return {"file": name, "sha256": self._digest, ADDED: added, REMOVED: removed}

    @property
    def videos(self) -> Collection[bytes]:
        """The ids of the videos whose labels change."""
        return self._changes.keys()

    def check(self, classes: Classes) -> None:
        """Refuses a decision on a class that the records do not have; raises `UsageError`."""
        number = _numbering(classes)
        for decision in (each for changes in self._changes.values() for each in changes):
            if number(decision.label) < 0:
                names = classes.vocabulary.names if classes.vocabulary else classes.number
                raise UsageError(
                    f"--corrections={self.path}, line {decision.line}: {decision.label[:60]!r} is none of the "
                    f"{classes.size} classes{suggestion(decision.label, names)}."
                )

    def applied(self, ids: Sequence[bytes], labels: Labels, classes: Classes) -> Corrected:
        """The labels of a batch, as classes, after the decisions."""
        number = _numbering(classes)
        changes = [
            (row, number(decision.label), decision.kind == MISSING)
            for row, video in enumerate(ids if self._changes else ())
            for decision in self._changes.get(video, ())
        ]
        if not changes:
            return Corrected(labels, *np.zeros((2, 0), np.int64))
        rows, codes, is_missing = (np.array(column, np.int64) for column in zip(*changes, strict=True))
        width = max(classes.size, int(labels.codes.max(initial=0)) + 1)
        pairs, changed = labels.rows * width + labels.codes, rows * width + codes
        added = np.setdiff1d(changed[is_missing == 1], pairs)
        removed = np.intersect1d(changed[is_missing == 0], pairs)
        pairs = np.sort(np.concatenate([pairs[~np.isin(pairs, removed)], added]))
        return Corrected(Labels(pairs // width, pairs % width), added // width, removed // width)


def _numbering(classes: Classes) -> Callable[[str], int]:
    """Gives each label its class, or -1."""
    listed = classes.vocabulary.names if classes.vocabulary else ()
    names = {name: index for index, name in reversed(list(enumerate(listed)))}

    def number(label: str) -> int:
        if label in classes.number or label in names:
            return classes.number.get(label, names.get(label, -1))
        return int(label) if NUMBER.fullmatch(label) and int(label) < classes.size else -1

    return number
