"""What works in an environment without TensorFlow, which docs/users/deploy.md describes, and how large it is."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence

import made_videos
import numpy as np
import pytest
import records_and_metrics
import stand_ins

import yt8m
from yt8m.command_line import cli
from yt8m.records import shards

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The variables of this process, without those that would make the checkout importable in the new environment.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
LARGEST = 300e6  # bytes of the environment
VIDEO, TABLES, BEAM = ("av", "soxr"), ("pyarrow",), ("apache-beam",)


class Runtime:
    """A virtual environment with the packages of requirements-runtime.txt and the wheel of this checkout."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.programs = folder, folder / "runtime/bin"
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", f"--outdir={folder}", str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "runtime"], check=True, env=ENVIRONMENT)
        self.install("-r", ROOT / "requirements-runtime.txt")
        self.install("--no-deps", next(folder.glob("yt8m-*.whl")))

    def install(self, *words: object) -> None:
        options = ["--quiet", "--disable-pip-version-check", "--no-compile", "-c", ROOT / "constraints.txt"]
        command = [str(self.programs / "python"), "-m", "pip", "install", *map(str, (*options, *words))]
        ended = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
        if "No matching distribution" in ended.stderr or "Failed to establish a new connection" in ended.stderr:
            pytest.skip(f"no index of packages is reached: {ended.stderr.splitlines()[-1]}")
        assert ended.returncode == 0, ended.stderr
        print(f"\n{self.size() / 1e6:.0f} MB after pip install {' '.join(map(str, words))}")

    def size(self) -> int:
        """Bytes of the installed packages, without pip and the caches of compiled modules."""
        packages = next((self.folder / "runtime/lib").glob("python*/site-packages"))
        files = (path for path in packages.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return sum(path.stat().st_size for path in files if not path.relative_to(packages).parts[0].startswith("pip"))

    def run(self, *words: object, status: int = 0) -> str:
        """Runs a program of the environment, which must end with `status`; returns its output, or errors if not 0."""
        command = [str(self.programs / str(words[0])), *map(str, words[1:])]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=ENVIRONMENT)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended.stdout if not status else ended.stderr

    def yt8m(self, *words: object, status: int = 0) -> str:
        return self.run("yt8m", *words, status=status)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with data/, the records that a model was trained on, and the model as model.onnx."""
    folder = tmp_path_factory.mktemp("model")
    words = ["--num_classes=20", "--train=100", "--validate=20", "--test=10", "--shards=1"]
    assert cli.main(["sample-data", f"--out={folder / 'data'}", *words]) == 0
    export(folder, f"{folder}/data/video/train/*.tfrecord")
    return folder


def export(folder: pathlib.Path, pattern: str) -> None:
    """Trains a small model, and writes it as `folder`/model.onnx."""
    yt8m.fit(
        model="LogisticModel", train_data_pattern=pattern, train_dir=str(folder / "run"), batch_size=8, num_epochs=4
    )
    assert cli.main(["export", f"--model={folder / 'run'}", "--format=onnx", f"--out={folder / 'model.onnx'}"]) == 0


def shown_scores(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"^([01]\.\d{3}) ", text, re.MULTILINE)]


_OF_ARRAYS = """
import sys, numpy, yt8m
arrays = numpy.load(sys.argv[2])
with yt8m.load(sys.argv[1]) as model:
    print(*(f"{video.classes[0].score:.6f}" for video in model.predict(dict(arrays), top_k=1)))
"""


@pytest.mark.heavy
@pytest.mark.long
def test_a_model_is_used_without_tensorflow(runtime: Runtime, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path, shard = model / "model.onnx", next(model.glob("data/video/validate/*.tfrecord"))
    assert "No module named 'tensorflow'" in runtime.run("python", "-c", "import tensorflow", status=1)
    assert runtime.size() < LARGEST
    with yt8m.load(str(path)) as loaded:
        best = [video.classes[0].score for video in loaded.predict(str(shard), top_k=1)]
    shown = shown_scores(runtime.yt8m("predict", f"--model={path}", "--count=20", "--top_k=1", shard))
    np.testing.assert_allclose(shown, best, rtol=0, atol=6e-4)

    (batch,) = yt8m.read_records(str(shard))
    np.savez(tmp_path / "arrays.npz", **batch.features)
    of_arrays = runtime.run("python", "-c", _OF_ARRAYS, path, tmp_path / "arrays.npz").split()
    np.testing.assert_allclose([float(score) for score in of_arrays], best, rtol=0, atol=2e-6)

    expected = records_and_metrics.figures([str(shard)])
    assert json.loads(runtime.run("python", "-P", records_and_metrics.__file__, shard)) == expected

    assert "mean_rgb" in runtime.yt8m("inspect", shard)
    assert "20 records" in runtime.yt8m("verify", shard)
    assert "Guitar" in runtime.yt8m("vocabulary", "search", "guitar")
    predictions = tmp_path / "predictions.csv"
    with yt8m.load(str(path)) as loaded, predictions.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["VideoId", "LabelConfidencePairs"])
        for video in loaded.predict(str(shard), top_k=5):
            writer.writerow([video.id, " ".join(f"{one.index} {one.score:.6f}" for one in video.classes)])
    assert "GAP" in runtime.yt8m("score", f"--predictions={predictions}", f"--data={shard}")


@pytest.mark.heavy
@pytest.mark.long
def test_a_model_is_served_without_tensorflow(runtime: Runtime, model: pathlib.Path) -> None:
    shard = next(model.glob("data/video/validate/*.tfrecord"))
    record = next(iter(shards.read_shard(str(shard))))
    with yt8m.load(str(model / "model.onnx")) as loaded:
        best = next(iter(loaded.predict(str(shard), top_k=1))).classes[0]
    command = [str(runtime.programs / "yt8m"), "serve", f"--model={model / 'model.onnx'}", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as service:
        try:
            address = service.stdout.readline().split()[-1]
            asked = urllib.request.Request(f"{address}/predict", record, {"Content-Type": "application/octet-stream"})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                (predicted,) = json.loads(answer.read())["videos"]
        finally:
            service.terminate()
    assert predicted["classes"][0]["name"] == best.name
    assert predicted["classes"][0]["score"] == pytest.approx(best.score, abs=2e-6)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words", [["train", "--max_steps=1"], ["eval", "--run_once"], ["export", "--out=x"], ["doctor"]]
)
def test_what_needs_tensorflow_says_so_in_one_line(runtime: Runtime, words: Sequence[str], model: pathlib.Path) -> None:
    flags = {
        "train": [f"--train_data_pattern={model}/data/video/train/*.tfrecord", "--train_dir=new"],
        "eval": [f"--train_dir={model / 'run'}", f"--eval_data_pattern={model}/data/video/validate/*.tfrecord"],
        "export": [f"--model={model / 'run'}"],
        "doctor": [],
    }
    lines = runtime.yt8m(*words, *flags[words[0]], status=2).splitlines()
    errors = [line for line in lines if ": error: " in line]
    assert len(errors) == 1
    assert re.search(r": error: (this needs|the training steps need) TensorFlow, which is not installed", errors[0])
    assert "Traceback" not in "".join(lines)


@pytest.mark.heavy
@pytest.mark.long
def test_videos_tables_and_bulk_jobs_without_tensorflow(runtime: Runtime, tmp_path: pathlib.Path) -> None:
    clips = tmp_path / "clips"
    for number in range(6):
        kind = made_videos.KINDS[number % 3]
        (clips / kind).mkdir(parents=True, exist_ok=True)
        picture = made_videos.shape(kind, seed=number)
        made_videos.write(clips / kind / f"{number}.mp4", picture, made_videos.tone(kind, number), 3.0)
    colour = stand_ins.write_onnx(tmp_path / "colour.onnx")
    words = [f"--videos={clips}", "--labels=folder", f"--out={tmp_path / 'data'}", "--splits=train:1", "--shards=1"]
    words += [f"--extractors=onnx:{colour}", "--picture_size=16"]
    assert ".[video]" in runtime.yt8m("extract", *words, status=2)
    runtime.install(*VIDEO)
    runtime.yt8m("extract", *words)
    export(tmp_path, f"{tmp_path}/data/video/train/*.tfrecord")
    with yt8m.load(str(tmp_path / "model.onnx")) as loaded:
        video = next(iter(loaded.predict(f"{tmp_path}/data/video/train/*.tfrecord", top_k=1)))
    shown = runtime.yt8m("predict", f"--model={tmp_path / 'model.onnx'}", "--top_k=1", clips / video.id)
    np.testing.assert_allclose(shown_scores(shown), [video.classes[0].score], rtol=0, atol=1e-3)

    np.save(tmp_path / "0.npy", np.ones((3, 4), np.float32))
    (tmp_path / "clips.csv").write_text("id,path,labels\na,0.npy,cat\n")
    make = ["make-records", f"--table={tmp_path / 'clips.csv'}", f"--out={tmp_path / 'own'}", "--splits=train:1"]
    make += ["--feature_names=clip"]
    runtime.install(*TABLES)
    runtime.yt8m(*make)
    assert next((tmp_path / "own/video/train").glob("*.tfrecord"))

    bulk = ["bulk", "infer", f"--model={tmp_path / 'model.onnx'}", f"--data={tmp_path}/data/video/train/*.tfrecord"]
    bulk += [f"--out={tmp_path / 'predictions'}"]
    assert ".[beam]" in runtime.yt8m(*bulk, status=2)
    runtime.install(*BEAM)
    runtime.yt8m(*bulk)
    lines = "".join(path.read_text() for path in (tmp_path / "predictions").rglob("*.csv"))
    assert lines.count(".mp4") == 6
