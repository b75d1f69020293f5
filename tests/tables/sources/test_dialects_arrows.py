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
        [f"{name} => ['{', '.join(labels)}']," for name, labels in TRUTH.items()],
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


CHANGES = ("open->closed", "closed=>open", "A\u2192B")


@pytest.mark.parametrize(
    "form",
    [
        *("v{0:02}={1}", "v{0:02}:{1}", "v{0:02} {1}", "v{0:02}.mp4: {1}", "v{0:02}.mp4= {1}", "videos/v{0:02} {1}"),
        *("https://x.org/v{0:02} {1}", "v{0:02}::{1}", "v{0:02};{1}"),
    ],
)
def test_arrows_within_labels(form: str, tmp_path: pathlib.Path) -> None:
    path = lines(tmp_path / "t.txt", [form.format(n, CHANGES[n % 3]) for n in range(40)])
    name = form.partition("{1}")[0].rstrip(" :;=").format(7)
    assert read(path)[name] == [CHANGES[1]]


@pytest.mark.parametrize("start", ["videos/", "https://x.org/"])
def test_arrows_within_labels_behind_frames(start: str, tmp_path: pathlib.Path) -> None:
    path = lines(tmp_path / "t.txt", [f"{start}v{n:02} 300 {CHANGES[n % 3]}" for n in range(40)])
    assert read(path)[f"{start}v07"] == [CHANGES[1]]


@pytest.mark.parametrize("header", ["video {} animals", "id {} seen", "file {} what is seen", "archivo {} animales"])
@pytest.mark.parametrize("arrow", ["=>", "->", "\u2192"])
def test_a_header_with_a_word_for_ids(header: str, arrow: str, tmp_path: pathlib.Path) -> None:
    texts = [f"{name} {arrow} {', '.join(labels)}" for name, labels in TRUTH.items()]
    assert read(lines(tmp_path / "t.txt", [header.format(arrow), *texts])) == EXPECTED


def test_headers_above_labels_like_them_and_of_the_user(tmp_path: pathlib.Path) -> None:
    texts = [f"{name} -> {', '.join(labels)}" for name, labels in TRUTH.items()]
    path = lines(tmp_path / "t.txt", ["video -> animals", *texts])
    assert read(path, columns=("id=video", "labels=animals")) == EXPECTED
    assert read(lines(tmp_path / "v.txt", ["video -> cat", "v1 -> cat", "v2 -> dog", "v3 -> dog"])) == {
        "v1": ["cat"],
        "v2": ["dog"],
        "v3": ["dog"],
    }
    path = lines(tmp_path / "u.txt", ["what -> animals", *texts])
    assert read(path, columns=("id=what", "labels=animals")) == EXPECTED


def test_addresses_before_arrows(tmp_path: pathlib.Path) -> None:
    made = {f"https://youtu.be/{name}?t=3": labels for name, labels in truth(SHORT).items()}
    path = lines(tmp_path / "t.txt", [f"{name} -> {', '.join(labels)}" for name, labels in made.items()])
    assert read(path) == {name: sorted(labels) for name, labels in made.items()}


@pytest.mark.parametrize("start", ["- ", "* ", "{}. "])
def test_items_of_lists_are_refused(start: str, tmp_path: pathlib.Path) -> None:
    texts = [f"{start.format(n)}{name} -> {', '.join(labels)}" for n, (name, labels) in enumerate(TRUTH.items())]
    with pytest.raises(UsageError):
        read(lines(tmp_path / "t.md", texts))


def test_an_arrow_with_the_same_end_belongs_to_ids(tmp_path: pathlib.Path) -> None:
    """A label `x` of all videos would say nothing."""
    expected = {f"{name}->x": labels for name, labels in EXPECTED.items()}
    assert read(lines(tmp_path / "t.csv", [f"{name}->x,{','.join(x)}" for name, x in TRUTH.items()])) == expected
    assert read(lines(tmp_path / "u.csv", [f"{name}->x,{';'.join(x)}" for name, x in TRUTH.items()])) == expected
    assert read(lines(tmp_path / "v.txt", [f"{name}->{','.join(x)}" for name, x in TRUTH.items()])) == EXPECTED


@pytest.mark.parametrize("separator", [",", ";"])
def test_an_arrow_with_a_numbered_end_belongs_to_ids(separator: str, tmp_path: pathlib.Path) -> None:
    """The end was taken for a label beside those of the video."""
    expected = {f"{name}->cam{n % 3}": labels for n, (name, labels) in enumerate(EXPECTED.items())}
    texts = [f"{name}->cam{n % 3},{separator.join(TRUTH[name])}" for n, name in enumerate(TRUTH)]
    assert read(lines(tmp_path / "t.csv", texts)) == expected
    numbered = {name: sorted({f"c{n % 3}", f"c{n % 5}"}) for n, name in enumerate(TRUTH)}
    path = lines(tmp_path / "u.txt", [f"{name}->c{n % 3},c{n % 5}" for n, name in enumerate(TRUTH)])
    assert read(path) == numbered
