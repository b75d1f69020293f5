"""The name of the class that a cell means, without what nobody sees; empty for `nan` and other words for nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Any

from yt8m.tables.words import phrases, word_set, words
from yt8m.tables.words.numbers import float_text

# Cells that say that there is no label, in lower case, as pandas, Python, R, SQL and people write it; and the errors of
# spreadsheets.
_NOTHING = frozenset(
    [
        "",
        *words(
            "nan none null na n/a n.a. nat <na> #n/a \\n - -- . \u2014 \u2013 ? '' [] {} () set() [''] [none] [nan]"
        ),
        *('""', "[ ]"),
        *words("missing (none) <none> (empty) (blank) unlabeled unlabelled untagged todo tbd"),
        *words("#value! #ref! #name? #div/0! #num! #null! #nv #wert! #bezug!"),
        *phrases("no label|no labels|no tag|no tags|not labeled|not labelled|to do|none of the above"),
        "(no genres listed)",
    ]
)
# What people write for a part of a video in which they have seen no class. Other words for nothing may be a label that
# is missing.
NO_CLASS = "(none)"
_NO_CLASSES = frozenset([NO_CLASS, "<none>", *phrases("no label|no labels|no tag|no tags")])
# What people write for true and for false, beside numbers and marks.
WORD_PAIRS = tuple(
    (yes.replace("_", " "), no.replace("_", " "))
    for pair in words(
        "true/false yes/no y/n t/f positive/negative pos/neg present/absent checked/unchecked on/off "
        "visible/not_visible selected/not_selected mentioned/not_mentioned quoted/not_quoted chosen/not_chosen "
        "met/not_met "
        "genannt/nicht_genannt ja/nein ja/nee ja/nej ja/nei j/n wahr/falsch oui/non vrai/faux sí/no si/no sì/no "
        "verdadero/falso vero/falso verdadeiro/falso cert/fals adevărat/fals waar/onwaar sant/falskt sand/falsk "
        "sann/usann tosi/epätosi igaz/hamis prawda/fałsz pravda/nepravda istina/laž doğru/yanliş "
        "doğru/yanl\u0131\u015f истина/ложь істина/хибність истина/лъжа benar/salah đúng/sai αληθές/ψευδές "
        "αληθες/ψευδες sim/não já/nei jah/ei kyllä/ei taip/ne jā/nē ano/ne áno/nie tak/nie da/ne da/nu "
        "да/не да/нет так/ні igen/nem evet/hayir evet/hay\u0131r \u03bd\u03b1\u03b9/όχι ya/tidak có/không हाँ/नहीं "
        "نعم/لا כן/לא はい/いいえ 有/无 有/無 是/否 예/아니오 예/아니요 네/아니요 네/아니오"
    )
    for yes, no in [pair.split("/")]
)
YES_MARKS, NO_MARKS = frozenset("✓✔☑✅") | {"✔\ufe0f"}, frozenset("✗✘✕✖❌☐") | {"✖\ufe0f"}
# Circles and crosses of East Asia; alone, a circle may be an empty one.
CIRCLES, CROSSES = frozenset("○◯◎⭕\u3007"), frozenset("✕✖✗❌\xd7\u2573")
# What alone marks the classes of a video, whose other cells are empty.
MARKS = frozenset([*words("x 1 1.0 yes true y on selected checked [x] ja oui sí 是 はい"), *"●•*+v"])
TRUE_WORDS = frozenset([*MARKS, *CIRCLES, *YES_MARKS, *(yes for yes, _ in WORD_PAIRS)])
FALSE_WORDS = frozenset(["0", "0.0", "-1", "-1.0", *CROSSES, *NO_MARKS, *(no for _, no in WORD_PAIRS)])
# What people write for a label that a video has, and for one that it has not, beside 1 and 0, yes and no.
SAID_YES = (TRUE_WORDS - {"sand"}) | word_set(  # which may be what lies on the ground
    "on + +1 ok accept accepted approve approved confirm confirmed correct right agree agreed valid pass passed "
    "found good visible seen keep kept hit tp relevant sure certain likely detected observed exists included"
)
SAID_NO = (
    FALSE_WORDS
    | word_set(
        "off - \u2212 reject rejected deny denied incorrect wrong disagree disagreed invalid fail failed missing "
        "miss missed bad invisible unseen drop dropped fp irrelevant unlikely unconfirmed undetected unobserved "
        "excluded deleted removed false_positive true_negative nothing zero nil "
        "hard_neg hard-neg hard_negative hard-negative neg_hard easy_neg negatives mislabeled mislabelled"
    )
    | {"false positive", "true negative", "hard negative", "hard neg"}
)
DOUBTS = word_set("unsure uncertain maybe perhaps possibly probably doubtful unclear unknown")
# Cells with which people judge a label, whatever the name of the column is.
JUDGED = word_set("wrong incorrect rejected reject disagree mislabeled mislabelled falsch")
NEGATION = re.compile(r"(?:not?|un|in|im|ir|non|dis)[ _-]?(.+)")  # as in `unseen` beside `seen`
# Signs without a width, which texts from web pages and spreadsheets carry.
_WITHOUT_WIDTH = re.compile("[\u200b\u200e\u200f\u2060\ufeff\u00ad]")
WHOLE_FLOAT = re.compile(r"(\d{1,18})\.0*", re.ASCII)  # a whole number as pandas writes it beside missing ones
_MOST_CACHED = 1 << 17  # different names whose reading is kept


def clean_name(name: str) -> str:
    """The name of a class with composed letters, without blanks around it and without signs that nobody sees."""
    return (name if name.isascii() else _WITHOUT_WIDTH.sub("", unicodedata.normalize("NFC", name))).strip()


class NameCleaner(dict[Any, str]):
    """{a name as a cell has it: the name of the class}; empty for what says that there is no label.

    Blanks around a name do not count, and composed and decomposed letters are one.
    """

    def __init__(self, has_whole_floats: bool = False, known_names: Collection[str] = ()) -> None:
        super().__init__()
        self._has_whole_floats, self._known = has_whole_floats, frozenset(known_names)

    def __missing__(self, name: Any) -> str:
        if len(self) > _MOST_CACHED:
            self.clear()
        text = self[name] = self._clean(name)
        return text

    def _clean(self, name: Any) -> str:
        if isinstance(name, bool) or name is None:
            return str(name).lower() if name is not None else ""
        if isinstance(name, float):
            return "" if name != name else float_text(name)
        text = clean_name(str(name))
        if text.lower() in _NOTHING and text not in self._known:
            return ""
        match = WHOLE_FLOAT.fullmatch(text) if self._has_whole_floats else None
        return match[1] if match else text


def is_nothing(value: Any) -> bool:
    """Whether a cell says that there is no label."""
    if isinstance(value, list | tuple | dict):
        return not value
    return value is None or value != value or str(value).strip().lower() in _NOTHING


def says_no_class(cell: Any) -> bool:
    """Whether a cell of labels, or an item of its list, says that people have looked and seen no class."""
    items = cell if isinstance(cell, list | tuple) else [cell]
    return any(str(item).strip().lower() in _NO_CLASSES for item in items)


def says_yes(cell: Any) -> bool | None:
    """Whether a cell says that the video has the label of the row; None if it says neither."""
    word = "" if is_nothing(cell) else str(cell).strip().lower()
    if word in DOUBTS:
        return None
    is_negation = (match := NEGATION.fullmatch(word)) is not None and match[1] in SAID_YES
    if word in SAID_YES or word in SAID_NO or not word or is_negation:
        return word in SAID_YES
    return int(float(word)) > 0 if re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", word) else None
