"""Lines with an arrow between an id and its labels, `v00 -> cat, dog`."""

from __future__ import annotations

import pathlib

import pytest
from table_files import NAMES, SHORT, read, truth

from yt8m.errors import UsageError

TRUTH = truth(NAMES, fewest=0)
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}


def lines(path: pathlib.Path, texts: list[str]) -> pathlib.Path:
    path.write_text("".join(f"{text.rstrip()}\n" for text in texts), encoding="utf-8")
    return path


@pytest.mark.parametrize("arrow", ["=>", "->", "\u2192"])
@pytest.mark.parametrize("separator", [", ", "; ", "|"])
@pytest.mark.parametrize("form", ["{} {} {}", "{}{}{}", "{}\t{}\t{}"])
@pytest.mark.parametrize("header", [[], ["video {} labels"]])
def test_arrows(arrow: str, separator: str, form: str, header: list[str], tmp_path: pathlib.Path) -> None:
    texts = [form.format(name, arrow, separator.join(labels)) for name, labels in TRUTH.items()]
    path = lines(tmp_path / "t.txt", [*(text.format(arrow) for text in header), *texts])
    assert read(path) == EXPECTED


def test_ids_with_blanks_and_labels_with_blanks_between_them(tmp_path: pathlib.Path) -> None:
    made = {f"My Videos/clip {name}.mp4": labels for name, labels in truth(SHORT).items()}
    path = lines(tmp_path / "t.txt", [f"{name} -> {' '.join(labels)}" for name, labels in made.items()])
    assert read(path) == {name: sorted(labels) for name, labels in made.items()}


@pytest.mark.parametrize(
    "texts",
    [
        [f"{label} -> {', '.join(name for name in TRUTH if label in TRUTH[name])}" for label in NAMES],  # by class
        [f"{name} -> {label}" for name in TRUTH for label in TRUTH[name]],  # ids recur
        [f"{name} -> animal -> {'+'.join(labels)}" for name, labels in TRUTH.items()],
        [f"{name} -> {', '.join(labels)}" for name, labels in TRUTH.items()] + ["v99 => cat"],
        [f"'{name}' => '{', '.join(labels)}'," for name, labels in TRUTH.items()],  # a program's text
    ],
)
def test_other_arrows_are_refused(texts: list[str], tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError):
        read(lines(tmp_path / "t.txt", texts))


def test_arrows_in_labels_of_a_table(tmp_path: pathlib.Path) -> None:
    texts = [f"{name},walk -> {('run', 'stand', 'sit')[number % 3]}" for number, name in enumerate(TRUTH)]
    path = lines(tmp_path / "t.csv", ["id,label", *texts])
    assert read(path, separator="none")["v00"] == ["walk -> run"]
    path = lines(tmp_path / "u.tsv", [text.replace(",", "\t") for text in texts])
    assert read(path, separator="none")["v01"] == ["walk -> stand"]
