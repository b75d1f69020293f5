"""A run with --cache learns the very weights of one without, stopped and resumed too."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy as np
import pytest
from reader_records import frame_record, write_shard
from small_run import losses, run, weights

from yt8m import eval as evaluation
from yt8m import inference


@pytest.mark.heavy
def test_weights_are_those_of_a_run_without_it(tmp_path: pathlib.Path) -> None:
    cache = f"--cache={tmp_path / 'cache'}"
    assert run(tmp_path / "plain") == 0
    assert run(tmp_path / "cached", "--max_steps=7", cache) == 0
    assert run(tmp_path / "cached", cache) == 0  # the second life reads what the first has kept
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert losses(tmp_path / "cached") == losses(tmp_path / "plain")
    expected, found = weights(tmp_path / "plain", 12), weights(tmp_path / "cached", 12)
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.heavy
def test_a_run_may_take_one_up_or_leave_it(tmp_path: pathlib.Path) -> None:
    """By shards the position is the same; what waited to be shuffled is no position for the other kind."""
    folder = tmp_path / "run"
    assert run(folder, "--max_steps=3") == 0
    assert run(folder, "--max_steps=6", f"--cache={tmp_path / 'cache'}") == 0
    assert run(folder, "--max_steps=9") == 0
    assert sorted(losses(folder)) == list(range(1, 10))


FRAMES = ["--frame_features", "--feature_names=rgb,audio", "--feature_sizes=3,2", "--num_classes=10", "--max_frames=20"]


def frame_shards(folder: pathlib.Path) -> str:
    """Two shards of frames with ratings; in the first, the last record is damaged."""
    rng = np.random.default_rng(4)
    for name, count in (("a", 5), ("b", 6)):
        records = []
        for row in range(count):
            context = {"id": [b"%s%d" % (name.encode(), row)], "labels": [row % 4, 9]}
            ratings = ("segment_start_times", [0, 5]), ("segment_labels", [row, 2]), ("segment_scores", [1.0, 0.0])
            length = 7 + 3 * row
            frames = {key: rng.integers(0, 256, (length, size)).astype(np.uint8) for key, size in SIZES.items()}
            records.append(frame_record({**context, **dict(ratings)}, frames))
        write_shard(folder / f"{name}.tfrecord", records)
    whole = (folder / "a.tfrecord").read_bytes()
    (folder / "a.tfrecord").write_bytes(whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
    return f"{folder}/*.tfrecord"


SIZES = {"rgb": 3, "audio": 2}


def bad_records(folder: pathlib.Path, mode: str) -> set[tuple[str, int]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    bad = [line["bad_record"] for line in lines if line.get("mode") == mode and "bad_record" in line]
    return {(record["shard"], record["record"]) for record in bad}


def losses_of(folder: pathlib.Path) -> list[float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


def train_frames(
    folder: pathlib.Path, pattern: str, steps: int, *more: str, model: str = "FrameLevelLogisticModel"
) -> None:
    words = [f"--train_data_pattern={pattern}", f"--model={model}", "--batch_size=4", *more]
    assert run(folder, *words, *FRAMES, f"--max_steps={steps}") == 0


def score_frames(folder: pathlib.Path, pattern: str, *more: str) -> None:
    """Evaluates and predicts videos, then segments."""
    passes = [f"--train_dir={folder}", "--batch_size=4", *more]
    assert evaluation.main([*passes, f"--eval_data_pattern={pattern}", "--run_once"]) == 0
    (folder / "eval/report.json").rename(folder / "videos.json")
    assert evaluation.main([*passes, f"--eval_data_pattern={pattern}", "--run_once", "--segment_labels"]) == 0
    shown = [*passes, f"--input_data_pattern={pattern}"]
    assert inference.main([*shown, f"--output_file={folder / 'videos.csv'}"]) == 0
    classes = folder.parent / "classes.csv"
    classes.write_text("Index\n2\n5\n")
    words = [f"--output_file={folder / 'segments.csv'}", "--segment_labels", f"--segment_label_ids_file={classes}"]
    assert inference.main([*shown, *words]) == 0


@pytest.mark.heavy
def test_a_training_reads_frames_from_one(tmp_path: pathlib.Path) -> None:
    """With a bad record that is tolerated, it learns what it learns without."""
    pattern = frame_shards(tmp_path)
    for name, more in (("plain", ()), ("cached", (f"--cache={tmp_path / 'cache'}",))):
        train_frames(tmp_path / name, pattern, 4, "--max_bad_records=1", *more)
    assert losses_of(tmp_path / "cached") == losses_of(tmp_path / "plain")
    assert bad_records(tmp_path / "cached", "train") == {(f"{tmp_path}/a.tfrecord", 4)}
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("I11")
def test_rated_segments_are_learned_and_validated_alike(tmp_path: pathlib.Path) -> None:
    """Both read the files of one cache, which only the first run fills."""
    pattern = frame_shards(tmp_path)
    for name, more in (("plain", ()), *((name, (f"--cache={tmp_path / 'cache'}",)) for name in ("filled", "read"))):
        rated = ["--segment_labels", f"--eval_data_pattern={pattern}", "--eval_every_n_steps=2", "--max_bad_records=1"]
        train_frames(tmp_path / name, pattern, 4, *rated, *more)
        assert losses_of(tmp_path / name) == losses_of(tmp_path / "plain")
    assert len(losses_of(tmp_path / "plain")) == 4 + 2
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("I11")
def test_frames_are_drawn_alike_in_a_run_that_is_resumed_exactly(tmp_path: pathlib.Path) -> None:
    """DbofModel draws frames in the graph. The second life begins within an epoch, with an empty cache."""
    pattern = frame_shards(tmp_path)
    for name, more in (("plain", ()), ("cached", (f"--cache={tmp_path / 'cache'}",))):
        options = ["--dbof_cluster_size=8", "--dbof_hidden_size=8", "--iterations=5"]
        options += ["--exact_resume", "--max_bad_records=1", *more]
        train_frames(tmp_path / name, pattern, 3, *options, model="DbofModel")
        if more:
            shutil.rmtree(tmp_path / "cache")
        train_frames(tmp_path / name, pattern, 6, *options, model="DbofModel")
    assert losses_of(tmp_path / "cached") == losses_of(tmp_path / "plain")
    expected, found = weights(tmp_path / "plain", 6), weights(tmp_path / "cached", 6)
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("I11")
def test_every_program_reads_frames_from_one(tmp_path: pathlib.Path) -> None:
    """What they write is what they write without it, with a bad record that is tolerated too."""
    pattern = frame_shards(tmp_path)
    for name in ("plain", "cached"):
        more = ["--max_bad_records=1", *([f"--cache={tmp_path / 'cache'}"] if name == "cached" else [])]
        for steps in (3, 6):
            train_frames(tmp_path / name, pattern, steps, *more)
        score_frames(tmp_path / name, pattern, *more)
    plain, cached = tmp_path / "plain", tmp_path / "cached"
    for name in ("videos.json", "eval/report.json", "videos.csv", "segments.csv"):
        assert (cached / name).read_text().replace("/cached/", "/plain/") == (plain / name).read_text()
    assert losses_of(cached) == losses_of(plain)
    for mode in ("train", "eval", "infer"):
        assert bad_records(cached, mode) == bad_records(plain, mode) == {(f"{tmp_path}/a.tfrecord", 4)}
    assert len(list((tmp_path / "cache").iterdir())) == 6  # videos, rated segments, and all segments
