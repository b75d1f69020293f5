"""The dialect of a CSV file, found from its beginning: delimiter, quotes, comments, and whether there is a header.

`parse_rows` reads a small text by its dialect: vocabularies and thresholds, which are also read from archives.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from yt8m.errors import RunError
from yt8m.tables.sources import footers, id_arrows
from yt8m.tables.sources.headers import PARTS, PATH, find_header
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import SPLIT_WORDS, count_known, meaning_of

_DELIMITERS = (",", ";", "\t", "|", " ")
# Delimiters of two characters, and what stands for them while lines are read.
_DOUBLED, _STAND_IN = ("::", "||"), "\x1f"
_DIRECTIVE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # the first line that Excel understands and may write
_INVENTED = "column 1"  # the first column of a table that gives it no name
_SETS = frozenset([*SPLIT_WORDS, "unassigned"])
_ENOUGH = 0.9  # share of the rows that have as many fields as the header
_BORDER = re.compile(r"[\s|+:=-]*[-=]{2,}[\s|+:=-]*")  # of a drawn table
_ID_AND_LABELS = {
    **{sign: re.compile(rf"([^\s:=,;|\"]+)\s*{sign}(?!\s*=?>)\s*((?:[^:=\"]|=>)+)") for sign in (":", "=")},
    " ": re.compile(r"([^\s:=,;|\"]+)((?: +[^\W\d][^\s:=\",;|/()<>.]*)+)"),
}
_NUMBER_SIGN = re.compile(r"#([,;\t|])")  # the name of a first column that numbers the rows, and the delimiter
_TIME = re.compile(r"\d+(\.\d*)?s?|inf", re.IGNORECASE)
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}  # of delimiters, for messages


class Dialect(NamedTuple):
    """How the lines of a CSV file are to be read.

    Attributes:
      delimiter: the character between two fields.
      doubled: a delimiter of two characters, such as `::`, for which `delimiter` stands in the lines that are read.
      is_drawn: whether lines are drawn around the cells, as Markdown and the programs of databases do.
      escape: the character before a quote in a field; None if such a quote is written twice.
    """

    delimiter: str
    header: tuple[str, ...] = ()
    skipped: int = 0
    first_line: int = 0
    quote: str = '"'
    escape: str | None = None
    skips_blanks: bool = False
    has_comments: bool = False
    is_headerless: bool = False
    is_drawn: bool = False
    doubled: str = ""

    @property
    def sign(self) -> str:
        """The delimiter as it stands in the file."""
        return self.doubled or self.delimiter

    def reader(self, lines: Iterator[str]) -> Any:
        """A reader of `csv` for lines of the file."""
        if self.doubled:
            return csv.reader(
                (line.replace(self.doubled, _STAND_IN) for line in lines), delimiter=_STAND_IN, quoting=csv.QUOTE_NONE
            )
        return csv.reader(
            map(_without_borders, lines) if self.is_drawn else lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            escapechar=self.escape,
            doublequote=self.escape is None,
            skipinitialspace=self.skips_blanks,
            strict=True,
        )


def _is_drawn(text: str) -> bool:
    """Whether one of the first two lines of a text is a border between cells."""
    lines = [line for line in text.splitlines() if line.strip()][:2]
    return any(line.startswith("||") or (_BORDER.fullmatch(line) and set(line) & set("+|")) for line in lines)


def _without_borders(line: str) -> str:
    """A line of a drawn table without the bars at its ends; an empty one for a border or a number of rows below."""
    text = line.strip()
    if _BORDER.fullmatch(text) or footers.ROWS_BELOW.fullmatch(text):
        return "\n"
    if text.startswith("||"):  # the header of a table in a wiki
        text = text.replace("||", "|")
    return text.removeprefix("|").removesuffix("|").strip() + "\n"


def sniff(sample: str, column_names: Collection[str] = ()) -> Dialect:
    """Finds the dialect of a file."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", sample)
    first, directive, comments = _preamble(lines)
    body = "".join(lines[first:])
    sniffer = _Sniffer(body, comments, frozenset(column_names))
    fits = [sniffer.fit(delimiter) for delimiter in ([directive] if directive else _DELIMITERS)]
    fit, best = max(fits, key=lambda fit: fit[0])
    is_named = fit[0] and len(fit) > 1 and fit[1]
    if doubled := "" if directive or is_named else _doubled_delimiter(body):
        return sniffer.fit(doubled)[1]._replace(first_line=first, has_comments=bool(comments))
    if arrow := "" if directive or is_named else sniffer.find_arrow():
        return sniffer.with_arrow(arrow)._replace(first_line=first, has_comments=bool(comments))
    sign = "" if directive or is_named or not body.strip() else _sign_after_ids(body)
    if sign == " " and best.delimiter == " " and fit[2]:  # columns, such as an id, a label and a split
        sign = ""
    if sign:
        best = Dialect(sign, (_INVENTED, "column 2"), skips_blanks=True, is_headerless=True)
    return best._replace(first_line=first, has_comments=bool(comments))


def _doubled_delimiter(text: str) -> str:
    """The delimiter of two characters that all lines have as often, before any other; empty if there is none."""
    lines = [line for line in text.splitlines()[:1000] if line.strip()]
    for sign in _DOUBLED:
        counts = {line.count(sign) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and counts != {0} and sign + sign[0] not in text:
            starts = [line.partition(sign)[0] for line in lines]
            if counts == {1} and any(
                len(numbers := {line.count(other) for line in lines}) == 1 and numbers != {0} for other in ",;\t|"
            ):
                continue  # another sign stands in each line as often
            if all(start and not any(other in start for other in ",;\t|") for start in starts):
                return sign
    return ""


def _sign_after_ids(text: str) -> str:
    """The sign between an id and labels that recur, in each line, as in `v00: cat, dog` or `v00 cat`; else empty."""
    lines = [line for line in text.splitlines() if line.strip()]
    for sign, pattern in _ID_AND_LABELS.items():
        pairs = [match.groups() for line in lines if (match := pattern.fullmatch(line))]
        if len(pairs) < len(lines) or len({first for first, _ in pairs}) < len(pairs):
            continue
        labels = [{part for part in PARTS.split(labels_of_line) if part} for _, labels_of_line in pairs]
        # The first line is no header: its labels stand in other lines too.
        recurs = sign != " " or labels[0] <= set().union(*labels[1:])
        if recurs and len(set().union(*labels)) < len(pairs) and not all(first.isdecimal() for first, _ in pairs):
            return sign
    return ""


def _preamble(lines: Sequence[str]) -> tuple[int, str, list[str]]:
    """(number of lines before the header, the delimiter that a line `sep=;` names or "", the texts of comments)."""
    directive, comments = "", list[str]()
    for number, line in enumerate(lines):
        text = line.lstrip("\ufeff").strip()
        match = _DIRECTIVE.fullmatch(text.strip('"')) if number == 0 else None
        if match:
            directive = match[1]
        elif text.startswith("#") and not (_is_usual_start(below := lines[number + 1 :]) or _numbers_rows(line, below)):
            comments.append(text.lstrip("# \t"))
        elif text:
            return number, directive, comments
    return 0, directive, []


def _is_usual_start(lines: Sequence[str]) -> bool:
    """Whether most lines begin with `#`, so that the sign belongs to the names."""
    texts = [line for line in lines if line.strip()]
    return sum(line.startswith("#") for line in texts) > len(texts) / 2


def _numbers_rows(line: str, lines: Sequence[str]) -> bool:
    """Whether a line such as `#,video,cat` is a header: the next one has as many fields."""
    start = _NUMBER_SIGN.match(line := line.lstrip("\ufeff"))
    following = next((text for text in lines if text.strip()), "")
    if not start:
        return False
    fields, others = (next(csv.reader([text.strip("\r\n")], delimiter=start[1]), []) for text in (line, following))
    return len(fields) == len(others) > 1 and not others[0].startswith("#")


class _Sniffer:
    """Tries delimiters on the beginning of a text; `comments` are the texts of the comments above it."""

    def __init__(self, body: str, comments: Sequence[str], column_names: frozenset[str]) -> None:
        self._body, self._comments, self._named = body, comments, frozenset(map(normalized, column_names))

    def fit(self, delimiter: str) -> tuple[tuple[float, ...], Dialect]:
        """(how well a delimiter fits, the dialect with it); fits are compared like numbers of several digits."""
        dialect, rows = self._parse(delimiter)
        if not rows:
            return (-1.0,), dialect
        dialect = self._with_header(dialect, rows)
        width, data = len(dialect.header), rows[dialect.skipped :]
        share = sum(len(row) == width for row in data) / len(data) if data else 1.0
        is_table = width > 1 and max(map(len, rows)) > 1 and (delimiter != " " or self._blanks_fit(dialect, data))
        known_names = 0 if dialect.is_headerless else min(self._count_known(dialect.header), 2)
        return (float(is_table), float(known_names), float(share >= _ENOUGH), share, float(width)), dialect

    def find_arrow(self) -> str:
        """The arrow between ids and labels; empty if there is none."""
        return id_arrows.arrow_after_ids(self._body, self._named)

    def with_arrow(self, arrow: str) -> Dialect:
        """The dialect of lines with an arrow between an id and labels, whose header may be `id -> labels`."""
        dialect = Dialect(_STAND_IN, doubled=arrow, skips_blanks=True)
        rows = [row for row in _rows(self._body, dialect)[0] if any(row)]
        if id_arrows.is_header(rows[0][0].strip(), rows[0][1].strip(), self._named):
            return dialect._replace(header=_stripped(rows[0]), skipped=1)
        return dialect._replace(header=(_INVENTED, "column 2"), is_headerless=True)

    def _parse(self, delimiter: str) -> tuple[Dialect, list[list[str]]]:
        """(the dialect without its header, the rows that have any text)."""
        if delimiter in _DOUBLED:
            doubled = Dialect(_STAND_IN, doubled=delimiter)
            return doubled, [row for row in _rows(self._body, doubled)[0] if any(row)]
        pattern = re.escape(delimiter)
        if delimiter == "|" and _is_drawn(self._body):
            drawn = Dialect(delimiter, skips_blanks=True, is_drawn=True)
            return drawn, [row for row in _rows(self._body, drawn)[0] if any(row)]
        quote = "'" if re.match(rf"'[^'\r\n]*'\s*{pattern}\s*'", self._body) else '"'
        has_blanks = delimiter == " " or re.search(rf'{pattern} +"', self._body) is not None
        has_blanks |= re.match(rf"[^\r\n{pattern}]*({pattern} [^\r\n{pattern}]*)+[\r\n]", self._body) is not None
        dialect = Dialect(delimiter, quote=quote, skips_blanks=has_blanks and delimiter != "\t")
        rows, is_whole = _rows(self._body, dialect)
        if not is_whole and '\\"' in self._body:
            escaped = dialect._replace(escape="\\")
            escaped_rows, is_whole = _rows(self._body, escaped)
            if len(escaped_rows) > len(rows):
                dialect, rows = escaped, escaped_rows
        return dialect, [row for row in rows if any(row)]

    def _count_known(self, names: Sequence[str]) -> int:
        return count_known(list(names)) + 2 * bool(self._named.intersection(map(normalized, names)))

    def _blanks_fit(self, dialect: Dialect, rows: Sequence[Sequence[str]]) -> bool:
        """Whether blanks are delimiters: all words of the header are known, or each line begins with a path."""
        if dialect.is_headerless:
            return all(row and PATH.search(row[0]) for row in rows)
        return all(map(meaning_of, filter(None, dialect.header)))

    def _with_header(self, dialect: Dialect, rows: Sequence[Sequence[str]]) -> Dialect:
        """The dialect with the names of the columns and the number of rows before the data."""
        header, skipped = find_header(rows, self._named)
        if self._comments and skipped == 0:
            column_names = next(iter(_rows(self._comments[-1], dialect)[0]), [])
            if count_known(column_names) >= 2 and len(column_names) == len(rows[0]):
                return dialect._replace(header=_stripped(column_names))
        if skipped:
            header = _with_index_name(_with_row_names(header, rows[skipped:]), rows[skipped:])
            return dialect._replace(header=_stripped(header), skipped=skipped)
        return dialect._replace(header=invented_names(rows), is_headerless=True)


def _rows(text: str, dialect: Dialect) -> tuple[list[list[str]], bool]:
    """(the rows of a text up to the first that is not CSV, whether all are)."""
    rows: list[list[str]] = []
    try:
        rows.extend(dialect.reader(iter(io.StringIO(text, newline=""))))
    except csv.Error:
        return rows, False
    return rows, True


def _stripped(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in header)


def _with_row_names(header: list[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The header, with a name for the first column if R wrote its numbers of rows without one."""
    numbers = [str(number) for number in range(1, len(rows) + 1)]
    has_names = bool(rows) and all(len(row) == len(header) + 1 for row in rows) and [row[0] for row in rows] == numbers
    return ["", *header] if has_names else header


def _with_index_name(header: list[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The header, with a name for the first column if pandas or R wrote ids there as an index without a name."""
    if header[0].strip() or not rows:
        return header
    first = [row[0] for row in rows]
    is_alone = len(header) == 2  # else another column may have the ids, and the numbers count rows
    are_ids = len(set(first)) == len(first) and all(first) and (is_alone or not all(map(str.isdecimal, first)))
    are_ids = are_ids and all(header[1:]) and not any(map(meaning_of, first))
    return [_INVENTED, *header[1:]] if are_ids else header


def invented_names(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The names of the columns of a table without a header. If rows have more fields than others, there are two.

    Columns at the end that are empty in all rows do not count.
    """
    filled = max((place for row in rows for place, field in enumerate(row, 1) if field.strip()), default=1)
    widths = {min(len(row), filled) for row in rows}
    width = widths.pop() if len(widths) == 1 else 2
    if width > 1 and all(len(row) > 2 and row[0].lower() in _SETS and PATH.search(row[1]) for row in rows):
        # As Google's AutoML has it: TRAIN,gs://bucket/clip.mp4,label,label; of videos label,start,end.
        if width == 5 and all(_TIME.fullmatch(cell.strip()) for row in rows for cell in row[3:]):
            is_whole = all(row[4].strip().lower() == "inf" for row in rows)
            return (
                "split",
                "id",
                "labels",
                *((f"{_INVENTED[:-1]}4", f"{_INVENTED[:-1]}5") if is_whole else ("start", "end")),
            )
        return ("split", "id", "labels")
    return (_INVENTED, *(f"column {number}" for number in range(2, width + 1)))


Fields = list[str]


def parse_rows(text: str, path: str, column_names: Sequence[str]) -> tuple[Fields, Iterator[tuple[int, Fields]]]:
    """Parses a CSV text with a header.

    Args:
      column_names: names of columns that the header must have, in lower case; without them it has commas.

    Returns:
      (the names of the columns, in lower case; an iterator over the line and the fields of each row with any text).
      Empty fields at the end of a row, beyond the header, are left out.
    """
    text = text.removeprefix("\ufeff")
    first_names = [name.strip().strip('"').lower() for name in text.partition("\n")[0].split(",")]
    dialect = Dialect(",") if set(column_names) <= set(first_names) else sniff(text, column_names)
    if not set(column_names) <= {name.strip().lower() for name in dialect.header}:
        dialect = Dialect(",")
    body = "".join(text.splitlines(keepends=True)[dialect.first_line :]) if dialect.first_line else text
    rows = itertools.islice(_numbered(dialect, body, path), max(0, dialect.skipped - 1), None)  # without titles
    header = next(rows, (0, []))[1]
    names = [name.strip().lower() for name in header]
    while names and not names[-1]:
        names.pop()
    return names, ((line, _cut(fields, len(names))) for line, fields in rows)


def _cut(fields: Fields, width: int) -> Fields:
    return fields[:width] if not any(fields[width:]) else fields


def _numbered(dialect: Dialect, body: str, path: str) -> Iterator[tuple[int, Fields]]:
    """Yields (number of its first line, fields) of each row that has any text."""
    reader = dialect.reader(iter(io.StringIO(body, newline="")))
    end = dialect.first_line
    try:
        for fields in reader:
            if any(fields):
                yield end + 1, fields
            end = reader.line_num + dialect.first_line
    except csv.Error as error:
        raise RunError(f"{path}, line {end + 1}: this is not CSV ({error}).") from error
