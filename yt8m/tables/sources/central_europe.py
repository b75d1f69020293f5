"""Texts of Central Europe (cp1250) that look like Western ones (cp1252): which letters stand where tells them apart.

Both codes are of 8 bits, so that each text has both readings: the Hungarian `hűtő` looks like `hûtõ`, and the Czech
`kočka` like `koèka`. Western words have such letters in few places alone.
"""

from __future__ import annotations

import re

_VOWELS = "aeiouyáéíóúýäëïöüàèìòùâêîôûãõåæøœ"
_CONSONANTS = "bcdfghjklmnpqrstvwxzçñßšž"
# A word, and the letters in it that no Western word has at that place, by the letters that stand for them in cp1250.
_WORD = re.compile(r"[^\W\d_]+(?:[\xb9\xb3\xbf\xbe\xbc\xba][^\W\d_]*)*")
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


def find_word(text: str) -> str:
    """A word of a text, read as cp1252, that is one of Central Europe; empty if there is none."""
    words: set[str] = {word for word in _WORD.findall(text) if not word.isascii()}
    for word in sorted(words):
        if _IMPOSSIBLE.search(word) and word.lower() not in _WESTERN_WORDS:
            return word
    letters = {letter for word in words for letter in word.lower() if not letter.isascii()}
    if letters <= _HUNGARIAN and "õ" in letters and not letters <= _ESTONIAN | {"é"}:
        return next((word for word in sorted(words) if _LONG.search(word)), "")
    if letters <= _ESTONIAN & _HUNGARIAN | {"é"} and "õ" in letters:  # both fit
        return next((word for word in sorted(words) if _LONG.search(word)), "")
    return ""
