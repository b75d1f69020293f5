"""`yt8m predict` for a file of arrays gives what the model gives for the same arrays in Python."""

from __future__ import annotations

import csv
import json
import pathlib

import cases
import numpy as np
import pytest
from reader_records import video_record, write_shard

import yt8m
from yt8m import train
from yt8m.command_line import cli

CLASSES, SIZE, VIDEOS = 4, 6, 300  # more videos than are scored at once


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of a model with one feature, and arrays of new videos."""
    folder = tmp_path_factory.mktemp("arrays")
    values = np.random.default_rng(1).normal(size=(VIDEOS, SIZE)).astype("f4")
    records = [video_record(id=[b"v"], labels=[row % CLASSES], mine=values[row]) for row in range(8)]
    write_shard(folder / "a.tfrecord", records)
    words = [f"--train_data_pattern={folder}/*.tfrecord", f"--train_dir={folder}/run", "--max_steps=2"]
    data = ["--feature_names=mine", f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}", "--batch_size=4"]
    assert train.main([*words, *data, "--export_model_steps=none", "--model=LogisticModel"]) == 0
    np.save(folder / "x.npy", values)
    np.savez(folder / "named.npz", id=[f"clip{row}" for row in range(VIDEOS)], mine=values)
    np.savez(folder / "other.npz", a=values, b=values)
    np.savez(folder / "short.npz", id=["a"], mine=values)
    np.save(folder / "nan.npy", np.where(np.arange(SIZE) == 2, np.nan, values))
    np.save(folder / "wide.npy", np.zeros((2, 9)))
    (folder / "text.npy").write_text("id,labels\na,b\n")
    return folder


@pytest.mark.parametrize(("file", "name"), cases.all_of([("named.npz", "clip")], heavy=[("x.npy", "")]))
def test_all_scores_are_written(
    world: pathlib.Path, file: str, name: str, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    words = ["predict", f"--model={world}/run", f"{world}/{file}", "--top_k=2"]
    assert cli.main([*words, f"--out={tmp_path}/scores.csv"]) == 0
    with (tmp_path / "scores.csv").open() as table:
        rows = list(csv.DictReader(table))
    with yt8m.load(world / "run") as model:
        videos = list(model.predict(np.load(world / "x.npy"), top_k=2))
    expected = [(name + video.id, one.index, one.name) for video in videos for one in video.classes]
    assert [(row["id"], int(row["index"]), row["name"]) for row in rows] == expected
    scores = [one.score for video in videos for one in video.classes]
    np.testing.assert_allclose([float(row["score"]) for row in rows], scores, atol=1e-5)
    capsys.readouterr()
    assert cli.main([*words, "--json", f"--video_id={name}299"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["id"], [one["index"] for one in shown["classes"]]) == (
        f"{name}299",
        [one.index for one in videos[299].classes],
    )
    assert cli.main([*words, "--count=3"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith(name or "2")] != []


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (["other.npz"], 2, "other.npz holds a [300, 6], b [300, 6]; the model takes mine"),
        (["short.npz"], 2, "there are 300 videos, but its ids are [1]"),
        (["nan.npy"], 2, "mine of video 0 (row 0) holds NaN"),
        (["wide.npy"], 2, "this batch has mine [2, 9]"),
        (["text.npy"], 1, "text.npy is not a .npy or .npz file of numbers: it is a text file"),
        (["x.npy", "a.tfrecord"], 2, "name one such file"),
        (["x.npy", "--timeline"], 2, "--timeline is for video files; these are arrays."),
        (["x.npy", "--spans=s.csv"], 2, "takes whole videos, and arrays of these have no times"),
        (["x.npy", "--video_id=999"], 1, "there is no video '999'"),
    ],
)
def test_what_does_not_fit_is_refused(
    world: pathlib.Path, words: list[str], status: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word if word.startswith("--") else f"{world}/{word}" for word in words]
    assert cli.main(["predict", f"--model={world}/run", *words]) == status
    assert problem in capsys.readouterr().err
