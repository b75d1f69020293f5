"""Texts in UTF-8 that were read in another encoding: of Windows, Mac and DOS, also beside others that are right."""

from __future__ import annotations

import pathlib

import pytest
from table_files import joined, read, truth, write

from yt8m.errors import UsageError
from yt8m.tables.cells.misread import original_of
from yt8m.tables.understood import TableFlags, understand

WORDS = (
    "Käse",
    "Öl",
    "naïve",
    "Straße",
    "\u041c\u043e\u0441кв\u0430",
    "日本",
    "Größe",
    "Święto",
    "Łódź",
    "Σκύλος",
    "São",
    "Příroda",
    "Çay",
)
ENCODINGS = ("cp1252", "latin-1", "mac_roman", "cp437", "cp850", "cp1250", "cp1251", "cp866")


def misread(text: str, encoding: str) -> str:
    """A text as a program shows it that takes its bytes for another encoding."""
    return "".join(bytes([byte]).decode(encoding, "ignore") or chr(byte) for byte in text.encode())


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("word", WORDS)
def test_words_are_restored(word: str, encoding: str) -> None:
    shown = misread(word, encoding)
    if (word, encoding) == ("日本", "cp866"):
        pytest.skip("letters of Russian words in cp866 may be such bytes")
    assert original_of(shown) == word
    assert original_of(f"Ж\u0443к {shown}") == f"Ж\u0443к {word}"
    assert original_of(f"{shown} d\u2019été") == f"{word} d\u2019été"


@pytest.mark.parametrize("encoding", ["cp1252", "mac_roman", "cp437", "cp850", "cp1250"])
@pytest.mark.parametrize("text", ["L\u2019été", "“cat”", "20°", "a\u2013b"])
def test_signs_are_restored(text: str, encoding: str) -> None:
    assert original_of(misread(text, encoding)) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Sport \u2013 Football",
            "Art • Music",
            "5 €",
            "½ finale",
            "à la carte",
            "che cosa è",
            "✓ done",
            "Ö",
            "é",
            "猫 é",
        ),
        *("20 °C", "“x”", "island Ö", "→ left", "Я и ты"),
    ],
)
def test_short_words_and_signs_are_restored(text: str) -> None:
    shown = misread(text, "cp1252")
    assert original_of(shown) == text


@pytest.mark.parametrize("sign", ["\u2013", "•", "½"])
def test_signs_are_restored_beside_letters_that_are_right(sign: str) -> None:
    assert original_of(f"été {misread(sign, 'cp1252')} Öl") == f"été {sign} Öl"


@pytest.mark.parametrize(
    "text",
    [
        *WORDS,
        *(
            "NESTLÉ®",
            "CAFÉ\u2019S",
            "Fuß\u2013Rad",
            "RĂŞINĂ",
            "PÃO",
            "ÂM NHẠC",
            "Âm nhạc",
            "Việt Nam",
            "Đà Nẵng",
            "«Âge»",
            "Ô toi",
        ),
        *(
            "√π",
            "√2",
            "├── cat",
            "µm",
            "½ cup",
            "\u0420—Ф",
            "„\u0420Ф“",
            "\u0420Ф\u2013\u0421Ш\u0410",
            "«\u0421\u0421\u0421\u0420»",
            "\u0420\u0456чк\u0430 \u0421\u0456\u0440\u0430",
            "Їж\u0430к Єн\u043eт",
            "Ёж",
            "ГО\u0421\u0422№5",
        ),
        *(
            "MONEDĂ\u2019S",
            "AK\u00c3\u2019s",
            "\u0410\u0440\u0443\u0431\u0438\u0441к\u0438 фл\u043e\u0440\u0438н",
            "\u0440\u0443\u043f\u0438\u0438",
            "ΓΑΤΑ",
            "Þór",
            "ÑANDÚ®",
            "Ñ",
            "Ã",
            "¤",
        ),
        *(
            "\u0422\u0406\u041d\u0406",
            "\u0421\u0406\u0420\u0406",
            "\u041a\u0406\u0420\u0406",
            "\u0421\u0406\u041d\u0406",
            "ALTĂ…",
        ),
    ],
)
def test_words_that_are_right_stay(text: str) -> None:
    assert original_of(text) == ""


@pytest.mark.parametrize("encoding", ["mac_roman", "cp850", "cp1251"])
def test_labels_that_were_misread_are_refused(encoding: str, tmp_path: pathlib.Path) -> None:
    made = truth((misread("Käse", encoding), "Ж\u0443к", "Brot"))
    path = write(tmp_path / "t.csv", joined(made, ";"))
    names = {name for labels in read(path).values() for name in labels}
    with pytest.raises(UsageError, match=r"'Käse' in UTF-8\b.*another encoding"):
        understand("--table", str(path), TableFlags()).refuse_combinations(names)
