"""The forms in which people have labels in CSV: each is written with its truth, and is read as that."""

from __future__ import annotations

import csv
import gzip
import json
import pathlib
import random

import pytest
from table_files import NAMES, SHORT, Form, Truth, joined, read, text_of, truth, write, write_json

FORMS: dict[str, Form] = {}


def form(function: Form) -> Form:
    FORMS[function.__name__] = function
    return function


def separated_by(separator: str) -> Form:
    names = SHORT if separator == " " else NAMES

    def make(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
        return write(folder / "t.csv", joined(truth(names), separator)), truth(names)

    return make


for _separator in (";", "; ", ",", ", ", "|", " | ", "/", "#", "+", "\n", " ", " & ", " and ", "||"):
    FORMS[f"separated by {_separator!r}"] = separated_by(_separator)


@form
def rare_tags(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    """Most combinations are there once, and most tags are rare."""
    draw = random.Random(1)
    made = {f"v{n}": sorted(f"tag {t}" for t in draw.sample(range(300), 1 + n % 4)) for n in range(500)}
    return write(folder / "t.csv", joined(made, ", ")), made


@form
def several_tags_each(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    """No tag ever stands alone."""
    draw = random.Random(1)
    made = {f"v{n}": [f"tag {t}" for t in draw.sample(range(60), 4 + n % 4)] for n in range(200)}
    return write(folder / "t.csv", joined(made, ",")), made


@form
def semicolons_of_excel(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv"
    path.write_bytes(text_of(joined(truth(), ", "), ";", "\r\n").encode("utf-8-sig"))
    return path, truth()


@form
def separator_line_of_excel(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv"
    path.write_text("sep=;\r\n" + text_of(joined(truth(), ","), ";", "\r\n"))
    return path, truth()


@form
def tabs_without_an_end(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.tsv"
    path.write_text(text_of(joined(truth(), ";"), "\t").rstrip("\n"))
    return path, truth()


@form
def bars(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    return write(folder / "t.txt", joined(truth(), ","), delimiter="|"), truth()


@form
def utf16_without_a_mark(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["Bär", "Größe", "Übung"])
    path = folder / "t.csv"
    path.write_bytes(text_of(joined(made, ";")).encode("utf-16-be"))
    return path, made


@form
def western_windows(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["Bär", "Größe", "Übung", "café"])
    path = folder / "t.csv"
    path.write_bytes(text_of(joined(made, ","), ";").encode("cp1252"))
    return path, made


@form
def compressed(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv.gz"
    path.write_bytes(gzip.compress(text_of(joined(truth(), ";")).encode()))
    return path, truth()


@form
def old_line_ends_of_macos(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv"
    path.write_bytes(text_of(joined(truth(), ";"), end="\r").encode())
    return path, truth()


@form
def single_quotes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    return write(folder / "t.csv", joined(truth(), ","), quotechar="'", quoting=csv.QUOTE_ALL), truth()


@form
def backslashes_before_quotes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [("id", "labels"), *((name, json.dumps(labels)) for name, labels in truth().items())]
    return write(folder / "t.csv", rows, doublequote=False, escapechar="\\", quoting=csv.QUOTE_ALL), truth()


@form
def commas_without_quotes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv"
    path.write_text(
        "".join(",".join([name, *labels]) + "\n" for name, labels in [("id", ["labels"]), *truth().items()])
    )
    return path, truth()


@form
def python_lists_without_quotes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv"
    path.write_text("id,labels\n" + "".join(f"{name},{labels}\n" for name, labels in truth(fewest=0).items()))
    return path, truth(fewest=0)


@form
def title_above_the_header(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    return write(folder / "t.csv", [("Labels of May", ""), ("", ""), *joined(truth(), ";")]), truth()


@form
def comments_above_the_header(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "t.csv"
    path.write_text("# by Ann, in May\n# second\n" + text_of(joined(truth(), ";")) + "# end\n")
    return path, truth()


@form
def audioset(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["/m/068hy", "/m/07q6cd_", "/m/0bt9lr", "/m/0jbk"])
    lines = [f'{name}, 30.000, 40.000, "{",".join(labels)}"\n' for name, labels in made.items()]
    start = "# Segments csv created Sun Mar  5 10:54:31 2017\n# num_ytids=40, num_segs=40, num_unique_labels=4\n"
    path = folder / "t.csv"
    path.write_text(start + "# YTID, start_seconds, end_seconds, positive_labels\n" + "".join(lines))
    return path, made


@form
def kinetics(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["playing guitar", "riding a bike", "yoga", "skiing (not slalom or crosscountry)"], 1)
    rows = [(labels[0], name, 10 + n, 20 + n, "train") for n, (name, labels) in enumerate(made.items())]
    return write(folder / "t.csv", [("label", "youtube_id", "time_start", "time_end", "split"), *rows]), made


@form
def kinetics_json(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["playing guitar", "riding a bike", "yoga"], 1)
    value = {
        name: {"annotations": {"label": labels[0], "segment": [1.0, 11.0]}, "duration": 10.0, "subset": "train"}
        for name, labels in made.items()
    }
    return write_json(folder / "t.json", value), made


@form
def activitynet(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth()
    database = {
        name: {
            "subset": "training",
            "duration": 9,
            "annotations": [{"label": x, "segment": [0, 1]} for x in [*labels, labels[0]]],
        }
        for name, labels in made.items()
    }
    return write_json(folder / "t.json", {"version": "1.3", "taxonomy": [], "database": database}), made


@form
def charades(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["c092", "c147", "c076", "c001"], fewest=0)
    rows = [
        (n, "HR43", "Kitchen", "x, y", ";".join(f"{c} 0.00 12.60" for c in labels), 24.8) for n, labels in made.items()
    ]
    return write(folder / "t.csv", [("id", "subject", "scene", "script", "actions", "length"), *rows]), made


@form
def ucf101_list(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["1", "2", "3"], 1)
    made = {f"Biking/{name}.avi": labels for name, labels in made.items()}
    path = folder / "trainlist01.txt"
    path.write_text("".join(f"{name} {labels[0]}\n" for name, labels in made.items()))
    return path, made


@form
def fastai(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(SHORT, end=".jpg")
    rows = [(name, " ".join(labels), number % 5 == 0) for number, (name, labels) in enumerate(made.items())]
    return write(folder / "t.csv", [("fname", "labels", "is_valid"), *rows]), made


@form
def kaggle_attributes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["0", "16", "25", "3"])
    return write(folder / "t.csv", joined(made, " ", ("Id", "Target"))), made


@form
def toxic_comments(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["toxic", "severe_toxic", "obscene", "threat"], fewest=0)
    names = ["toxic", "severe_toxic", "obscene", "threat"]
    rows = [(name, f"a, b {name}", *(int(x in labels) for x in names)) for name, labels in made.items()]
    return write(folder / "t.csv", [("id", "comment_text", *names), *rows]), made


def columns_of(words: tuple[str, str], prefix: str = "") -> Form:
    def make(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
        rows = [(name, *(words[x not in labels] for x in NAMES)) for name, labels in truth(fewest=0).items()]
        return write(folder / "t.csv", [("video", *(prefix + x for x in NAMES)), *rows]), truth(fewest=0)

    return make


for _words in (
    ("1", "0"),
    ("1.0", "0.0"),
    ("True", "False"),
    ("x", ""),
    ("yes", "no"),
    ("1", "-1"),
    ("Y", "N"),
    ("1", ""),
):
    FORMS[f"columns of {_words}"] = columns_of(_words)
FORMS["get_dummies of pandas"] = columns_of(("True", "False"), "label_")


@form
def several_columns(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [(name, *labels, *[""] * (3 - len(labels))) for name, labels in truth().items()]
    return write(folder / "t.csv", [("id", "label_1", "label_2", "label_3"), *rows]), truth()


@form
def index_of_pandas(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [(number, name, str(labels)) for number, (name, labels) in enumerate(truth(fewest=0).items())]
    return write(folder / "t.csv", [("", "file_name", "tags"), *rows]), truth(fewest=0)


@form
def arrays_of_numpy(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [(name, "[" + " ".join(map(repr, labels)) + "]") for name, labels in truth().items()]
    return write(folder / "t.csv", [("id", "labels"), *rows]), truth()


@form
def vectors_of_numpy(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["0", "1", "2", "3"])
    rows = [
        (name, "[" + " ".join("1." if str(x) in labels else "0." for x in range(4)) + "]")
        for name, labels in made.items()
    ]
    return write(folder / "t.csv", [("id", "labels"), *rows]), made


@form
def vectors_in_text(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["0", "1", "2", "3"])
    rows = [(name, " ".join(str(int(str(x) in labels)) for x in range(4))) for name, labels in made.items()]
    return write(folder / "t.csv", [("id", "labels"), *rows]), made


@form
def vectors_of_three_classes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    """`0 1 1` has the form of a label with its start and end."""
    made = truth(["0", "1", "2"])
    rows = [(name, " ".join(str(int(str(x) in labels)) for x in range(3))) for name, labels in made.items()]
    return write(folder / "t.csv", [("id", "labels"), *rows]), made


@form
def sets_of_postgres(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [(n, "{" + ",".join(f'"{x}"' if " " in x else x for x in labels) + "}") for n, labels in truth().items()]
    return write(folder / "t.csv", [("id", "labels"), *rows]), truth()


@form
def vectors_of_r(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [
        (n, labels[0] if len(labels) == 1 else f"c({', '.join(map(json.dumps, labels))})")
        for n, labels in truth().items()
    ]
    return write(folder / "t.csv", [("id", "labels"), *rows]), truth()


@form
def table_of_r(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    lines = ['"id" "labels"'] + [
        f'"{k}" "{n}" "{";".join(labels)}"' for k, (n, labels) in enumerate(truth().items(), 1)
    ]
    path = folder / "t.txt"
    path.write_text("\n".join(lines) + "\n")
    return path, truth()


@form
def missing_in_r(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(fewest=0)
    rows = [(n + 1, name, "|".join(labels) or "NA") for n, (name, labels) in enumerate(made.items())]
    return write(folder / "t.csv", [("", "id", "labels"), *rows], quoting=csv.QUOTE_NONNUMERIC), made


@form
def one_row_for_each_label(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [(name, label) for name, labels in truth().items() for label in labels]
    return write(folder / "t.csv", [("video_id", "class"), *rows]), truth()


@form
def open_images(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    """Rows with the confidence 0 say that the class is not there."""
    rows = [(name, "verification", label, int(label in labels)) for name, labels in truth().items() for label in NAMES]
    return write(folder / "t.csv", [("ImageID", "Source", "LabelName", "Confidence"), *rows]), truth()


@form
def movie_lens(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = {str(100 + 7 * n): labels for n, labels in enumerate(truth(fewest=0).values())}
    rows = [(n, f"Film, The {n}", "|".join(labels) or "(no genres listed)") for n, labels in made.items()]
    return write(folder / "t.csv", [("movieId", "title", "genres"), *rows]), made


@form
def esc50(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(SHORT, 1, end=".wav")
    rows = [(n, k % 5 + 1, SHORT.index(x[0]), x[0], k % 2 == 0, 17 + k) for k, (n, x) in enumerate(made.items())]
    return write(folder / "t.csv", [("filename", "fold", "target", "category", "esc10", "src_file"), *rows]), made


@form
def fsd50k(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    mids = dict(zip(SHORT, ("/m/02", "/m/07", "/m/0b", "/t/dd1", "/m/0j"), strict=True))
    made = {str(64760 + 3 * n): labels for n, labels in enumerate(truth(SHORT).values())}
    rows = [(n, ",".join(x), ",".join(mids[y] for y in x), "val" if int(n) % 5 else "train") for n, x in made.items()]
    return write(folder / "t.csv", [("fname", "labels", "mids", "split"), *rows]), made


@form
def no_header(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    return write(folder / "t.csv", joined(truth(), "|")[1:]), truth()


@form
def decomposed_letters(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["caf\u00e9", "th\u00e9"], 2)
    rows = [(n, ";".join(x).replace("\u00e9", "e\u0301") if int(n[1:]) % 3 else ";".join(x)) for n, x in made.items()]
    return write(folder / "t.csv", [("id", "labels"), *rows]), made


@form
def names_with_signs(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["C++", "C#", "C", "R&B; soul", "Action/Adventure", "Animal, wild", "Animal, domestic", "T-shirt"], 1)
    return write(folder / "t.csv", joined(made, "")), made


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_is_meant(name: str, tmp_path: pathlib.Path) -> None:
    path, expected = FORMS[name](tmp_path)
    assert read(path) == {video: sorted(labels) for video, labels in expected.items()}
