"""Films, which are longer than the videos of the training: their tags are those of their scenes."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

import made_videos
import numpy as np
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.records import manifest, span_rules
from yt8m.records.span_rules import SpanRule

# The quick tests of windows and of their tags are those of records, and test_video_predictions.py has a long video.
pytestmark = [pytest.mark.long, pytest.mark.heavy]

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "white": (230, 230, 230)}
NAMES = tuple(COLOURS)
FPS = 4


def scenes(kinds: Sequence[str], seconds: Sequence[float], seed: int) -> made_videos.Picture:
    """Scenes, each of a noisy colour, one after another."""
    ends = np.cumsum(seconds)

    def picture(second: float) -> np.ndarray:
        kind = kinds[min(int(np.searchsorted(ends, second, "right")), len(kinds) - 1)]
        noise = np.random.default_rng([seed, round(second * FPS)]).integers(-25, 26, (24, 32, 3))
        return np.clip(np.array(COLOURS[kind]) + noise, 0, 255).astype(np.uint8)

    return picture


class World:
    """Clips of three to five seconds, a run that knows them, and films of two to five scenes."""

    def __init__(self, folder: pathlib.Path, clips: int, films: int) -> None:
        self.folder, draw = folder, np.random.default_rng(7)
        for number in range(clips):
            kind = NAMES[number % 4]
            (folder / "clips" / kind).mkdir(parents=True, exist_ok=True)
            seconds = float(draw.integers(3, 6))
            path = folder / "clips" / kind / f"{number}.mp4"
            made_videos.write(path, scenes([kind], [seconds], number), None, seconds, fps=FPS)
        (folder / "films").mkdir()
        self.films: dict[str, set[str]] = {}
        for number in range(films):
            kinds = draw.choice(NAMES, int(draw.integers(2, 6))).tolist()
            lengths = draw.integers(5, 12, len(kinds)).astype(float)
            path = folder / "films" / f"{number}.mp4"
            made_videos.write(path, scenes(kinds, lengths, 1000 + number), None, float(lengths.sum()), fps=FPS)
            self.films[str(path)] = set(kinds)
        self.data, self.run = folder / "data", folder / "run"
        words = [f"--videos={folder / 'clips'}", "--labels=folder", f"--out={self.data}", "--splits=train:0.6,test:0.4"]
        assert cli.call("extract", [*words, "--extractors=own_extractors:Thumbnails", "--level=video", "--jobs=1"]) == 0
        yt8m.fit(
            train_data_pattern=f"{self.data}/video/train/*.tfrecord",
            train_dir=str(self.run), model="LogisticModel", batch_size=16, num_epochs=120, base_learning_rate=0.1,
        )  # fmt: skip
        words = [f"--train_dir={self.run}", f"--eval_data_pattern={self.data}/video/test/*.tfrecord", "--run_once"]
        assert cli.call("eval", [*words, "--report"]) == 0

    def tags(self, paths: Sequence[str], *words: str) -> dict[str, set[str]]:
        """{path: names of the tags} that `yt8m predict --tags` gives."""
        out = self.folder / "tags.csv"
        assert cli.call("predict", [f"--model={self.run}", *paths, "--tags", f"--out={out}", *words]) == 0
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return {path: {row["name"] for row in rows if row["path"] == path} for path in paths}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("films"), clips=40, films=4)


@pytest.fixture(scope="module")
def large_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("large"), clips=60, films=16)


def precision_and_recall(found: dict[str, set[str]], planted: dict[str, set[str]]) -> tuple[float, float]:
    right = sum(len(found[path] & planted[path]) for path in planted)
    return right / max(1, sum(map(len, found.values()))), right / sum(map(len, planted.values()))


def test_the_manifest_and_the_run_know_the_lengths_of_the_training_videos(world: World) -> None:
    found = {split: manifest.read(str(world.data / "video" / split / "manifest.json")) for split in ("train", "test")}
    lengths = found["train"].data.video_frames if found["train"].data else None
    assert lengths is not None
    assert 3 <= lengths[0] <= lengths[1] == 5
    assert found["test"].data is not None
    assert found["test"].data.video_frames == lengths  # those of the training
    config = json.loads((world.run / "config.json").read_text())
    assert config["config"]["data"]["video_frames"] == list(lengths)


def test_films_are_tagged_as_well_as_clips(large_world: World) -> None:
    clips = {str(path): {path.parent.name} for path in large_world.folder.glob("clips/*/*.mp4")}
    of_clips = precision_and_recall(large_world.tags(sorted(clips)), clips)
    of_films = precision_and_recall(large_world.tags(list(large_world.films)), large_world.films)
    assert of_films[0] >= 0.95 * of_clips[0]
    assert of_films[1] >= 0.95 * of_clips[1]
    of_means = precision_and_recall(large_world.tags(list(large_world.films), "--tags_of=whole"), large_world.films)
    assert of_means[1] < 0.8 * of_films[1]  # what the mean of all features gives


def test_the_line_says_how_a_video_was_scored(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    film, clip = next(iter(world.films)), str(next(world.folder.glob("clips/*/*.mp4")))
    for words, film_way in (((), "in windows of 4 seconds"), (("--tags_of=whole",), "as a whole")):
        assert cli.call("predict", [f"--model={world.run}", film, clip, *words]) == 0
        told = capsys.readouterr().out
        (line,) = (line for line in told.splitlines() if line.startswith(film))
        assert line.endswith(f"seconds scored {film_way}; no sound")
        (line,) = (line for line in told.splitlines() if line.startswith(clip))
        assert line.endswith("seconds scored; no sound")


def test_python_gives_the_same_tags(world: World) -> None:
    film = next(path for path, kinds in world.films.items() if len(kinds) > 1)
    with yt8m.load(world.run) as model:
        found = model.predict_video(film)
        assert found.window_seconds == 4.0
        assert found.tags is not None
        assert {one.name for one in found.tags} == world.films[film]
        assert {one.name for one in found.classes[: len(found.tags)]} == world.films[film]
        assert model.predict_video(film, tags_of="whole").window_seconds == 0.0
    (export,) = (world.run / "export").iterdir()
    with yt8m.load(export) as model:
        exported = model.predict_video(film)
    assert [one.name for one in exported.classes] == [one.name for one in found.classes]
    assert exported.window_seconds == 4.0


def test_the_timeline_marks_scores_that_reach_their_threshold(
    world: World, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    film = made_videos.write(tmp_path / "film.mp4", scenes(["blue", "green"], [10.0, 10.0], 3), None, 20.0, fps=FPS)
    assert cli.call("predict", [f"--model={world.run}", film, "--timeline"]) == 0
    (page,) = tmp_path.glob("*.timeline.html")
    text = page.read_text()
    rows = text.partition("<tbody>")[2].split("<tr>")[2:]
    marked = {name for row in rows for name in NAMES if f">{name}<" in row and "chosen" in row}
    assert marked == {"blue", "green"}
    assert sum(row.count("chosen") for row in rows) == 4  # each of the four parts of five seconds shows one class
    assert "Marked scores reach the threshold" in text


def test_the_timeline_marks_parts_by_thresholds_for_parts(
    world: World, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(world.run, "run")
    film = made_videos.write(tmp_path / "film.mp4", scenes(["blue", "green"], [10.0, 10.0], 3), None, 20.0, fps=FPS)
    for size, flags, marked in ((5, [], 0), (4, [], 4), (5, [f"--thresholds={world.run}/eval/thresholds.csv"], 4)):
        rule = SpanRule(0, size, 0, 1.0, {"hysteresis": 0.7, "gap": 0, "least": 1}, [2.0] * len(NAMES))
        pathlib.Path("run/eval/spans.json").write_text(span_rules.text_of(rule, {}))
        assert cli.call("predict", ["--model=run", film, "--timeline", *flags]) == 0
        text = next(tmp_path.glob("*.timeline.html")).read_text()
        assert text.partition("<tbody>")[2].count("chosen") == marked


def test_a_threshold_that_comes_from_few_videos_says_so(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the 40 videos, about four of each class are in the split with which the thresholds were chosen."""
    film = next(iter(world.films))
    assert cli.call("predict", [f"--model={world.run}", film, "--tags"]) == 0
    told = capsys.readouterr().out
    assert "its threshold comes from" in told
    with (world.run / "eval" / "thresholds.csv").open(newline="") as file:
        positives = {row["name"]: int(row["positives"]) for row in csv.DictReader(file)}
    for line in told.splitlines()[1:]:
        name = line.split()[1]
        assert f"its threshold comes from {positives[name]} videos" in line
    with yt8m.load(world.run) as model:
        found = model.predict_video(film).tags
    assert found is not None
    assert [one.few_positives for one in found] == [positives[one.name] for one in found]


def test_thresholds_are_chosen_on_films_where_films_are_evaluated(
    large_world: World, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Frames of clips for the training, and of films with all labels of their scenes for the evaluation.

    `predict` scores the records of films in windows too, with and without --tags, and says so.
    """
    usual = ["--extractors=own_extractors:Thumbnails", "--level=frame", "--jobs=1", "--shards=1"]
    words = [
        f"--videos={large_world.folder}/clips",
        "--labels=folder",
        f"--out={tmp_path / 'clips'}",
        "--splits=train:1",
    ]
    assert cli.call("extract", [*words, *usual]) == 0
    with (tmp_path / "films.csv").open("w", newline="") as file:
        rows = [(path, ";".join(sorted(kinds))) for path, kinds in large_world.films.items()]
        csv.writer(file).writerows([("path", "labels"), *rows])
    words = [f"--videos={tmp_path / 'films.csv'}", f"--out={tmp_path / 'films'}", "--splits=test:1"]
    assert cli.call("extract", [*words, *usual, f"--vocabulary={tmp_path / 'clips' / 'vocabulary.csv'}"]) == 0
    yt8m.fit(
        train_data_pattern=f"{tmp_path}/clips/frame/train/*.tfrecord",
        train_dir=str(tmp_path / "run"), model="FrameLevelLogisticModel", batch_size=16, num_epochs=60,
        base_learning_rate=0.1, export_model_steps=0,
    )  # fmt: skip
    words = [f"--train_dir={tmp_path / 'run'}", f"--eval_data_pattern={tmp_path}/films/frame/test/*.tfrecord"]
    caplog.clear()
    with caplog.at_level("INFO"):
        assert cli.call("eval", [*words, "--run_once", "--report"]) == 0
    assert caplog.text.count("the model is FrameLevelLogisticModel") == 1
    assert re.search(r"\b16 films, .*windows of 4 frames.*\b0 other videos", caplog.text)
    with (tmp_path / "run" / "eval" / "thresholds.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert all(float(row["f1"]) >= 0.95 for row in written)
    videos = {}
    for flags in (["--tags"], ["--top_k=4"], ["--top_k=4", "--tags_of=whole"]):
        capsys.readouterr()
        assert cli.call("predict", [words[0], words[1].partition("=")[2], "--count=16", "--json", *flags]) == 0
        said = capsys.readouterr()
        assert said.err.count("(scored in windows of 4 frames)") == (0 if "--tags_of=whole" in flags else 16)
        videos[flags[-1]] = json.loads(said.out)
    for tagged, scored, whole in zip(*videos.values(), strict=True):
        assert {tag["name"] for tag in tagged["classes"]} == set(tagged["labels"])
        assert tagged["window_frames"] == scored["window_frames"] == 4
        assert {c["name"]: c["score"] for c in tagged["classes"]}.items() <= {
            c["name"]: c["score"] for c in scored["classes"]
        }.items()
        assert "window_frames" not in whole
        assert whole["classes"] != scored["classes"]


_PROGRAM = """\
import re, sys
from yt8m.command_line import cli
assert cli.call("predict", sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def test_three_hours_take_no_more_memory_than_ten_minutes(world: World, tmp_path: pathlib.Path) -> None:
    megabytes = []
    for seconds in (600, 3 * 3600):
        kinds = (NAMES * (seconds // 600))[: seconds // 300]
        film = made_videos.write(
            tmp_path / f"{seconds}.mp4", scenes(kinds, [300.0] * len(kinds), 5), None, float(seconds), fps=1
        )
        root = pathlib.Path(__file__).resolve().parents[2]
        environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'tests/support'}"}
        words = [f"--model={world.run}", film, "--tags", "--trust_code"]
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "in windows of 4 seconds" in done.stdout
        assert {name for name in NAMES if f"  {name}  " in done.stdout} == set(kinds)
        megabytes.append(int(done.stdout.splitlines()[-1]) / 1024)
    assert megabytes[1] < megabytes[0] + 60
