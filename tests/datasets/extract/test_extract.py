"""From video files to records: tables, both levels, bad videos, and starts after a kill."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import cases
import made_videos
import numpy as np
import own_extractors
import pytest
from terminal import on_a_terminal

import yt8m
from yt8m import storage, terminal
from yt8m.command_line import cli
from yt8m.datasets.extract import computing
from yt8m.datasets.extract.shard_extraction import Journal
from yt8m.datasets.make_records import output
from yt8m.errors import RunError, UsageError
from yt8m.extractors.base import Sound
from yt8m.extractors.decoding import Request, decode
from yt8m.records import manifest, shards, vocabulary
from yt8m.storage import copies, pipes

BOTH = "--extractors=own_extractors:Colours,own_extractors:Bands"
ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Twelve videos in a folder for each kind. Every fourth is larger, so that batches have two shapes."""
    folder = tmp_path_factory.mktemp("clips")
    made_videos.write_kinds(folder, 12)
    return folder


def run(clips: pathlib.Path, out: pathlib.Path | str, *words: str, jobs: int = 2) -> int:
    usual = [f"--videos={clips}", "--labels=folder", f"--out={out}", BOTH, "--shards=2", f"--jobs={jobs}"]
    return cli.call("extract", [*usual, *words])


def records(pattern: str) -> dict[str, Any]:
    """{id: record} of the shards that match the pattern."""
    return {
        one.id().decode(): one for path in storage.glob(pattern) for one in map(shards.parse, shards.read_shard(path))
    }


def frames(record: Any, name: str) -> np.ndarray:
    return np.array([list(one.values()) for one in record.lists[name]], np.float32)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".progress" not in path.name
    }


@pytest.fixture(scope="module")
def data(clips: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The records of `clips`, written without interruption."""
    out = tmp_path_factory.mktemp("data")
    assert run(clips, out) == 0
    return out


@pytest.mark.heavy
def test_records_hold_the_features_of_each_video_by_itself(clips: pathlib.Path, data: pathlib.Path) -> None:
    found = records(f"{data}/frame/*/*.tfrecord")
    assert sorted(found) == sorted(str(path.relative_to(clips)) for path in clips.rglob("*.mp4"))
    names = vocabulary.read(str(data / "vocabulary.csv"))
    for name, record in found.items():
        sound = Sound(8000, 4000, 8000)
        messages = list(decode(Request(str(clips / name), pictures=(None,), sounds=(sound,))))
        pictures = np.stack([one.values for one in messages if one.kind == "picture" and one.values is not None])
        windows = np.concatenate([one.values for one in messages if one.kind == "sound" and one.values is not None])
        expected = own_extractors.compute(own_extractors.Colours(), pictures)
        np.testing.assert_allclose(frames(record, "colours"), expected, rtol=1e-5, atol=1e-6)
        bands = own_extractors.compute(own_extractors.Bands(), windows)
        last = np.minimum(np.arange(len(pictures)), len(bands) - 1)
        np.testing.assert_allclose(frames(record, "bands"), bands[last], rtol=1e-4, atol=1e-5)
        assert [names.name(int(label)) for label in record.context["labels"].values()] == [name.split("/")[0]]


def test_video_records_are_the_means_of_frame_records(data: pathlib.Path) -> None:
    of_frames, of_videos = (records(f"{data}/{level}/*/*.tfrecord") for level in ("frame", "video"))
    assert of_frames.keys() == of_videos.keys()
    for name, record in of_videos.items():
        assert list(record.context["labels"].values()) == list(of_frames[name].context["labels"].values())
        for feature in ("colours", "bands"):
            mean = frames(of_frames[name], feature).mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(list(record.context[f"mean_{feature}"].values()), mean, rtol=1e-6)
    for level in ("frame", "video"):
        for split in ("train", "validate", "test"):
            assert {*records(f"{data}/{level}/{split}/*.tfrecord")} == {*records(f"{data}/video/{split}/*.tfrecord")}


def test_manifest_and_summary_describe_the_records(data: pathlib.Path) -> None:
    found = manifest.read(str(data / "frame/train/manifest.json"))
    assert found.data is not None
    assert [str(one) for one in found.data.features] == ["colours of 6", "bands of 8"]
    assert (found.data.level, found.data.num_classes, found.data.max_frames) == ("frame", 3, 4)
    shared = {"range": None, "frames_per_second": 1.0, "max_frames": 300, "sampling": "whole-3", "weights": {}}
    assert found.extractors == (
        {"name": "own_extractors:Colours", "feature": "colours", "settings": {"scale": 1.0}, **shared},
        {"name": "own_extractors:Bands", "feature": "bands", "settings": {}, **shared},
    )
    for path, shard in found.shards.items():
        assert pathlib.Path(path).stat().st_size == shard.bytes
        assert len(list(shards.read_shard(path))) == shard.records
    summary = json.loads((data / "video/summary.json").read_text())
    assert sum(split["videos"] for split in summary["splits"].values()) == 12
    assert summary["rows left out"] == {}
    assert yt8m.read_records(f"{data}/frame/train/*.tfrecord").format.sizes() == {"colours": 6, "bands": 8}
    assert not (data / ".extract").exists()
    assert (data / "extract.jsonl").read_text() == ""


def test_a_second_start_does_nothing_and_other_flags_are_refused(
    clips: pathlib.Path, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(data)
    with pytest.raises(UsageError, match=r"another table.*--overwrite"):
        run(clips, data, "--frames_per_second=2")
    with pytest.raises(UsageError, match="another table"):
        run(clips, data, "--scale=2")
    monkeypatch.setattr(computing.Computer, "features", None)
    assert run(clips, data, jobs=1) == 0
    assert contents(data) == before


@pytest.mark.promise("O4")
def test_the_next_start_removes_the_journal_that_a_kill_left(
    clips: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "data"
    with monkeypatch.context() as killed:
        killed.setattr(Journal, "remove", lambda _: None)
        assert run(clips, out, jobs=1) == 0
    assert list((out / ".extract").glob("*.json"))
    journal = Journal(str(out), "inputs", [])
    (out / ".frame.making").mkdir()
    journal.remove()
    assert (out / ".extract").exists()  # because a level is not in its final folder yet
    (out / ".frame.making").rmdir()
    assert run(clips, out, jobs=1) == 0
    assert contents(out) == contents(data)


@pytest.mark.heavy
@pytest.mark.parametrize("videos", [4, 0, 1, 7, 11])
def test_the_bytes_after_an_interruption_are_those_of_an_unbroken_run(
    clips: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, videos: int
) -> None:
    compute, begun = computing.Computer.features, list[str]()

    def interrupted(self: Any, chosen: Sequence[Any], *more: Any) -> Any:
        for clip, found in zip(chosen, compute(self, chosen, *more), strict=True):
            if len(begun) == videos:
                raise KeyboardInterrupt
            begun.append(clip.path)
            yield found

    with monkeypatch.context() as patch:
        patch.setattr(computing.Computer, "features", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(clips, tmp_path)
    assert not (tmp_path / "frame").exists()
    finished = sum(1 for _ in (tmp_path / ".extract").glob("*")) if videos > 5 else 0
    again = list[str]()

    def counted(self: Any, chosen: Sequence[Any], *more: Any) -> Any:
        again.extend(clip.path for clip in chosen)
        return compute(self, chosen, *more)

    monkeypatch.setattr(computing.Computer, "features", counted)
    assert run(clips, tmp_path) == 0
    assert len(again) < 12 or not finished
    assert contents(tmp_path) == contents(data)


@pytest.mark.heavy
def test_records_in_a_bucket_are_the_same_after_an_interruption(
    bucket: str, clips: pathlib.Path, data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, add, finished = f"{bucket}/data", Journal.add, list[str]()

    def interrupted(self: Journal, shard: str, entry: Any) -> None:
        add(self, shard, entry)
        finished.append(shard)
        if len(finished) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(clips, out)
    assert not storage.exists(f"{out}/frame")
    assert run(clips, out) == 0
    assert len(finished) == len(set(finished)) == 3
    assert all(storage.read_bytes(f"{out}/{name}") == content for name, content in contents(data).items())


@pytest.mark.heavy
@pytest.mark.long
def test_the_bytes_after_a_kill_are_those_of_an_unbroken_run(
    clips: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    words = [sys.executable, "-m", "yt8m", "extract", f"--videos={clips}", "--labels=folder", f"--out={tmp_path}", BOTH]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{ROOT / 'tests/support'}"}
    with subprocess.Popen([*words, "--shards=2", "--jobs=2"], env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(tmp_path.glob(".extract/*.json")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert run(clips, tmp_path) == 0
    assert contents(tmp_path) == contents(data)


def test_learned_ranges_are_those_of_the_training_videos(
    clips: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    floats = {split: records(f"{data}/frame/{split}/*.tfrecord") for split in ("train", "validate", "test")}
    training = np.concatenate([frames(one, "colours") for one in floats["train"].values()])
    low, high = float(training.min()), float(training.max())
    finish = output.Output.finish

    def fails_at_the_second_level(self: Any, *more: Any, **named: Any) -> None:
        if self.final.endswith("video"):
            raise KeyboardInterrupt
        finish(self, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(output.Output, "finish", fails_at_the_second_level)
        with pytest.raises(KeyboardInterrupt):
            run(clips, tmp_path, "--ranges=learned,floats")
    assert (tmp_path / "frame").exists()
    with monkeypatch.context() as patch:
        patch.setattr(computing.Computer, "features", None)  # nothing is extracted again
        assert run(clips, tmp_path, "--ranges=learned,floats") == 0
    assert not (tmp_path / ".extract").exists()
    found = manifest.read(str(tmp_path / "frame/train/manifest.json"))
    assert found.data is not None
    assert [one.range for one in found.data.features] == [(low, high), None]
    assert [one["range"] for one in found.extractors] == [[low, high], None]
    assert manifest.read(str(tmp_path / "video/train/manifest.json")).extractors == found.extractors
    for split, videos in floats.items():
        coded, means = (records(f"{tmp_path}/{level}/{split}/*.tfrecord") for level in ("frame", "video"))
        assert coded.keys() == means.keys() == videos.keys()
        for name, record in videos.items():
            exact = np.clip(frames(record, "colours"), low, high)
            read = np.stack([one.numbers() for one in coded[name].lists["colours"]]) * ((high - low) / 255)
            read += low + (high - low) / 512  # the published way to read bytes
            np.testing.assert_allclose(read, exact, atol=0.51 * (high - low) / 255)
            np.testing.assert_array_equal(frames(coded[name], "bands"), frames(record, "bands"))
            mean = means[name].context["mean_colours"].numbers()
            np.testing.assert_allclose(mean, read.mean(axis=0), atol=1e-6)
            assert list(coded[name].context["labels"].values()) == list(record.context["labels"].values())


@pytest.mark.heavy
def test_videos_in_a_bucket_give_the_same_records(
    bucket: str, clips: pathlib.Path, data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    paths = sorted(str(path.relative_to(clips)) for path in clips.rglob("*.mp4"))
    for path in paths:
        with storage.write_atomic(f"{bucket}/clips/{path}") as file:
            file.write((clips / path).read_bytes())
    words = ["--labels=folder", BOTH, "--shards=2", "--jobs=2"]
    assert cli.call("extract", [f"--videos={bucket}/clips", f"--out={tmp_path / 'a'}", *words]) == 0
    assert contents(tmp_path / "a") == contents(data)
    rows = [(path, path if number % 2 else f"{bucket}/clips/{path}") for number, path in enumerate(paths)]
    with storage.write_atomic(f"{bucket}/clips/table.csv", "w") as file:
        file.write("id,path\n" + "".join(f"{one},{path}\n" for one, path in rows))
    assert cli.call("extract", [f"--videos={bucket}/clips/table.csv", f"--out={tmp_path / 'b'}", *words]) == 0
    assert contents(tmp_path / "b") == contents(data)
    assert not list(pathlib.Path(copies.workspace()).rglob("*.mp4"))
    gone = f"{bucket}/clips/gone.mp4"
    table = write_table(tmp_path / "c.csv", "path,labels", [[f"{bucket}/clips/{paths[0]}", "disc"], [gone, "disc"]])
    assert cli.call("extract", [f"--videos={table}", f"--out={tmp_path / 'c'}", BOTH, "--max_bad_videos=1"]) == 0
    (told,) = [json.loads(line) for line in (tmp_path / "c/extract.jsonl").read_text().splitlines()]
    assert (told["path"], told["state"]) == (gone, "left out")


@pytest.mark.heavy
def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(
    clips: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}:{ROOT / 'tests/support'}")
        usual = [f"--videos={clips}", "--labels=folder", BOTH, "--jobs=1"]
        shown = on_a_terminal([sys.executable, "-m", "yt8m", "extract", f"--out={tmp_path / 'a'}", *usual])
    assert re.search(r"extracting [━╸╺ ]+ 12/12 videos [\d.]+ s of video/s \d:\d\d:\d\d", shown), shown[-400:]
    monkeypatch.setattr(terminal, "LINE_SECONDS", -1.0)
    assert run(clips, tmp_path / "b") == 0
    line = re.compile(r"^(\d+) of 12 videos, [\d.]+ s of video/s, [\d.]+ minutes left$", re.MULTILINE)
    assert line.findall(capsys.readouterr().err) == [str(count) for count in range(1, 13)]


def write_table(path: pathlib.Path, header: str, rows: Sequence[Sequence[Any]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return str(path)


@pytest.mark.promise("X7")
def test_a_table_with_parts_labels_splits_and_bad_files(
    clips: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = made_videos.write(tmp_path / "long.mp4", made_videos.grey, made_videos.tone("disc"), 9.0)
    silent = made_videos.write(tmp_path / "silent.webm", made_videos.grey, None, 3.0)
    made_videos.write(tmp_path / "blind.mkv", None, made_videos.tone("disc"), 3.0)
    content = pathlib.Path(long).read_bytes()
    (tmp_path / "cut.mp4").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.mp4").write_bytes(b"")
    rows = [
        ("whole", "long.mp4", "grey;loud", "train", "", ""),
        ("part", "long.mp4", "grey", "train", "2", "5"),
        ("silent", silent, "grey", "train", "", ""),
        ("blind", "blind.mkv", "loud", "test", "", ""),
        ("cut", "cut.mp4", "grey", "train", "", ""),
        ("empty", "empty.mp4", "grey", "train", "", ""),
        ("missing", "missing.mp4", "grey", "train", "", ""),
    ]
    table = write_table(tmp_path / "clips.csv", "id,path,labels,split,start,end", rows)
    words = [f"--videos={table}", f"--out={tmp_path / 'data'}", BOTH, "--max_frames=6", "--ranges=-1:1,floats"]
    with pytest.raises(RunError, match=r"[123] of 7 videos are bad"):
        cli.call("extract", words)
    assert cli.call("extract", [*words, "--max_bad_videos=3"]) == 0
    told = capsys.readouterr().out
    assert "3 videos: left out" in told
    lines = {line["id"]: line for line in map(json.loads, (tmp_path / "data/extract.jsonl").read_text().splitlines())}
    assert lines["cut"]["reason"].startswith("it is cut: it has ")
    assert lines["empty"]["reason"] == "it is empty"
    assert "missing.mp4" in lines["missing"]["reason"]
    assert lines["silent"]["notes"] == ["no sound"]
    assert lines["blind"]["notes"] == ["no pictures"]
    assert lines["whole"]["notes"] == ["only the first 6 frames"]
    assert "part" not in lines
    found = records(f"{tmp_path}/data/frame/*/*.tfrecord")
    assert found.keys() == {"whole", "part", "silent", "blind"}
    seconds = {name: _bytes(record)[:, 0].astype(float) for name, record in found.items()}
    grey = 255 * (seconds["part"] * 2 / 255 + 1 / 256 - 1) / 8  # the brightness of a picture says its second
    np.testing.assert_allclose(grey, [2, 3, 4], atol=0.3)
    assert [len(seconds[name]) for name in ("whole", "silent", "blind")] == [6, 3, 3]
    assert (abs(_bytes(found["blind"]).astype(float) - 127.5) <= 1).all()  # no pictures: zeros, in the middle of -1..1
    assert not frames(found["silent"], "bands").any()
    names = vocabulary.read(str(tmp_path / "data/vocabulary.csv"))
    assert names.names == ("grey", "loud")
    summary = json.loads((tmp_path / "data/frame/summary.json").read_text())
    assert summary["rows left out"].keys() == {"5", "6", "7"}
    assert summary["videos cut to the limit of frames"] == 1


@pytest.mark.parametrize(("good", "bad", "is_refused"), cases.all_of([(10, 2, True)], heavy=[(9, 1, False)]))
def test_more_than_a_tenth_of_bad_videos_ends_the_command(
    tmp_path: pathlib.Path, good: int, bad: int, is_refused: bool
) -> None:
    made_videos.write(tmp_path / "clip.mp4", made_videos.grey, made_videos.tone("disc"), 1.0)
    paths = ["clip.mp4"] * good + ["missing.mp4"] * bad
    rows = [[f"v{number}", path, "grey"] for number, path in enumerate(paths)]
    table = write_table(tmp_path / "clips.csv", "id,path,labels", rows)
    words = [f"--videos={table}", f"--out={tmp_path / 'data'}", BOTH, "--jobs=1", "--shards=1"]
    if is_refused:
        with pytest.raises(RunError, match=r"2 of 12 videos are bad, .* 1 are allowed"):
            cli.call("extract", words)
    else:
        assert cli.call("extract", words) == 0


def _bytes(record: Any) -> np.ndarray:
    return np.array([np.frombuffer(next(iter(one.values())), np.uint8) for one in record.lists["colours"]])


def test_records_have_the_requested_frames_per_second(clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "a.mp4", made_videos.grey, made_videos.tone("disc"), 4.0)
    table = write_table(tmp_path / "clips.csv", "path,labels", [(path, "x")])
    words = [f"--videos={table}", f"--out={tmp_path / 'data'}", BOTH, "--frames_per_second=2", "--level=frame"]
    assert cli.call("extract", [*words, "--splits=train:1"]) == 0
    (record,) = records(f"{tmp_path}/data/frame/*/*.tfrecord").values()
    grey, bands = frames(record, "colours")[:, 0] * 255 / 8, frames(record, "bands")
    np.testing.assert_allclose(grey, np.arange(8) / 2, atol=0.3)
    np.testing.assert_array_equal(bands[0::2], bands[1::2])  # two frames lie in each window of sound
    assert not (tmp_path / "data/video").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--videos=nothing*.mp4"], "no video file matches"),
        (["--videos={clips}/*/*,nothing/x.webm"], "no video file matches 'nothing/x.webm'"),
        (["--videos=nothing.csv"], r"nothing\.csv: .*no such file"),
        (["--level=frames"], "video, or frame,video"),
        (["--ranges=1:2,floats,floats"], "has 3 ranges for 2 features"),
        (["--ranges=2:1"], r"not a range.*LOW:HIGH, such as -2:2, or learned, or floats"),
        (["--group_by=film"], r"pattern of files .*no columns"),
        (["--labels=column"], r"no video .*no classes"),
    ],
)
def test_wrong_flags_are_refused(clips: pathlib.Path, tmp_path: pathlib.Path, words: list[str], told: str) -> None:
    given = {"--videos": str(clips), "--labels": "folder", "--out": str(tmp_path / "data")}
    given |= dict(word.replace("{clips}", str(clips)).split("=", 1) for word in words)
    with pytest.raises(UsageError, match=told):
        cli.call("extract", [BOTH, *(f"{name}={value}" for name, value in given.items())])
    assert not (tmp_path / "data").exists()


def test_missing_labels_are_reported_before_weights_are_sought(clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Weights may have to be fetched."""
    words = [f"--videos={clips}", f"--out={tmp_path / 'data'}", "--extractors=onnx:missing.onnx"]
    with pytest.raises(UsageError, match="--labels=folder"):
        cli.call("extract", words)
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    with pytest.raises(UsageError, match=r"extractor onnx:missing\.onnx: .*no such file"):
        cli.call("extract", [*words, f"--vocabulary={tmp_path}/classes.txt"])


def test_a_wrong_setting_is_named_by_its_flag(clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = [f"--videos={clips}", f"--out={tmp_path / 'data'}", "--extractors=hf:owner/name"]
    for flag, problem in (("clip_rate=-1", "at least 0"), ("hf_dtype=int8", "one of float32, bfloat16, float16")):
        with pytest.raises(UsageError, match=f"^--{flag.split('=')[0]} must be {problem}"):
            cli.call("extract", [*words, f"--{flag}"])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("a", "x.mp4", "x", "3", "2"), r"row 1 \(line 2\): .*end, 2, .*start, 3"),
        (("a", "x.mp4", "x", "soon", ""), r"row 1 \(line 2\): the start is 'soon'; expected seconds from 0"),
        (("a", "", "x", "", ""), r"row 1 \(line 2\): the path is empty"),
        (("", "x.mp4", "x", "", ""), r"row 1 \(line 2\): the id is empty"),
    ],
)
def test_a_bad_row_ends_the_command(tmp_path: pathlib.Path, row: tuple[str, ...], told: str) -> None:
    table = write_table(tmp_path / "clips.csv", "id,path,labels,start,end", [row])
    with pytest.raises(RunError, match=told):
        cli.call("extract", [f"--videos={table}", f"--out={tmp_path / 'data'}", BOTH])


@pytest.mark.heavy
def test_a_corrected_video_is_extracted_and_the_finished_shards_are_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        made_videos.write(tmp_path / f"{name}.mp4", made_videos.grey, None, 2.0)
    sound = (tmp_path / "a.mp4").read_bytes()
    (tmp_path / "a.mp4").write_bytes(b"")
    rows = [(name, f"{name}.mp4", "grey", "train") for name in "abcd"]
    table = write_table(tmp_path / "clips.csv", "id,path,labels,split", rows)
    words = [f"--videos={table}", f"--out={tmp_path / 'data'}", "--extractors=own_extractors:Colours", "--shards=4"]
    words += ["--max_bad_videos=0"]
    extracted: list[str] = []
    original = computing.Computer.features

    def noting(self: computing.Computer, clips: Sequence[computing.Clip], *more: Any) -> Any:
        extracted.extend(pathlib.Path(clip.path).name for clip in clips)
        return original(self, clips, *more)

    monkeypatch.setattr(computing.Computer, "features", noting)
    with pytest.raises(RunError, match=r"\b1 of 4 videos.*\ba\.mp4: .*--max_bad_videos=N"):
        cli.call("extract", words)
    begun = list(extracted)
    (tmp_path / "a.mp4").write_bytes(sound)
    assert cli.call("extract", words) == 0
    assert sorted(extracted) == sorted([*begun, "a.mp4", *({"b.mp4", "c.mp4", "d.mp4"} - set(begun))])
    assert sorted(records(f"{tmp_path}/data/frame/train/*.tfrecord")) == list("abcd")
    (tmp_path / "b.mp4").write_bytes(sound + b" ")
    with pytest.raises(UsageError, match=r"other files.*--overwrite"):
        cli.call("extract", words)
    (tmp_path / "b.mp4").unlink()
    assert cli.call("extract", words) == 0


@pytest.mark.promise("X7")
def test_unusable_files_in_a_folder_are_left_out_and_skipped_ones_counted(
    clips: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "WRITER_SECONDS", 0.1)
    folder = tmp_path / "clips" / "disc"
    folder.mkdir(parents=True)
    for name in ("a.mp4", "b\nc.mp4", "still.gif", "raw.y4m", "other.gif", "notes.txt"):
        (folder / name).write_bytes((clips / "square" / "0.mp4").read_bytes())
    os.symlink("loop.mp4", folder / "loop.mp4")
    os.symlink("..", folder / "above")
    os.mkfifo(folder / "pipe.mp4")
    words = [f"--videos={tmp_path / 'clips'}", "--labels=folder", f"--out={tmp_path / 'data'}", BOTH, "--jobs=1"]
    with pytest.raises(RunError, match="of 4 videos are bad"):
        cli.call("extract", words)
    assert cli.call("extract", [*words, "--max_bad_videos=3"]) == 0
    assert "skipped files: 2 .gif, 1 .y4m; from a folder" in capsys.readouterr().out
    lines = map(json.loads, (tmp_path / "data/extract.jsonl").read_text().splitlines())
    reasons = {os.path.basename(line["path"]): line["reason"] for line in lines}
    assert reasons.keys() == {"b\nc.mp4", "loop.mp4", "pipe.mp4"}
    assert "line break" in reasons["b\nc.mp4"]
    assert "symbolic links" in reasons["loop.mp4"]
    assert "a pipe" in reasons["pipe.mp4"]
    assert records(f"{tmp_path}/data/video/*/*.tfrecord").keys() == {"disc/a.mp4"}
