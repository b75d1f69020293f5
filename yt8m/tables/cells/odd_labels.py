"""Labels that say more, or less, than which classes a video has: scores, negations, doubts, and lists cut short.

Each is refused: what it means for the classes is the user's to say. To split `cat, no fox` or `cat: yes; dog: no` would
make classes of the denials.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import urllib.parse
from collections.abc import Collection, Iterable, Sequence

from yt8m.errors import UsageError
from yt8m.tables.cells import misread, separators
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS

_SCORED = re.compile(
    r".*[^\s\d].*[:= (][ ]?([01]?\.\d+|\d{1,3}(\.\d+)? ?%|x\d+|(?<=[(:=])\d+)\)?", re.ASCII
)  # as in `cat:0.9`, `cat (95%)`, `cat x3`, `cat (3)`
_SIGN_AFTER_NAME = r"(?:[^|@/\s]*[^\W\d][^|@/]*[|@]|[^|@/\s]+[^\W\d][^|@/]*/)\s?"
_SCORED_BY_SIGN = re.compile(rf"{_SIGN_AFTER_NAME}(?:[01]?\.\d+|\d{{1,3}}(?:\.\d+)? ?%)")
_SURE_BY_SIGN = re.compile(rf"{_SIGN_AFTER_NAME}[01]")  # a score beside others, which alone is part of a name
_BETWEEN_SCORED = (re.compile(r"[\s,;]+"), re.compile(r"[,;\n]+"))
# Labels and scores in turn, with one sign between all of them.
_ALTERNATING = re.compile(r"[^,;|]*[^\W\d][^,;|]*([,;|])\s*[01]?\.\d+(?:\1[^,;|]*[^\W\d][^,;|]*\1\s*[01]?\.\d+)*")
_NEGATIVE = re.compile(r"[-!~\u00ac\u2212]\s*|(?:no|not|non)[ _-]", re.IGNORECASE)
_DOUBTFUL = re.compile(
    r"(.+?)\s*(?:\?+|\(\s*(?:\?+|maybe|unsure|uncertain|possibly|probably)\s*\))|"
    r"(?:maybe|perhaps|possibly|probably|unsure:?)\s+(.+)",
    re.IGNORECASE,
)  # as in `cat?`, `cat (maybe)`, `maybe cat`
_ELLIPSIS = ("...", "\u2026")
# An item of a list that stands for others, as pandas, NumPy, Python and R print long lists.
_LEFT_OUT = re.compile(r"(?:^|[\s,\[({])(?:\.\.\.|\u2026|Ellipsis)(?=[\s,\])}]|$)")
_BETWEEN = re.compile(r"[,;|\n]")
# What programs write in place of a list: JavaScript, R, Python, Java, C# and spreadsheets.
_STAND_IN = re.compile(
    r"(?:\[object \w+\],?\s*)+|<(?:chr|list|int|dbl|fct|lgl|named list|tibble|data\.frame)\b[^<>]*>|"
    r"<[\w.]+ object at 0x[0-9a-fA-F]+>|(?:\[L)?[a-z][\w]*(?:\.[\w$]+)+;?@[0-9a-f]+|"
    r"System\.(?:Collections|String|Object)[\w.`\[\],+ ]*|#{4,}"
)
# Labels with a count: `2x cat`, `2 cats`, `cat (2)`.
_TIMES = re.compile(r"(?P<count>\d{1,4})\s*(?:[x\u00d7*]\s+|[\u00d7*])(?P<name>[^\W\d].*)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?P<count>\d{1,2})\s+(?P<name>[^\W\d].*)")
_COUNTED = re.compile(
    r"(?P<name>.*[^\s\d].*?)\s*(?P<count>\(\d{1,4}\)|\[\d{1,4}\]|[\u00d7*]\s?\d{1,4}|(?<= )x ?\d{1,4})"
)
# A word before the last label of an enumeration, as in `cat, dog, and fox`.
_LAST_OF_SEVERAL = re.compile(r"(?:and|or|und|oder|et|ou|y|o|e|i|og|och|en|oraz|&|\+)\s+(.+)", re.IGNORECASE)

_NUMBERED_NAMES = re.compile(r"\d+;#[^;]+(?:;#\d+;#[^;]+)*|[^;]+;#\d+(?:;#[^;]+;#\d+)*")
# Labels within the signs of a language: <li>cat</li>, and lists as PHP stores them.
_MARKUP = re.compile(r"<(\w+)[^<>]*>[^<>]*</\1>|^a:\d+:\{.*\}$", re.DOTALL)
_DENIED = re.compile(
    r"(?:[-!~\u00ac\u2212](?=\S)|(?:no|not|without|kein|keine|nicht|sans|sin|pas de)[ _-]+)(.+)", re.IGNORECASE
)
_ANSWER = re.compile(r"(.+?)\s*(?:[:=]|[(\[])\s*(\w+|[^\w\s]\ufe0f?)\s*[)\]]?")
_MARKED = re.compile(r"(.+?)\s*([^\w\s()\[\]]\ufe0f?)")
_ANSWERS_FIRST = re.compile(r"(?:no|absent|negative|not present)\s*[:=]\s*(.+)", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"(.+?)\s*[(\[]\s*(no|not present|absent|negative|false|not visible)\s*[)\]]", re.IGNORECASE)
_SPOKEN_ANSWER = re.compile(r"(.+?)\s+(yes|no|present|absent)", re.IGNORECASE)
_SIGNED = re.compile(r"(.*\w)\s*([+\-\u2212])")
_FEWEST_CUT, _SHORTEST_CUT = 3, 8  # cells of the greatest length, and that length
_MOST_OF = 0.5  # share of the labels that are answers, if they are no names


# How Python prints members of an enumeration; signs that no name has; and bytes written as in addresses.
_MEMBER = re.compile(r"<?[A-Za-z_]\w*\.[A-Za-z_]\w*: (?:\d+|'[^']*'|\"[^\"]*\")>?")
_UNPRINTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_OF_JSON = re.compile(r"\\u([0-9A-Fa-f]{4})")
_ESCAPED = re.compile(r"(?:[^%]*[^%\d])?(?:%[0-9A-Fa-f]{2}(?:[^%]*[^%\d])?)+")


def refuse_garbled(names: Collection[str], known_names: Collection[str], source: str) -> None:
    """Refuses names that a program has garbled: unreadable signs, escapes, and UTF-8 that was read as Latin-1."""
    for name in sorted(set(names) - set(known_names)):
        if reason := _garbled(name):
            raise UsageError(
                f"{source}: {name[:60]!r} {reason}. If it is a name, name all classes by --vocabulary=FILE."
            )


def _garbled(name: str) -> str:
    """How a program has garbled a name; empty for usual names."""
    if _UNPRINTED.search(name):
        return "has a sign that cannot be printed, perhaps between several labels: write ; between them"
    if _MEMBER.fullmatch(name):
        return "is how Python prints a member of an enumeration: save its name, member.name"
    if _ESCAPED.fullmatch(name):
        with contextlib.suppress(UnicodeDecodeError):
            plain = urllib.parse.unquote(name, errors="strict")
            return f"is escaped as in addresses, and means {plain[:60]!r}: save the table without escapes"
    if _OF_JSON.search(name):
        plain = _OF_JSON.sub(lambda match: chr(int(match[1], 16)), name)
        return f"has letters as JSON escapes them, and means {plain[:60]!r}: save the table with the letters"
    if original := misread.original_of(name):
        return f"is {original[:60]!r} in UTF-8 which was read in another encoding: save the table again from its origin"
    return ""


def refuse_cut_cells(texts: Collection[str], pieces: Sequence[Sequence[str]], source: str) -> None:
    """Refuses labels such as `bir` at the end of the longest cells, beside `bird`: a database cut all texts there.

    Args:
      pieces: the labels of each text.
    """
    longest = max(map(len, texts))
    cut = [names[-1].strip() if len(text) == longest else "" for text, names in zip(texts, pieces, strict=True)]
    whole = {name.strip() for names, end in zip(pieces, cut, strict=True) for name in (names[:-1] if end else names)}
    ends = [end for end in cut if end]
    if len(ends) < _FEWEST_CUT or longest < _SHORTEST_CUT:
        return
    names = sorted(whole)
    for end in dict.fromkeys(ends):
        place = bisect.bisect_left(names, end)
        like = names[place] if place < len(names) else ""
        if like.startswith(end) and end not in whole and not end[-1].isdecimal():
            raise UsageError(
                f"{source}: no cell is longer than {longest} signs, and one of these ends in {end!r}, beside {like!r}: "
                f"a program seems to have cut them. Save the whole texts; or, if {end!r} is a label, name all by "
                "--vocabulary=FILE."
            )


def refuse_scores(names: Collection[str], source: str, always: bool = False) -> None:
    """Refuses labels that all have a score, as in `cat:0.9`."""
    if always or (names and all(map(_SCORED.fullmatch, names))):
        raise UsageError(
            f"{source}: each label has a score or a count, such as {min(names)[:60]!r}, which does not say whether the "
            f"video has the class. Keep only the labels that count, without scores, or choose "
            f"--label_separator={separators.NONE} if these are names."
        )


def refuse_scores_beside(texts: Collection[str], known_names: Collection[str], source: str) -> None:
    """Refuses cells each of whose labels has a score after a sign, as in `cat|0.9 dog|0.1` and `cat,0.9,dog,0.1`."""
    names = {part.strip() for text in texts for part in re.split(r"[,;|]", text)}
    if not texts or not set(texts).isdisjoint(known_names) or names <= set(known_names):
        return
    for pattern in _BETWEEN_SCORED:
        pieces = {part.strip() for text in texts for part in pattern.split(text) if part.strip()}
        with_fraction = set(filter(_SCORED_BY_SIGN.fullmatch, pieces))
        if (
            with_fraction
            and pieces.isdisjoint(known_names)
            and all(map(_SURE_BY_SIGN.fullmatch, pieces - with_fraction))
        ):
            refuse_scores(pieces, source, always=True)
    if all(map(_ALTERNATING.fullmatch, texts)):
        refuse_scores(texts, source, always=True)


def refuse_counts(names: Collection[str], known_names: Collection[str], source: str) -> None:
    """Refuses labels with a number of what is seen, before or after them, as in `2x cat`, `3 dogs` and `cat (2)`.

    A number may belong to a name, as in `2 door car`: then the same name has no other number.
    """
    names = set(names)
    for pattern, needs_all in ((_TIMES, False), (_NUMBERED, True), (_COUNTED, False)):
        counts: dict[str, set[str]] = {}
        matches = {name: match for name in names - set(known_names) if (match := pattern.fullmatch(name))}
        for match in matches.values():
            counts.setdefault(match["name"].strip(), set()).add(match["count"])
        recurring = sorted(stem for stem, numbers in counts.items() if len(numbers) > 1 or stem in names)
        is_everywhere = len(matches) == len(names) or (len(matches) > 1 and len(recurring) == len(counts))
        if recurring and (is_everywhere or not needs_all):
            example = next(name for name, match in sorted(matches.items()) if match["name"].strip() == recurring[0])
            raise UsageError(
                f"{source}: {example[:60]!r} seems to be the label {recurring[0][:60]!r} with a count. Delete the "
                "counts, of which 0 says that a label is missing; or name all classes by --vocabulary=FILE, if they "
                "belong to the names."
            )


def refuse_enumerations(names: Collection[str], known_names: Collection[str], source: str) -> None:
    """Refuses labels with a word before them, as the last of an enumeration such as `cat, dog, and fox`."""
    names = set(names)
    for name in sorted(names - set(known_names)):
        if (match := _LAST_OF_SEVERAL.fullmatch(name)) and match[1] in names:
            raise UsageError(
                f"{source}: {name[:60]!r} has a word before the label {match[1][:60]!r}, as the last of several. "
                "Write the same separator between all labels; or name all classes by --vocabulary=FILE."
            )


def refuse_odd_names(names: Collection[str], known_names: Collection[str], source: str) -> None:
    """Refuses labels that deny or doubt another label, as in `dog;-cat` and `dog;cat?`."""
    names = set(names)
    refuse_enumerations(names, known_names, source)
    unknown = names - set(known_names)
    negatives = [name for name in unknown if (match := _NEGATIVE.match(name)) and name[match.end() :] in names]
    if len(negatives) > 1 and 3 * len(negatives) > len(names):
        raise UsageError(
            f"{source}: {min(negatives)[:60]!r} seems to say that a label is missing, since it is another label with a "
            "sign before it. Keep only the labels that a video has."
        )
    for name in sorted(unknown):
        stem = next(filter(None, match.groups())) if (match := _DOUBTFUL.fullmatch(name)) else ""
        if stem and stem in names:
            raise UsageError(
                f"{source}: {name[:60]!r} may be a class of its own, or say that somebody was not sure of "
                f"{stem[:60]!r}. Delete such labels or write them as the class; or name all classes by "
                "--vocabulary=FILE, if both are."
            )


def refuse_replaced(cells: Iterable[object], source: str) -> None:
    """Refuses labels with U+FFFD, which stands for a letter that a program could not read."""
    for cell in cells:
        if "\ufffd" in str(cell):
            raise UsageError(
                f"{source}: {str(cell)[:60]!r} has the sign U+FFFD in place of a letter that a program could not read. "
                'The letter is not in the file: save the table again from its origin in UTF-8 ("CSV UTF-8" of Excel).'
            )


def refuse_lost_labels(cells: Iterable[Sequence[str] | str], source: str) -> None:
    """Refuses cells whose labels are not in the file: lists cut short, and what programs write in place of lists.

    Args:
      cells: a text, or a sequence of the labels of a list.
    """
    cells = list(cells)
    for cell in cells:
        if isinstance(cell, str) and _STAND_IN.fullmatch(cell):
            raise UsageError(
                f"{source}: {cell[:60]!r} is what a program wrote in place of a list, whose labels are not in the "
                "file. Save the table again with the labels joined to one text, such as cat;dog."
            )
        if isinstance(cell, str) and _MARKUP.search(cell):
            raise UsageError(
                f"{source}: {cell[:60]!r} is HTML, XML or a text of PHP around the labels. Save the table again with "
                "the labels joined to one text, such as cat;dog."
            )
    texts = [cell for cell in cells if isinstance(cell, str)]
    if texts and all(map(_NUMBERED_NAMES.fullmatch, texts)):
        raise UsageError(
            f"{source}: {texts[0][:60]!r} has a number beside each label, as SharePoint writes the entries of a list. "
            "Delete the numbers, and write ; between the labels."
        )
    if short := _shortened(cells):
        raise UsageError(
            f"{source}: {short[:80]!r} was cut short, so that labels are missing. Save the whole lists: programs "
            "shorten them where they print a table, and not in a file of CSV, JSON or Parquet. If these are names, "
            f"choose --label_separator={separators.NONE}."
        )


def _shortened(cells: Sequence[Sequence[str] | str]) -> str:
    """A cell that was cut short; empty if there is none."""
    cut_at_end, is_name = "", False
    for cell in cells:
        is_text = isinstance(cell, str)
        items = [part.strip() for part in (_BETWEEN.split(str(cell)) if is_text else map(str, cell))]
        text = str(cell) if is_text else ", ".join(items)
        has_brackets = is_text and text.startswith(("[", "(", "{", "c("))
        if any(part in _ELLIPSIS for part in items) or (has_brackets and _LEFT_OUT.search(text)):
            return text
        if has_brackets and text.endswith(_ELLIPSIS):
            return text
        is_name |= any(part.endswith(_ELLIPSIS) for part in items[:-1] or items)
        if len(items) > 1 and items[-1].endswith(_ELLIPSIS):
            cut_at_end = text
    return "" if is_name else cut_at_end


def refuse_negations(cells: Iterable[str], known_names: Collection[str], source: str) -> None:
    """Refuses texts of several labels of which some deny a label, whatever is between them."""
    pieces = [[part.strip() for part in _BETWEEN.split(cell) if part.strip()] for cell in cells]
    refuse_denied(pieces, known_names, source)


def refuse_denied(pieces: Sequence[Sequence[str]], known_names: Collection[str], source: str) -> None:
    """Refuses cells of several labels of which some deny a label.

    Args:
      pieces: the labels of each cell. Of cells with one label, `no helmet` is a class beside `helmet`.
    """
    known_names = set(known_names)
    names = {name for cell in pieces for name in cell} - known_names
    together = {name for cell in pieces if len(cell) > 1 for name in cell} - known_names
    for name in sorted(together):
        denied = _DENIED.fullmatch(name) or _IN_BRACKETS.fullmatch(name) or _ANSWERS_FIRST.fullmatch(name)
        if denied and denied[1].strip() in names and not denied[1].isdecimal():
            raise _refusal(name, denied[1].strip(), source)
    answers = TRUE_WORDS | FALSE_WORDS | {"+", "-", "\u2212"}
    for pattern in (_ANSWER, _MARKED, _SPOKEN_ANSWER, _SIGNED):
        matches = [match for match in map(pattern.fullmatch, sorted(together)) if match and match[2].lower() in answers]
        denials = [match for match in matches if match[2].lower() in FALSE_WORDS | {"-", "\u2212"}]
        stems = {match[1] for match in matches}
        are_answers = stems & names or len(stems) < len(matches) or len(matches) > _MOST_OF * len(together)
        if denials and are_answers:
            raise _refusal(denials[0][0], denials[0][1], source)


def _refusal(name: str, stem: str, source: str) -> UsageError:
    return UsageError(
        f"{source}: {name[:60]!r} seems to deny the label {stem[:60]!r} within a cell. Write only the labels that a "
        'video has into each cell, or an object such as {"cat": 1, "dog": 0}; or name all classes by '
        "--vocabulary=FILE, if these are names."
    )
