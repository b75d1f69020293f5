"""Texts in UTF-8 that a program read in another encoding, such as `KÃ¤se`, also beside words that it read rightly.

A letter in UTF-8 has two to four bytes. Some encodings show the first of them as a sign that stands in no word. If it
is a letter itself, all letters of a word beyond ASCII must be such bytes, and there must be two of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_WORD = re.compile(r"[^ \t\r\n]+")
_QUOTES = frozenset("\u2019\u2018\u201c\u201d\u00bb\u00ab\u203a\u2039\u00ae\u2122")
_MOST_BYTES = 4  # of a letter in UTF-8
_LONGER = "\u0800"  # the first letter of three bytes
_LATIN = "\u024f"  # the last letter of those that Western and Central European languages have
_IN_CP1252 = re.compile("[\u00c2\u00c3\u00d0\u00d1\u00e2][^\x00-\x7f]")  # how letters of Europe and signs begin there
# Letters of two bytes that words of today have: of Latin (without ligatures), Greek, Cyrillic, Hebrew and Arabic.
_SCRIPTS = tuple(
    map(
        re.compile,
        (
            "[\u00c0-\u0131\u0134-\u017e\u01a0-\u01b0\u0218-\u021b]+",
            "[\u0386-\u03ce]+",
            "[\u0400-\u045f\u0490\u0491]+",
            "[\u05d0-\u05ea]+",
            "[\u0621-\u064a]+",
        ),
    )
)


class _Encoding(NamedTuple):
    """How letters in UTF-8 look if they are read in an encoding.

    Attributes:
      starts: signs that hardly stand in a word, with which letters in UTF-8 begin.
      right: letters that follow them in words that are right.
      has_usual_words: whether words of several such letters may be right.
    """

    name: str
    starts: str
    right: str = ""
    has_usual_words: bool = False


_DRAWN = "".join(map(chr, range(0x2500, 0x25A0)))  # lines and blocks, which encodings of DOS have
_ENCODINGS = (
    _Encoding("cp1252", "\u00c2\u00c3\u00e2"),
    _Encoding("mac_roman", "\u221a\u00ac\u201a\u2248\u0192"),
    _Encoding("cp437", _DRAWN + "\u0393"),
    _Encoding("cp850", _DRAWN + "\u00d4"),
    _Encoding("cp866", _DRAWN, has_usual_words=True),
    _Encoding("cp1250", "\u0102\u00c2\u00e2", "\u015e\u015f"),
    _Encoding("cp1251", ""),
)


class _Restored(NamedTuple):
    """A word with its letters in place of their bytes.

    Attributes:
      is_sure: whether it was surely read in the wrong encoding.
    """

    text: str
    is_sure: bool


def original_of(text: str) -> str:
    """The text whose UTF-8 was read in another encoding, at least in parts; empty if this one was not made so."""
    if text.isascii():
        return ""
    if original := _whole_original(text):
        return original
    best, most = "", 0
    for encoding in _ENCODINGS:
        words = {match: _restored(match[0], encoding) for match in _WORD.finditer(text) if not match[0].isascii()}
        sure = [match for match, word in words.items() if word.is_sure]
        bytes_shown = sum(len(match[0]) - len(words[match].text) for match in sure)
        if bytes_shown > most:
            best, most = _with_words(text, {match: words[match].text for match in sure}), bytes_shown
    return best


def _whole_original(text: str) -> str:
    """The text all of whose letters were read in cp1252, as most programs do; else empty."""
    pairs = [match.start() for match in _IN_CP1252.finditer(text)]
    if all(text[place + 1] in _QUOTES and _ends_capitals(text, place) for place in pairs):
        return ""
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return ""


def _with_words(text: str, words: dict[re.Match[str], str]) -> str:
    for match in sorted(words, key=re.Match.start, reverse=True):
        text = text[: match.start()] + words[match] + text[match.end() :]
    return text


def _restored(word: str, encoding: _Encoding) -> _Restored:
    pieces, place, letters, starts = list[str](), 0, list[str](), ""
    while place < len(word):
        letter, size = ("", 1) if word[place].isascii() else _letter_at(word, place, encoding)
        letters += [letter] if letter else []
        starts += word[place] if letter else ""
        pieces.append(letter or word[place])
        place += size
    text = "".join(pieces)
    is_whole = len(letters) == sum(not sign.isascii() for sign in text) and all(map(str.isalpha, letters))
    has_ascii = any(sign.isascii() and sign.isalnum() for sign in word)
    has_two_scripts = encoding.name == "cp1251" and has_ascii and all("\x7f" < letter <= _LATIN for letter in letters)
    is_odd = any("\x80" <= sign <= "\x9f" for sign in word) or has_two_scripts
    has_starts = any(sign in encoding.starts for sign in starts) and (has_ascii or len(letters) > 1)
    is_usual = not encoding.has_usual_words and _are_of_one_script(letters, encoding)
    is_word = is_whole and (is_odd or (len(letters) > 1 and is_usual))
    # These signs stand in no word.
    has_signs = encoding.name == "cp1252" and any(
        (start == "\u00e2" and letter > _LONGER) or (start == "\u00c2" and _is_sign(letter))
        for start, letter in zip(starts, letters, strict=True)
    )
    return _Restored(text, bool(letters) and (has_starts or is_word or has_signs))


def _is_sign(letter: str) -> bool:
    return not (letter.isalpha() or letter.isspace() or letter in _QUOTES)


def _ends_capitals(text: str, place: int) -> bool:
    """Whether a capital stands after another one, so that a quote behind it ends the word, as in that of a title."""
    return text[place].isupper() and text[:place][-1:].isupper()


def _are_of_one_script(letters: Sequence[str], encoding: _Encoding) -> bool:
    """Whether letters may stand in one word: else the bytes are letters, as capitals of Ukrainian words may be."""
    text = "".join(letters)
    if not all(letter < _LONGER for letter in letters):
        return True
    scripts = _SCRIPTS[1:] if encoding.name == "cp1251" else _SCRIPTS  # a word of accented letters alone is rare
    return any(script.fullmatch(text) for script in scripts)


def _letter_at(word: str, place: int, encoding: _Encoding) -> tuple[str, int]:
    """(the letter whose bytes stand at a place, number of signs that show them); ("", 1) if there is none."""
    follower = word[place + 1 : place + 2]
    is_last = follower in [*_QUOTES, "\u2026"] and _ends_capitals(word, place)
    if word[place] in encoding.starts and (follower in [*encoding.right] or is_last):
        return "", 1
    for size in range(2, _MOST_BYTES + 1):
        try:
            letter = b"".join(_byte(sign, encoding.name) for sign in word[place : place + size]).decode()
        except UnicodeError:
            continue
        if len(letter) == 1 and (letter.isprintable() or letter == "\u00a0"):
            return letter, size
    return "", 1


def _byte(sign: str, encoding: str) -> bytes:
    """The byte that a sign shows; programs show bytes without a sign as control characters."""
    if "\x80" <= sign <= "\x9f":
        return sign.encode("latin-1")
    return sign.encode(encoding)
