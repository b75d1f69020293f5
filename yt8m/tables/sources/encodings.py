"""How the text of a file is encoded: UTF-8, UTF-16, or the 8-bit code of Western Windows (cp1252); perhaps in gzip."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import re
import xml.etree.ElementTree
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from yt8m import file_kinds, storage
from yt8m.errors import RunError
from yt8m.storage import copies

_BLOCK = 1 << 20
_GZIP_START = b"\x1f\x8b"
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# What a Western text in cp1252 holds besides ASCII. A text in another 8-bit code has other characters too, if it is
# read as cp1252: Mac Roman and the codes of DOS have letters where cp1252 has signs.
_WESTERN = frozenset(
    "äöüÄÖÜßàâáãåæçéèêëíìîïñóòôõøœúùûýÀÂÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÕØŒÚÙÛÝ€£§°©®«»…·¡¿ºª½¼²³"
    "\u2018\u2019\u201c\u201d\u2013\u2014\xa0\xb4"  # quotes, dashes, the blank that does not break, the accent alone
)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_PAIR_ALONE = re.compile(r"(?<![A-Za-z])[^\x00-\x7f]{2}(?![A-Za-z])")
_LONGEST_RUN = 2  # more letters beyond ASCII in a row are not Western text, but hardly anything else in Cyrillic
# Codes of two bytes for a letter: which of those that fit a short text is meant cannot be told from its letters.
_EAST_ASIAN = ("cp932", "gb18030", "big5", "cp949")
_EAST_ASIAN_STARTS = ("cp93", "cp94", "cp95", "gb", "big5", "shift", "euc", "johab", "hz", "iso2022")
_VOWELS = "aeiouyáéíóúýäëïöüàèìòùâêîôûãõåæøœ"
_CONSONANTS = "bcdfghjklmnpqrstvwxzçñßšž"
# A word, and the letters in it that no Western word has at that place, by the letters that stand for them in cp1250.
_CENTRAL_WORD = re.compile(r"[^\W\d_]+(?:[\xb9\xb3\xbf\xbe\xbc\xba][^\W\d_]*)*")
_IMPOSSIBLE = re.compile(
    "|".join(
        (
            r"û(?:$|[õûzk])|^û|õ[^\W\d_eö]*û|û[^\W\d_]*õ",  # ű, ő
            rf"è(?:[{_VOWELS}kjwh]|[bcdfgptv][bcdfgkmnpqstvz])|(?<=[aiyáéíóúý])è$",  # č
            rf"ñ(?![{_VOWELS}])",  # ń
            r"ê(?:[kzjœ]|dz|$)(?<![cbnrphdtl]ê)",  # ę
            r"œ(?:$|[wkpmczjbægñ]|ni|l)",  # ś
            r"iæ|^æm|œæ",  # ć
            rf"ì(?=[^\W\d_])|[aeouyáéíóúýùìõ]ò|ï$|ù(?=[{_CONSONANTS}])",  # ě, ň, ď, ů
            r"[^\W\d_][\xb9\xb3\xbf\xba\xbe\xbc][^\W\d_]|^[\xb9\xb3\xbf\xbe\xbc][^\W\d_]|[a-z]{2}[\xb9\xbf\xbe]$",
            r"þ[ãâ]|ãþ",  # ţ, ă
        )
    ),
    re.IGNORECASE,
)
_WESTERN_WORDS = frozenset(("dû", "bû", "crû", "mû", "recrû", "indû"))
# Letters that Hungarian has where Portuguese and Estonian have õ: which of them is meant cannot be told without others.
_LONG = re.compile(r"õ(?!e)", re.IGNORECASE)
_HUNGARIAN = frozenset("áéíóöúüõû")
_ESTONIAN = frozenset("äöüõšž")


class Encoding(NamedTuple):
    """How a file is encoded.

    Attributes:
      description: the words for a message, such as `in cp1252 (such as "Größe")`; empty for UTF-8.
    """

    name: str
    description: str = ""


def open_bytes(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """Opens a file, without its gzip. A file in a bucket is fetched only once, although it is read several times."""
    return _open_bytes(path)


@contextlib.contextmanager
def _open_bytes(path: str) -> Iterator[BinaryIO]:
    with storage.open_read(copies.file_copy(path)) as file:
        is_packed = file.read(2) == _GZIP_START
        file.seek(0)
        if not is_packed:
            yield file
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast(BinaryIO, unpacked)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RunError(f"{path} is damaged: its gzip ends early or is broken ({error}).") from error


@contextlib.contextmanager
def open_text(path: str, encoding: str) -> Iterator[io.TextIOWrapper]:
    """Opens a file as text, with its line ends unchanged. Raises `RunError` if the text is damaged, as by a cut."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise RunError(f"{path}: the text is damaged ({error}).") from error


def read_text(path: str) -> str:
    """The whole text of a file; raises `RunError` if its encoding is not known."""
    with open_bytes(path) as file:
        return decode(file.read(), path)


def parse_xml(path: str) -> xml.etree.ElementTree.Element:
    """The root of a file of XML."""
    with open_bytes(path) as file:
        try:
            return xml.etree.ElementTree.parse(file).getroot()
        except (xml.etree.ElementTree.ParseError, ValueError, LookupError) as error:
            raise RunError(f"{path} is not XML: {error}.") from error


def decode(content: bytes, path: str) -> str:
    """The text of the content of a file; raises `RunError`, with the path and a line, if its encoding is not known."""
    start = content[:_BLOCK]
    _refuse_other_kind(start, path)
    name = next((name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), "") or _utf16_without_mark(start)
    try:
        return content.decode(name or "utf-8")
    except UnicodeDecodeError as error:
        if name.startswith("utf-16"):
            raise RunError(f"{path}: the text is damaged ({error}).") from error
        return content.decode(_western(content, path, content[: error.start].count(b"\n") + 1).name)


def detect(path: str) -> Encoding:
    """Finds the encoding of a file of text; reads all of it."""
    with open_bytes(path) as file:
        start = file.read(_BLOCK)
        _refuse_other_kind(start, path)
        for mark, name in _BYTE_ORDER_MARKS:
            if start.startswith(mark) and name != "utf-8-sig":
                return Encoding(name, "in UTF-16")
        if name := _utf16_without_mark(start):
            return Encoding(name, "in UTF-16")
    line = _line_that_is_not_utf8(path)
    if not line:
        return Encoding("utf-8-sig")
    with open_bytes(path) as file:
        return _western(file.read(), path, line)


def _refuse_other_kind(start: bytes, path: str) -> None:
    """Raises `RunError` if the first bytes are those of a file without rows of text, such as a video."""
    kind = file_kinds.find_kind(start[: file_kinds.SAMPLE_BYTES], may_be_records=True)
    if kind and not kind.is_text:
        raise RunError(f"{path} holds no rows of text: {kind}.")


def _utf16_without_mark(start: bytes) -> str:
    """The UTF-16 code of a text that has a zero in nearly every second byte; empty for other texts."""
    sample = start[:4096]
    if len(sample) < 8 or sample.count(0) < len(sample) * 0.4:
        return ""
    odd, even = sample[1::2].count(0), sample[::2].count(0)
    return "utf-16-le" if odd > 10 * even else "utf-16-be" if even > 10 * odd else ""


def _line_that_is_not_utf8(path: str) -> int:
    """The number of the first line that is not UTF-8; 0 if all are."""
    decoder, number = codecs.getincrementaldecoder("utf-8")(), 1
    with open_bytes(path) as file:
        while block := file.read(_BLOCK):
            pending = decoder.getstate()[0]
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return number + (pending + block)[: error.start].count(b"\n")
            number += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return number
    return 0


def _western(content: bytes, path: str, line: int) -> Encoding:
    """The encoding cp1252, if the text surely is Western; `line` is the first line that is not UTF-8."""
    refusal = f"{path}, line {line}: this is not UTF-8 text"
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise RunError(f"{refusal}{_guess(content)}; save the file as UTF-8.") from error
    run, longest, example = 0, 0, ""
    for letter in text:
        run = 0 if letter.isascii() else run + 1
        longest = max(longest, run)
    is_western = {letter for letter in text if not letter.isascii()} <= _WESTERN and longest <= _LONGEST_RUN
    if not is_western or _has_letters_of_two_bytes(text):
        raise RunError(f"{refusal}{_guess(content)}; save the file as UTF-8.")
    if refuted := find_word_of_central_europe(text):
        read_as = refuted.encode("cp1252").decode("cp1250", "replace")
        raise RunError(f"{refusal}, perhaps cp1250, in which {refuted!r} is {read_as!r}; save the file as UTF-8.")
    example = next(
        word for word in text.replace(",", " ").replace(";", " ").replace('"', " ").split() if not word.isascii()
    )
    return Encoding("cp1252", f'in cp1252 (such as "{example[:40]}")')


def _has_letters_of_two_bytes(text: str) -> bool:
    """Whether many words are two letters beyond ASCII, as a Chinese sign looks in cp1252."""
    pairs = [pair for pair in _PAIR_ALONE.findall(text) if any(map(str.isalpha, pair))]
    return 3 * len(pairs) > len(_BEYOND_ASCII.findall(text))


def _guess(content: bytes) -> str:
    """Which other encoding a text seems to have, for a message; empty if none can be told."""
    import charset_normalizer

    best = charset_normalizer.from_bytes(content[:_BLOCK]).best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return ""
    if not best.encoding.startswith(_EAST_ASIAN_STARTS):
        return f", perhaps {best.encoding}"
    possible = [name for name in _EAST_ASIAN if _can_decode(content, name)]
    return f", perhaps {' or '.join(possible)}" if possible else ""


def _can_decode(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def find_word_of_central_europe(text: str) -> str:
    """A word of a text, read as cp1252, that is one of Central Europe; empty if there is none."""
    words: set[str] = {word for word in _CENTRAL_WORD.findall(text) if not word.isascii()}
    for word in sorted(words):
        if _IMPOSSIBLE.search(word) and word.lower() not in _WESTERN_WORDS:
            return word
    letters = {letter for word in words for letter in word.lower() if not letter.isascii()}
    if letters <= _HUNGARIAN and "õ" in letters and not letters <= _ESTONIAN | {"é"}:
        return next((word for word in sorted(words) if _LONG.search(word)), "")
    if letters <= _ESTONIAN & _HUNGARIAN | {"é"} and "õ" in letters:  # both fit
        return next((word for word in sorted(words) if _LONG.search(word)), "")
    return ""
