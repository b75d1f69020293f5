"""Bytes whose manifest was lost are refused by every program with a model that learned from bytes of its own range."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line.cli import main
from yt8m.errors import UsageError
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.opened_data import open_data

RANGE = (-11.0, 9.0)


def make(folder: pathlib.Path, *more: str) -> pathlib.Path:
    """Records of frames as bytes of `RANGE`, in two splits; returns the folder of the level."""
    draw = np.random.default_rng(0)
    (folder / "f").mkdir(parents=True)
    rows = []
    for number in range(12):
        np.save(folder / f"f/{number}.npy", draw.normal(size=(3, 4)).astype("f4"))
        rows.append(f"v{number},c{number % 2},f/{number}.npy,{'train' if number < 6 else 'validate'}")
    (folder / "t.csv").write_text("\n".join(["id,labels,path,split", *rows]) + "\n")
    words = [f"--table={folder}/t.csv", "--level=frame", "--shards=2", f"--out={folder}/made", *more]
    assert main(["make-records", *words]) == 0
    return folder / "made/frame"


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
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_refuses_them(
    run: pathlib.Path, lost: str, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert PROGRAMS[program](run, lost) == 2
    told = capfd.readouterr().err
    assert "no manifest says which values the bytes of features stand for" in told
    assert f"{RANGE[0]:g}..{RANGE[1]:g}" in told
    assert not (run / "out.csv").exists()


def takes(bounds: tuple[float, float] | None) -> DataFormat:
    return DataFormat("frame", (FeatureFormat("features", 4, bounds),))


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


@pytest.mark.parametrize("bounds", [None, (-2.0, 2.0)])
def test_bytes_of_the_usual_range_need_none(lost: str, bounds: tuple[float, float] | None) -> None:
    """YouTube-8M's own shards have no manifest."""
    open_data(lost).refuse_unknown_bytes(takes(bounds))


def test_floats_need_none(tmp_path: pathlib.Path) -> None:
    floats = make(tmp_path, "--bits=32")
    for manifest in floats.glob("*/manifest.json"):
        manifest.unlink()
    open_data(f"{floats}/*/*.tfrecord").refuse_unknown_bytes(takes(RANGE))
