"""8-bit texts of Central Europe are refused; Western ones, which look alike, are read."""

from __future__ import annotations

import pathlib

import pytest
from table_files import read, truth

from yt8m.errors import RunError
from yt8m.tables.sources.encodings import find_word_of_central_europe

WESTERN = (
    "mère siècle zèbre après succès poète scène grèce fête forêt évêque août goût piqûre dû œuf cœur où naïf héroïne",
    "niño año pingüino ñandú león", "caffè tè è perù così città più cioè perciò", "coração limões avô bebê três põe",
    "ræv bjørn gås æble køer grønt blåbær", "räv björn hämähäkki", "català època ciència què òpera", "jänes põder õun",
)  # fmt: skip
CENTRAL = {
    "hu": "kutya hűtő ló teknős", "hu2": "őz ló", "cs": "pes kočka žába kůň", "cs2": "pes člověk míč",
    "pl": "gęś łoś koń", "sk": "mačka jeleň", "hr": "miš mačka", "ro": "câine raţă",
}  # fmt: skip


@pytest.mark.parametrize("text", WESTERN)
def test_western_words_are_western(text: str) -> None:
    assert find_word_of_central_europe(text) == ""


@pytest.mark.parametrize("text", CENTRAL.values(), ids=CENTRAL)
def test_words_of_central_europe_are_known_by_their_letters(text: str) -> None:
    word = find_word_of_central_europe(text.encode("cp1250").decode("cp1252", "replace"))
    assert word
    assert word.encode("cp1252").decode("cp1250") in text.split()


def test_the_message_has_both_readings(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{name};{','.join(labels)}" for name, labels in truth(("kutya", "macska", "hűtő", "ló")).items()]
    path.write_bytes("\n".join(["id;labels", *rows]).encode("cp1250"))
    with pytest.raises(RunError, match=r"cp1250, .*'hûtõ' .*'hűtő'.*UTF-8"):
        read(path)


def test_letters_that_fit_both_are_refused() -> None:
    assert find_word_of_central_europe("ló õz") == "õz"
    assert find_word_of_central_europe("põder öö") == "põder"  # Estonian, or Hungarian but for its words
