"""Bytes whose manifest was lost are refused by every program with a model that learned from bytes of its own range."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
from reader_records import write_shard

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line.cli import main
from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.errors import UsageError
from yt8m.records import shards
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.opened_data import open_data
from yt8m.training.numpy_records import read_batches

RANGE = (-11.0, 9.0)


def make(folder: pathlib.Path, *more: str, level: str = "frame") -> pathlib.Path:
    """Records of frames as bytes of `RANGE`, in two splits; returns the folder of the level."""
    draw = np.random.default_rng(0)
    (folder / "f").mkdir(parents=True)
    rows = []
    for number in range(12):
        np.save(folder / f"f/{number}.npy", draw.normal(size=(3, 4)).astype("f4"))
        rows.append(f"v{number},c{number % 2},f/{number}.npy,{'train' if number < 6 else 'validate'}")
    (folder / "t.csv").write_text("\n".join(["id,labels,path,split", *rows]) + "\n")
    words = [f"--table={folder}/t.csv", f"--level={level}", "--shards=2", f"--out={folder}/made", *more]
    assert main(["make-records", *words]) == 0
    return folder / "made" / level


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make(tmp_path_factory.mktemp("learned"), "--bits=8", f"--ranges={RANGE[0]:g}:{RANGE[1]:g}")


@pytest.fixture(scope="module")
def run(learned: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("run")
    assert train.main(words_of_training(learned / "train", folder / "run")) == 0
    assert main(["export", f"--train_dir={folder}/run", f"--out={folder}/exported"]) == 0
    return folder


@pytest.fixture
def lost(learned: pathlib.Path, tmp_path: pathlib.Path) -> str:
    """A pattern of the same shards without their manifest."""
    (tmp_path / "lost").mkdir()
    for path in (learned / "validate").glob("*.tfrecord"):
        shutil.copy(path, tmp_path / "lost")
    return f"{tmp_path}/lost/*.tfrecord"


def words_of_training(folder: object, run: object, *more: str, steps: int = 1) -> list[str]:
    shape = ("--model=FrameLevelLogisticModel", "--batch_size=3", f"--max_steps={steps}")
    return [f"--train_data_pattern={folder}/*.tfrecord", f"--train_dir={run}", *shape, *more]


PROGRAMS: dict[str, Any] = {
    "eval": lambda run, data: evaluation.main([f"--train_dir={run}/run", f"--eval_data_pattern={data}", "--run_once"]),
    "inference": lambda run, data: inference.main(
        [f"--train_dir={run}/run", f"--input_data_pattern={data}", f"--output_file={run}/out.csv"]
    ),
    "inference of an export": lambda run, data: inference.main(
        [f"--train_dir={run}/exported/saved_model", f"--input_data_pattern={data}", f"--output_file={run}/out.csv"]
    ),
    "predict": lambda run, data: main(["predict", f"--model={run}/run", data]),
    "select": lambda run, data: main(["select", f"--model={run}/run", f"--data={data}", f"--out={run}/out.csv"]),
    "init_from": lambda run, data: train.main(
        words_of_training(pathlib.Path(data).parent, f"{run}/new", f"--init_from={run}/run", "--num_classes=2")
    ),
    "resume": lambda run, data: train.main(words_of_training(pathlib.Path(data).parent, f"{run}/run", steps=9)),
}


@pytest.mark.promise("I12")
@pytest.mark.parametrize("program", cases.only(PROGRAMS, ["eval", "inference of an export", "resume"]))
def test_every_program_refuses_them(
    run: pathlib.Path, lost: str, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert PROGRAMS[program](run, lost) == 2
    told = capfd.readouterr().err
    assert "no manifest says" in told
    assert f"{RANGE[0]:g}..{RANGE[1]:g}" in told
    assert not (run / "out.csv").exists()


@pytest.mark.promise("I12")
def test_vectors_of_videos_are_refused_like_frames(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Such a vector shows no size, so that no format is found."""
    folder = make(tmp_path, "--bits=8", level="video")
    shape = ("--model=LogisticModel", "--batch_size=3", "--max_steps=1")
    data = f"{folder}/validate/*.tfrecord"
    train_words = [f"--train_data_pattern={folder}/train/*.tfrecord", f"--train_dir={tmp_path}/run", *shape]
    assert train.main(train_words) == 0
    open_data(data).refuse_unknown_bytes(takes(RANGE, "video"))
    (folder / "validate/manifest.json").unlink()
    assert evaluation.main([f"--train_dir={tmp_path}/run", f"--eval_data_pattern={data}", "--run_once"]) == 2
    assert "validate0000.tfrecord: no manifest says" in capfd.readouterr().err
    with pytest.raises(UsageError, match="no manifest says"):
        open_data(f"{folder}/*/*.tfrecord").format  # noqa: B018 the other folder has a manifest


def takes(bounds: tuple[float, float] | None, level: str = "frame") -> DataFormat:
    return DataFormat(level, (FeatureFormat("features", 4, bounds),))


@pytest.mark.promise("I12")
def test_each_folder_needs_a_manifest_that_describes_the_records(learned: pathlib.Path, lost: str) -> None:
    described = f"{learned}/train/*.tfrecord"
    open_data(described).refuse_unknown_bytes(takes(RANGE))
    for patterns in (lost, [described, lost]):
        with pytest.raises(UsageError, match=r"lost/validate0000\.tfrecord"):
            open_data(patterns).refuse_unknown_bytes(takes(RANGE))
    folder = pathlib.Path(lost).parent
    assert main(["verify", *map(str, sorted(folder.glob("*.tfrecord"))), f"--manifest={folder}/manifest.json"]) == 0
    assert "data" not in json.loads((folder / "manifest.json").read_text())
    with pytest.raises(UsageError, match="no manifest says"):
        open_data(lost).refuse_unknown_bytes(takes(RANGE))
    open_data(lost, manifest=f"{learned}/validate/manifest.json").refuse_unknown_bytes(takes(RANGE))


OF_DATA_ALONE: dict[str, Any] = {
    "train": lambda data, out: train.main(
        [f"--train_data_pattern={data}", f"--train_dir={out}/run", "--model=FrameLevelLogisticModel", "--max_steps=1"]
    ),
    "train without a model": lambda data, out: train.main([f"--train_data_pattern={data}", f"--train_dir={out}/run"]),
    "audit": lambda data, out: main(["audit", f"--data={data}", f"--out={out}/audit"]),
    "cache": lambda data, out: main(["cache", f"--data={data}", f"--out={out}/cache", "--num_classes=2"]),
    "read_records": lambda data, _: refused(lambda: list(yt8m.read_records(data.split(",")))),
}


def refused(read: Callable[[], object]) -> int:
    """The status of a command that does the same, which prints the message of the error."""
    try:
        read()
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


@pytest.mark.promise("I12")
@pytest.mark.parametrize("program", OF_DATA_ALONE)
def test_the_range_of_one_folder_is_not_taken_for_that_of_another(
    learned: pathlib.Path, lost: str, tmp_path: pathlib.Path, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """With both manifests the two would be compared; a joined one describes the shards of its own folder alone."""
    out = tmp_path / "out"
    assert OF_DATA_ALONE[program](f"{learned}/train/*.tfrecord,{lost}", out) == 2
    told = capfd.readouterr().err
    assert "lost/validate0000.tfrecord: no manifest says" in told
    assert f"train/manifest.json has bytes for {RANGE[0]:g}..{RANGE[1]:g}" in told
    assert not out.exists() or not any(out.rglob("*.parsed"))


def test_videos_to_compare_on_are_read_with_their_own_range(tmp_path: pathlib.Path, learned: pathlib.Path) -> None:
    """The search reads them before any evaluation checks them."""
    wider = make(tmp_path, "--bits=8", f"--ranges={2 * RANGE[0]:g}:{2 * RANGE[1]:g}")
    data = DataConfig(
        data_pattern=f"{learned}/train/*.tfrecord",
        frame_features=True,
        feature_names=("features",),
        feature_sizes=(4,),
        feature_ranges=(RANGE,),
        num_classes=2,
    )
    read = np.concatenate([batch.features["features"] for batch in read_batches(data, f"{wider}/validate/*.tfrecord")])
    exact = np.concatenate(
        [batch.dequantize().features["features"] for batch in yt8m.read_records(f"{wider}/validate/*.tfrecord")]
    )
    np.testing.assert_array_equal(read, exact)
    (wider / "validate/manifest.json").unlink()
    with pytest.raises(UsageError, match=r"validate0000\.tfrecord: no manifest says"):
        list(read_batches(data, f"{wider}/validate/*.tfrecord"))


def test_bytes_of_the_usual_range_need_none(lost: str) -> None:
    """YouTube-8M's own shards have no manifest."""
    open_data(lost).refuse_unknown_bytes(takes((-2.0, 2.0)))


@pytest.mark.parametrize(("name", "is_refused"), [("features", True), ("rgb", False)])
def test_bytes_are_no_floats_unless_published(tmp_path: pathlib.Path, name: str, is_refused: bool) -> None:
    """Bytes of rgb can only have the range that YouTube-8M gave them."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_shard(folder / "a.tfrecord", [frame_record(name, 2)])
    model = DataFormat("frame", (FeatureFormat(name, 4, None),))
    with pytest.raises(UsageError, match="learned from floats") if is_refused else contextlib.nullcontext():
        open_data(f"{folder}/*").refuse_unknown_bytes(model)


@pytest.mark.promise("I12")
@pytest.mark.parametrize("first", ["damaged", "empty", "without frames"])
def test_one_shard_that_shows_nothing_does_not_hide_the_others(tmp_path: pathlib.Path, first: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    records = [frame_record("features", 2)]
    for number in range(5):
        write_shard(folder / f"{number}.tfrecord", records)
    for number in range(4):
        path = folder / f"{number}.tfrecord"
        content = path.read_bytes()
        path.write_bytes({"damaged": content[:9] + b"?" + content[10:], "empty": b""}.get(first, b""))
        if first == "without frames":
            write_shard(path, [frame_record("features", 0)])
    with pytest.raises(UsageError, match=r"4\.tfrecord: no manifest says"):
        open_data(f"{folder}/*").refuse_unknown_bytes(takes(RANGE))
    data = DataConfig(frame_features=True, feature_names=("features",), feature_sizes=(4,), feature_ranges=(RANGE,))
    with pytest.raises(UsageError, match=r"4\.tfrecord: no manifest says"):
        data_fit.fit(data_fit.Takes(data), open_data(f"{folder}/*"), {}, flag="eval_data_pattern")
    if first == "without frames":
        write_shard(folder / "0.tfrecord", [frame_record("features", 0), *records])
        with pytest.raises(UsageError, match=r"0\.tfrecord: no manifest says"):
            open_data(f"{folder}/*").refuse_unknown_bytes(takes(RANGE))


def frame_record(name: str, frames: int) -> bytes:
    """A record of frames of four bytes each."""
    context = {"id": shards.bytes_feature(b"v"), "labels": shards.int64_feature([1])}
    return shards.sequence_example(context, {name: shards.frame_features(np.zeros((frames, 4), np.uint8))})


def test_floats_need_none(tmp_path: pathlib.Path) -> None:
    floats = make(tmp_path, "--bits=32")
    for manifest in floats.glob("*/manifest.json"):
        manifest.unlink()
    open_data(f"{floats}/*/*.tfrecord").refuse_unknown_bytes(takes(RANGE))
