"""Tables of answers to forms, as KoBo and ODK export them: names of columns with their groups, and of submissions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from yt8m.tables.words import word_set

# Columns that the programs add to the answers: several stand in a table, one of which no other program has.
_OF_KOBO = word_set("_id _uuid _submission_time _validation_status _submitted_by _index __version__ _status")
_KOBO_ALONE = word_set("_uuid _submission_time _validation_status _submitted_by")
_OF_ODK = word_set(
    "KEY SubmissionDate meta-instanceID instanceID meta-instanceName SubmitterID SubmitterName FormVersion "
    "AttachmentsPresent AttachmentsExpected ReviewState DeviceID"
)
_FEWEST = 2
# Columns that number the submissions: of the same video there may be several.
SUBMISSIONS = frozenset(("_id", "_uuid", "_index", "KEY", "meta-instanceID", "instanceID", "meta/instanceID"))


MOMENTS = ("start", "end")  # columns of times at which a form was opened and closed
# Columns about the answers, which have no labels.
_ABOUT_ANSWERS = (
    _OF_KOBO | _OF_ODK | word_set("_tags _notes _attachments _geolocation _xform_id_string formhub/uuid")
) - (SUBMISSIONS)


def sign_of_groups(columns: Collection[str]) -> str:
    """The sign between a group and a question in the names of columns of answers to forms; empty for other tables."""
    if len(_OF_KOBO.intersection(columns)) >= _FEWEST and not _KOBO_ALONE.isdisjoint(columns):
        return "/"
    return "-" if len(_OF_ODK.intersection(columns)) >= _FEWEST else ""


def columns_about_answers(columns: Collection[str]) -> list[str]:
    """The columns that a program adds to the answers to a form, but for ids; those of other tables may be labels."""
    return [name for name in columns if name in _ABOUT_ANSWERS] if sign_of_groups(columns) else []


def question_of(column: str, sign: str) -> str:
    """The name of a column without its groups."""
    return column.rpartition(sign)[2] if sign else column


def choices_of_question(columns: Sequence[str], others: Collection[str]) -> dict[str, str]:
    """{column: choice} of columns such as `g1/seen/cat` and `g1-seen-cat`; empty if they are not of one question.

    Choices may have the sign `-` in their names, so that the question of these must have a column too, or be the only
    word that all names begin with.
    """
    sign = sign_of_groups(others)
    for mark in (sign, "/", ".") if sign else ():
        questions = [other for other in others if all(name.startswith(other + mark) for name in columns)]
        alone = _only_question(columns, others) if mark == "-" else columns[0].rpartition(mark)[0]
        question = max(questions, key=len, default=alone)
        if question and all(name.startswith(question + mark) for name in columns):
            return {name: name[len(question) + 1 :].strip() for name in columns}
    return {}


def _only_question(columns: Sequence[str], others: Collection[str]) -> str:
    """The beginning of all names up to their only shared word, after groups that other columns have too; else empty."""
    words = [[] if "/" in name else name.split("-")[:-1] for name in columns]
    shared = list(itertools.takewhile(lambda alike: len(set(alike)) == 1, zip(*words, strict=False)))
    starts = ["-".join(alike[0] for alike in shared[: size + 1]) for size in range(len(shared))]
    questions = [start for start in starts if not any(other.startswith(f"{start}-") for other in others)]
    return questions[0] if len(questions) == 1 else ""
