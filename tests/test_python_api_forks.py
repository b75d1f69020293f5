"""Models in Python after a fork, and after a change of the current folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import small_exports
from golden_data import golden
from reader_records import write_shard
from small_run import ROOT, run

_PROGRAM = """
import multiprocessing, os, sys
import yt8m
from yt8m.errors import UsageError
model_path, shard, moment, kind = sys.argv[1:]
def ids(model):
    return [video.id for video in model.predict(shard, top_k=1)]
model = yt8m.load(model_path) if moment != "in the child" else None
if moment == "used before":
    assert len(ids(model)) == 4
def child():
    try:
        with (model if kind == "old" and model else yt8m.load(model_path)) as used:
            print(len(ids(used)), flush=True)
    except UsageError as error:
        print(error, flush=True)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(600)
if process.is_alive():
    process.kill()
print("status", process.exitcode)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("forks")
    write_shard(folder / "a.tfrecord", small_exports.video_records(4))
    exported, onnx = small_exports.export(folder, "LogisticModel"), small_exports.export_file(folder, "LogisticModel")
    return {"export": exported, "onnx": onnx, "shard": str(folder / "a.tfrecord")}


@pytest.mark.parametrize(
    ("model", "moment", "kind", "works"),
    [
        ("export", "used before", "old", False),
        pytest.param("export", "loaded before", "new", False, marks=pytest.mark.heavy),
        pytest.param("export", "in the child", "new", True, marks=pytest.mark.heavy),
        ("onnx", "used before", "old", True),
    ],
)
def test_after_a_fork_a_model_works_or_says_why_not(
    models: dict[str, str], model: str, moment: str, kind: str, works: bool
) -> None:
    words = [sys.executable, "-c", _PROGRAM, models[model], models["shard"], moment, kind]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if works:
        assert done.stdout == "4\nstatus 0\n", done.stderr
    else:
        assert "loaded before a fork" in done.stdout, done.stderr
        assert "use an ONNX file" in done.stdout
        assert done.stdout.endswith("status 0\n")


def test_a_model_loaded_by_a_relative_path_works_after_a_change_of_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph of evaluations is built, and its weights read, at the first evaluation."""
    import yt8m

    assert run(tmp_path / "run") == 0
    data = str(golden("checkpoint_logistic/test.tfrecord"))
    monkeypatch.chdir(tmp_path)
    with yt8m.load("run") as model:
        monkeypatch.chdir("/")
        assert len(list(model.predict(data))) == model.evaluate(data)["num_examples"] > 0


def test_fit_returns_an_absolute_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yt8m

    monkeypatch.chdir(tmp_path)
    sizes = {"feature_names": "mean_rgb,mean_audio", "feature_sizes": "16,8", "num_classes": 10}
    data = str(golden("checkpoint_logistic/train.tfrecord"))
    assert yt8m.fit(train_data_pattern=data, train_dir="run", max_steps=1, **sizes).folder == str(tmp_path / "run")
