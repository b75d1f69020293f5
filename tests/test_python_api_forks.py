"""Models in Python after a fork, and after a change of the current folder."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import made_videos
import pytest
import small_exports
import stand_ins
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


_EXITING = """
import os, sys
from yt8m import forks
from yt8m.lazy import tf
with tf.Graph().as_default() as graph:
    numbers = tf.data.Dataset.range(4).map(lambda number: number + 1, num_parallel_calls=2).prefetch(1)
    value = tf.compat.v1.data.make_one_shot_iterator(numbers).get_next()
session = forks.new_session(graph=graph)
print(session.run(value), flush=True)
child = os.fork()
if not child:
    if sys.argv[1] == "let go":
        del session
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), session.run(value), flush=True)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("moment", ["at the end", "let go"])
def test_a_child_of_a_user_of_tensorflow_ends_by_exit(moment: str) -> None:
    words = [sys.executable, "-c", _EXITING, moment]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout == "1\n3 2\n", done.stderr


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("forks")
    write_shard(folder / "a.tfrecord", small_exports.video_records(4))
    exported, onnx = small_exports.export(folder, "LogisticModel"), small_exports.export_file(folder, "LogisticModel")
    return {"export": exported, "onnx": onnx, "shard": str(folder / "a.tfrecord")}


@pytest.mark.parametrize(
    ("model", "moment", "kind", "works"),
    [
        pytest.param("export", "used before", "old", False, marks=pytest.mark.heavy),
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
        assert "before the fork" in done.stdout, done.stderr
        assert "use an ONNX file" in done.stdout
        assert done.stdout.endswith("status 0\n")


@pytest.mark.heavy
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
        assert os.fspath(model) == str(tmp_path / "run")
        assert len(list(model.predict(data))) == model.evaluate(data)["num_examples"] > 0


@pytest.mark.heavy
def test_records_and_predictions_are_read_after_a_change_of_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are read when they are asked for."""
    import yt8m

    assert run(tmp_path / "run") == 0
    shutil.copy(golden("checkpoint_logistic/test.tfrecord"), tmp_path / "test.tfrecord")
    monkeypatch.chdir(tmp_path)
    records = yt8m.read_records(["test.tfrecord"])
    with yt8m.load("run") as model:
        predictions = model.predict("test.tfrecord")
        monkeypatch.chdir("/")
        assert len(list(predictions)) == sum(len(batch.ids) for batch in records) > 0


def test_fit_returns_an_absolute_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yt8m

    monkeypatch.chdir(tmp_path)
    sizes = {"feature_names": "mean_rgb,mean_audio", "feature_sizes": "16,8", "num_classes": 10}
    data = str(golden("checkpoint_logistic/train.tfrecord"))
    assert yt8m.fit(train_data_pattern=data, train_dir="run", max_steps=1, **sizes).folder == str(tmp_path / "run")


_CHILDREN = """
import multiprocessing, sys
import numpy as np
import yt8m
from yt8m import extractors, readers
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers.damage import RecordCheck
records, video, network, folder = sys.argv[1:]
def search():
    sizes = {"feature_names": "mean_rgb,mean_audio", "feature_sizes": "16,8", "num_classes": 10}
    yt8m.fit(data=records, train_dir=f"{folder}/run", model="auto", **sizes)
def classifier():
    yt8m.Classifier(budget=2).fit(np.eye(8, dtype=np.float32), [["a"], ["b"]] * 4)
def features():
    yt8m.extract(video, extractors=[f"saved_model:{network}"], picture_size=8)
def check():
    reader = readers.YT8MAggregatedFeatureReader(10, (16, 8), ("mean_rgb", "mean_audio"))
    RecordCheck(reader).first_bad([b"no record"])
def child(task):
    try:
        task()
    except UsageError as error:
        print(task.__name__, error, flush=True)
with tf.Graph().as_default(), tf.Session() as session:
    session.run(tf.constant(1.0))
for task in (search, classifier, features, check):
    process = multiprocessing.get_context("fork").Process(target=child, args=(task,))
    process.start()
    process.join(120)
    process.kill()
"""


def test_whatever_needs_tensorflow_says_why_it_does_not_work_after_a_fork(tmp_path: pathlib.Path) -> None:
    """Training with a search, the estimator, an extractor and the check of damaged records hung."""
    video, network = str(tmp_path / "a.mp4"), stand_ins.write_saved_model(tmp_path / "network")
    made_videos.write(tmp_path / "a.mp4", made_videos.shape("disc"), None)
    records = str(golden("checkpoint_logistic/train.tfrecord"))
    words = [sys.executable, "-c", _CHILDREN, records, video, network, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    told = [line.split()[0] for line in done.stdout.splitlines() if "before the fork" in line]
    assert told == ["search", "classifier", "features", "check"], done.stderr
    assert not (tmp_path / "run").exists()


def test_sessions_are_made_in_one_place() -> None:
    """There, a copy of a process that used TensorFlow is refused."""
    makers = {
        str(path.relative_to(ROOT)) for path in (ROOT / "yt8m").rglob("*.py") if "tf.Session(" in path.read_text()
    }
    assert makers == {"yt8m/forks.py"}
