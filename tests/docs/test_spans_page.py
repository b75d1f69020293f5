"""The page on spans: its commands, one after the other, from a table of spans to pre-annotations."""

from __future__ import annotations

import contextlib
import csv
import json
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
from docs.command_blocks import ROOT

from benchmarks.spans import figure
from docs import command_blocks

PAGE = ROOT / "docs" / "users" / "spans.md"
pytestmark = [pytest.mark.long, pytest.mark.heavy]
CLASSES = ("welding", "grinding")
Row = tuple[str, str, float, float]
ANSWERED = ("line 3", "welding", 2.0, 9.0)  # what somebody has seen in a whole film, in place of what the table says


def write_films(videos: int = 40) -> list[Row]:
    """Writes the table of the page, spans.csv, and the features of its films; returns (video, class, start, end)."""
    draw, spans = np.random.default_rng(0), list[Row]()
    pathlib.Path("features").mkdir()
    with pathlib.Path("spans.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("video", "path", "label", "start", "end"))
        for number in range(videos):
            frames = draw.normal(size=(60, 8))
            rows: list[tuple[object, ...]] = []
            for index, name in enumerate(CLASSES):
                start = int(draw.integers(0, 30))
                end = start + int(draw.integers(5, 25))
                frames[start:end, index] += 5
                spans.append((f"line {number}", name, float(start), float(end)))
                rows.append((name, start, f"0:{end:02}"))
            np.save(f"features/line_{number}.npy", frames.astype(np.float32))
            for row in rows:
                writer.writerow((f"line {number}", f"features/line_{number}.npy", *row))
    return spans


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Row]]:
    """The planted spans; the working directory has what all commands of the page made."""
    with contextlib.chdir(tmp_path_factory.mktemp("spans_page")):
        planted = write_films()
        for block in command_blocks.blocks(PAGE):
            if block.language == "console" and "films/" not in block.text:
                if "audit/decisions.csv" in block.text:
                    decide(pathlib.Path("audit/decisions.csv"))
                if "--labels=export.json" in block.text:
                    answer(pathlib.Path("export.json"), *ANSWERED)
                command_blocks.run(block.text.replace("--train_dir=run\n", "--train_dir=run --budget=8\n"))
        yield planted


def decide(path: pathlib.Path) -> None:
    """Confirms each suspected label of an audit, as people do on its page."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows({**row, "decision": "yes"} for row in rows)


def answer(path: pathlib.Path, video: str, name: str, start: float, end: float) -> None:
    """Writes an export of a film in which somebody has marked one span, at 25 frames a second."""
    value = {"ranges": [{"start": round(25 * start) + 1, "end": round(25 * end)}], "timelinelabels": [name]}
    result = {"from_name": "timeline", "to_name": "video", "type": "timelinelabels", "value": value}
    task = {"data": {"id": video, "video": f"{video}.mp4"}, "annotations": [{"completed_by": 1, "result": [result]}]}
    path.write_text(json.dumps([task]))


def rows_of(path: str) -> list[dict[str, str]]:
    with pathlib.Path(path).open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["class"]]


def spans_of(path: str) -> list[Row]:
    return sorted((row["video"], row["class"], float(row["start"]), float(row["end"])) for row in rows_of(path))


def test_what_people_have_marked_comes_out_of_the_records(spans: list[Row]) -> None:
    assert spans_of("marked.csv") == sorted(spans)


def test_an_answer_takes_the_place_of_the_spans_of_its_film(spans: list[Row]) -> None:
    command_blocks.run("yt8m inspect --spans=answered.csv 'answered/frame/*/*.tfrecord'")
    others = [span for span in spans if span[0] != ANSWERED[0]]
    assert spans_of("answered.csv") == sorted([*others, ANSWERED])


def test_the_planted_spans_are_found(spans: list[Row]) -> None:
    found = rows_of("found.csv")
    videos = sorted({row["video"] for row in found})
    assert videos
    numbers = {name: number for number, name in enumerate(CLASSES)}
    true = [(videos.index(v), numbers[name], start, end, 0.0) for v, name, start, end in spans if v in videos]
    predicted = [
        (videos.index(row["video"]), numbers[row["class"]], *(float(row[name]) for name in ("start", "end", "score")))
        for row in found
    ]
    assert figure(true, predicted) > 0.7
    assert json.loads(pathlib.Path("run/eval/spans.json").read_text())["figures"]["mAP@0.5"][0] > 0.7


def test_pre_annotations_have_the_frames_of_the_table(spans: list[Row]) -> None:
    tasks = json.loads(pathlib.Path("found.json").read_text())
    frames = sorted(
        (task["data"]["video"], *result["value"]["timelinelabels"], part["start"], part["end"])
        for task in tasks
        for result in task["predictions"][0]["result"]
        for part in result["value"]["ranges"]
    )
    table = [(row["video"], row["class"], float(row["start"]), float(row["end"])) for row in rows_of("found.csv")]
    assert frames == sorted((v, name, round(25 * start) + 1, round(25 * end)) for v, name, start, end in table)
