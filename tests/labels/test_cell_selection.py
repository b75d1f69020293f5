"""`yt8m select` with a model of spans: parts of films that nobody has rated, as a table and as tasks."""

from __future__ import annotations

import csv
import json
import pathlib
import shlex
import sys

import pytest
from span_runs import CELL, FILMS, NAMES, SECONDS, TRAINED, make_records

import yt8m
from yt8m.command_line import cli
from yt8m.errors import UsageError

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def unrated(span_run: pathlib.Path) -> str:
    """Records of the films of which people have looked at the spans alone."""
    make_records(span_run, "unrated", "--annotated=spans")
    return f"{span_run}/unrated/frame/validate/*.tfrecord"


def rated_cells(folder: pathlib.Path) -> set[tuple[str, int]]:
    """The (film, second) of the cells in the spans of the table."""
    with (folder / "spans.csv").open() as file:
        return {
            (row["video"], start)
            for row in csv.DictReader(file)
            for start in range(int(row["start"]), int(row["end"]), CELL)
        }


def test_parts_that_nobody_has_rated_are_chosen(
    span_run: pathlib.Path, unrated: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = yt8m.select(span_run / "run", unrated, tmp_path / "parts.csv", count=15)
    parts = [(row["video"], float(row["start"]), float(row["end"])) for row in rows]
    assert len(set(parts)) == 15
    films = {f"v{number}" for number in range(TRAINED, FILMS)}
    for video, start, end in parts:
        assert video in films
        assert (end - start, start % CELL) == (CELL, 0)
        assert end <= SECONDS
        assert (video, int(start)) not in rated_cells(span_run)
    assert [row["rank"] for row in rows] == [str(rank) for rank in range(1, 16)]
    words = [f"--model={span_run}/run", f"--data={unrated}", "--count=15", "--format=label-studio"]
    assert cli.call("select", [*words, f"--out={tmp_path}/tasks.json", "--frame_rate=10"]) == 0
    unrated_count = (FILMS - TRAINED) * SECONDS // CELL - sum(video in films for video, _ in rated_cells(span_run))
    said = capsys.readouterr().out
    assert f"15 of {unrated_count} parts of 2 s" in said
    command = f"  yt8m relabel --data='{unrated}' --labels=EXPORT.json --out=FOLDER --frame_rate=10"
    assert said.splitlines()[-1] == command
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    named = [
        (task["data"]["id"], *map(float, part.split("-")))
        for task in tasks
        for part in task["data"]["parts"].split(", ")
    ]
    assert sorted(named) == sorted(parts)
    for task in tasks:
        for prediction in task["predictions"]:
            for result in prediction["result"]:
                assert set(result["value"]["timelinelabels"]) <= set(NAMES)
                ((first, last),) = ((part["start"], part["end"]) for part in result["value"]["ranges"])
                assert (task["data"]["id"], (first - 1) / 10, last / 10) in parts


def test_films_that_are_rated_leave_nothing_to_choose(span_run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"data=.*every class.*\b240 cells"):
        yt8m.select(span_run / "run", f"{span_run}/data/frame/validate/*.tfrecord", tmp_path / "parts.csv")


def test_records_to_choose_from_are_opened_once(span_run: pathlib.Path, unrated: str, tmp_path: pathlib.Path) -> None:
    """Else the command that is printed could be about other files than those that were chosen from."""
    listed, is_watching = list[str](), True
    sys.addaudithook(lambda event, args: listed.append(str(args[0])) if is_watching and event == "glob.glob" else None)
    assert cli.call("select", [f"--model={span_run}/run", f"--data={unrated}", f"--out={tmp_path}/parts.csv"]) == 0
    is_watching = False
    assert listed.count(unrated) == 1


@pytest.mark.parametrize("has_cells", [True, False])
def test_the_printed_command_makes_records_of_a_table_with_labels(
    has_cells: bool, span_run: pathlib.Path, unrated: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, data = tmp_path / "parts.csv", unrated
    if not has_cells:  # new films
        films = "".join(f"v{number}\n" for number in range(TRAINED, FILMS))
        (tmp_path / "films.csv").write_text(f"video\n{films}")
        words = [f"--table={tmp_path}/films.csv", f"--array={span_run}", "--columns=labels="]
        words += [f"--vocabulary={span_run}/data/vocabulary.csv", f"--out={tmp_path}/films", "--splits=new:1"]
        assert cli.call("make-records", [*words, "--level=frame"]) == 0
        data = f"{tmp_path}/films/frame/new/*.tfrecord"
    words = [f"--model={span_run}/run", f"--data={data}", "--count=6", f"--out={parts}"]
    assert cli.call("select", words) == 0
    *_, text, command = capsys.readouterr().out.splitlines()
    assert text.startswith("Write the classes of each part into a column label, or (none) if it shows none;")
    with parts.open() as file:
        rows = list(csv.DictReader(file))
    shown = ["weld", "(none)", "cut", "weld;bend", "(none)", "weld"]
    with parts.open("w", newline="") as file:
        table = csv.DictWriter(file, [*rows[0], "label"])
        table.writeheader()
        table.writerows({**row, "label": label} for row, label in zip(rows, shown, strict=True))
    command = command.replace("FOLDER_OF_ARRAYS", str(span_run)).replace("=FOLDER", f"={tmp_path}/out")
    _, name, *flags = shlex.split(command)
    assert name == ("relabel" if has_cells else "make-records")
    assert cli.call(name, flags) == 0
    splits = json.loads((tmp_path / "out" / "frame" / "summary.json").read_text())["splits"].values()
    counts = [split.get("spans", {}) for split in splits]
    assert sum(each.get("positive cells", 0) for each in counts) == 5
    assert sum(each.get("annotated cells", 0) for each in counts) == 6
