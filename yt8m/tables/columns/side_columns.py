"""Columns of 0 and 1 beside those of classes that may be no classes: `fold`, `is_train`, `Consent`.

A column is doubtful if its name usually says something else, if it says yes of every video, if it is written otherwise
than most, or if it alone breaks a rule that the others keep: that each video has one class.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from yt8m.errors import UsageError
from yt8m.tables.columns import class_columns
from yt8m.tables.columns.facts import Facts
from yt8m.tables.sources.source import Source
from yt8m.tables.words.class_names import TRUE_WORDS
from yt8m.tables.words.meanings import columns_flag, normalized, words

# Names of where, when, how or by whom a video was made or labelled.
_PLACES = frozenset(
    words(
        "fold folds kfold cv_fold batch version seed station site location camera cam device sensor channel mic "
        "microphone recorder session round trial week weekday group cluster cohort transect phase source origin "
        "annotator annotators rater worker coder labeler labeller expert reviewer observer operator user author owner "
        "partition subset split series sequence format codec lang language region country zone lab project campaign "
        "chunk bucket shard archive collection gender age cv hold_out holdout gps visit hour month year"
    )
)
_OTHERS = frozenset(
    words(
        "weight weights consent license licence quality difficulty rating score vote votes count total sum length "
        "duration size priority type kind mode status state qc qa use used useful usage keep kept selected sample "
        "sampled valid validated pass passed complete completed finished todo final draft approved rejected accepted "
        "agree agreed confirmed pilot treatment control target index idx number num no nr row order rank id level "
        "tier grade hidden gold bad good n i conf multi visible available missing error errors corrupt readable "
        "processed exported uploaded trimmed test_set train_set training validation testing holdout comment remark"
    )
)
# Columns that programs for annotation add to those of the user: Mechanical Turk and Label Studio.
_OF_PROGRAMS = frozenset(
    words(
        "hit_id hitid hittype_id hit_type_id assignment_id worker_id assignment_status auto_approval_time "
        "annotation_id annotator_id task_id lead_time created_at updated_at"
    )
)
# Words that say so in any name, such as `speaker gender`; a station may be one for trains.
_SURE_WORDS = frozenset(
    words(
        "fold folds kfold cv batch version annotator rater worker coder labeler labeller reviewer observer gender "
        "cohort subset partition shard seed cam mic recorder"
    )
)
_SURE_REMARKS = frozenset(
    words(
        "valid usable used quality annotation consent license recorded annotated labeled labelled reviewed checked "
        "verified confirmed approved coded uploaded downloaded processed duplicate"
    )
)
_NUMBERED = re.compile(r"(.+?)_?(?:\d+|_[a-z])")  # as in `cam1`, `site_b`
_SETS = re.compile(
    r"(?:train|training|val|valid|validation|test|testing|eval|dev|holdout|hold_out)(?:_(?:set|split|flag|data))?"
)
_PREFIX = re.compile(r"(is|in|has|was)_.+")
_ENDING = re.compile(r".+_(id|ids|nr|version|fold|batch|seed|index|idx)")
_OTHER_ENDING = re.compile(
    r".+_(no|num|number|weight|flag|status|ok|count|round|session|trial|visit|scope|hour)|(n|num|nr|number)_.+"
)
_FEWEST_ROWS = 5  # of fewer videos, all may show a class
_FEWEST_OF_ONE = 3  # columns of which each video has one
_FIRST_ROWS = 2000
_MOST_SHOWN = 4


def is_of_program(name: str) -> bool:
    """Whether a program for annotation has added a column to those of the user."""
    return normalized(name) in _OF_PROGRAMS


def _without_number(word: str) -> str:
    return match[1] if (match := _NUMBERED.fullmatch(word)) else word


def is_place(word: str) -> bool:
    """Whether a name, as `normalized` writes it, says where, when or by whom a video was made or labelled."""
    base = _without_number(word)
    return base in _PLACES or not _SURE_WORDS.isdisjoint(base.split("_")) or _ENDING.fullmatch(word) is not None


def refuse_side_columns(
    source: Source, names: Sequence[str], facts: Mapping[str, Facts], known_names: Collection[str]
) -> None:
    """Raises `UsageError` if some of the columns of classes may be no classes.

    Args:
      known_names: the names of the vocabulary, which are classes.
    """
    reasons = {
        name: reason for name, reason in _doubts(source, names, facts).items() if name.strip() not in known_names
    }
    if not reasons:
        return
    listed = ", ".join(f'"{name}" ({reason})' for name, reason in list(reasons.items())[:_MOST_SHOWN])
    classes = [name for name in names if name not in reasons]
    beside = ", ".join(classes[:_MOST_SHOWN]) + (", ..." if len(classes) > _MOST_SHOWN else "")
    subject, verdict, other = (
        ("a column", "it is no class", "it is a class too")
        if len(reasons) == 1
        else ("columns", "they are no classes", "all are classes")
    )
    raise UsageError(
        f"{source.path}: {subject} of yes and no{' beside ' if beside else ''}{beside} may be no class: {listed}. "
        f"Choose by {columns_flag('unused', list(reasons))} ({verdict}), or by --columns=unused= ({other})."
    )


def _doubts(source: Source, names: Sequence[str], facts: Mapping[str, Facts]) -> dict[str, str]:
    """{column: why it may be no class}."""
    breaking = _breaking_columns(source, names)
    if breaking is None:
        return {}
    reasons = dict.fromkeys(breaking, "without it, each video has one class")
    reasons |= dict.fromkeys(_written_otherwise(names, facts), "it is written otherwise")
    start, count = Counter(map(class_columns.beginning, names)).most_common(1)[0]
    if start and count > 1:
        others = [name for name in names if class_columns.beginning(name) != start]
        reasons |= dict.fromkeys(others, f"it does not begin with {start}")
    if not all(_PREFIX.fullmatch(normalized(name)) for name in names):
        reasons |= {name: "its name" for name in names if _PREFIX.fullmatch(normalized(name))}
    reasons |= {name: "its name" for name in names if _says_something_else(normalized(name))}
    return reasons | {name: "it says yes of every video" for name in names if is_constant(facts[name])}


def _says_something_else(word: str) -> bool:
    base = _without_number(word)
    is_remark = base in _OTHERS or not _SURE_REMARKS.isdisjoint(word.split("_"))
    return is_remark or is_place(word) or any(pattern.fullmatch(base) for pattern in (_SETS, _OTHER_ENDING))


def is_constant(facts: Facts) -> bool:
    """Whether a column says yes of every one of at least a few videos."""
    return facts.rows >= _FEWEST_ROWS and len(facts.spellings) == 1


def _written_otherwise(names: Sequence[str], facts: Mapping[str, Facts]) -> list[str]:
    """The columns whose word for yes is another than that of most columns."""
    spellings = {name: {word.removesuffix(".0") for word in facts[name].spellings & TRUE_WORDS} for name in names}
    counts = Counter(word for marks in spellings.values() for word in marks)
    word, count = counts.most_common(1)[0]
    return [name for name in names if word not in spellings[name]] if 2 * count > len(names) else []


def _breaking_columns(source: Source, names: Sequence[str]) -> list[str] | None:
    """The only column without which each of the first videos has just one class; None if each has one with all."""
    if len(names) < _FEWEST_OF_ONE:
        return []
    for rows in source.batches(_FIRST_ROWS, 0, names):
        marks = [[str(cell).strip().lower() in TRUE_WORDS for cell in rows.cells[name]] for name in names]
        sums = [sum(marked) for marked in zip(*marks, strict=True)]
        if len(sums) < _FEWEST_ROWS or set(sums) == {1}:
            return None if set(sums) == {1} and len(sums) >= _FEWEST_ROWS else []
        breaking = [
            name
            for name, column in zip(names, marks, strict=True)
            if all(total - mark == 1 for total, mark in zip(sums, column, strict=True))
        ]
        return breaking if len(breaking) == 1 and len(names) > _FEWEST_OF_ONE else []
    return []
