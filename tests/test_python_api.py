"""`yt8m.load` and `yt8m.fit`: what the programs say, from Python, of several models in one process."""

from __future__ import annotations

import contextlib
import csv
import gc
import json
import logging
import multiprocessing
import os
import pathlib
import pkgutil
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from absl import logging as absl_logging

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, models
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.records import shards

CLASSES, SIZE, VIDEOS = 3, 8, 96
FLAGS = {"feature_names": ["clip"], "feature_sizes": SIZE, "num_classes": CLASSES, "num_epochs": 1, "batch_size": 32}


def write(folder: pathlib.Path) -> pathlib.Path:
    """Shards of videos, and of their frames with rated segments, of three classes that differ in one feature."""
    draw = np.random.default_rng(5)
    videos, frames = [], []
    for number in range(VIDEOS):
        label = number % CLASSES
        mean = draw.normal(size=SIZE) + 3 * np.eye(SIZE)[label]
        context = {"id": shards.bytes_feature(b"v%02d" % number), "labels": shards.int64_feature([label])}
        videos.append(shards.framed(shards.example(context | {"clip": shards.float_feature(mean)})))
        context |= {
            "segment_start_times": shards.int64_feature([0]),
            "segment_labels": shards.int64_feature([label]),
            "segment_scores": shards.float_feature([number % 2]),
        }
        rows = np.clip(64 + 20 * (mean + draw.normal(size=(6, SIZE))), 0, 255).astype(np.uint8)
        frames.append(shards.framed(shards.sequence_example(context, {"rgb": shards.frame_features(rows)})))
    for level, records in (("video", videos), ("frame", frames)):
        (folder / level).mkdir()
        for part in range(2):
            (folder / level / f"{part}.tfrecord").write_bytes(b"".join(records[part * 48 : part * 48 + 48]))
    return folder


def fit(folder: pathlib.Path, name: str, **more: object) -> yt8m.FittedRun:
    pattern = f"{folder}/video/*.tfrecord"
    return yt8m.fit(
        **{"train_data_pattern": pattern, "train_dir": folder / name, "model": "LogisticModel"} | FLAGS | more
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run on videos with its export, archive, report and predictions; and a run on frames."""
    folder = write(tmp_path_factory.mktemp("world"))
    pattern = f"{folder}/video/*.tfrecord"
    fit(folder, "run", export_model_steps=3)
    assert evaluation.main([f"--train_dir={folder}/run", f"--eval_data_pattern={pattern}", "--run_once"]) == 0
    words = [f"--train_dir={folder}/run", f"--input_data_pattern={pattern}", f"--output_file={folder}/predictions.csv"]
    assert inference.main([*words, f"--output_model_tgz={folder}/model.tgz"]) == 0
    frames = {"feature_names": "rgb", "frame_features": True, "model": "FrameLevelLogisticModel"}
    fit(folder, "frames", train_data_pattern=f"{folder}/frame/*.tfrecord", export_model_steps=0, **frames)
    return folder


@pytest.fixture
def data(world: pathlib.Path) -> yt8m.Records:
    return yt8m.read_records(f"{world}/video/*.tfrecord", num_classes=CLASSES)


def told(model: yt8m.Model, data: object) -> dict[str, dict[int, float]]:
    """{video: {class: score}}, all classes, best first."""
    found = list(model.predict(data, top_k=CLASSES))
    for video in found:
        scores = [one.score for one in video.classes]
        assert scores == sorted(scores, reverse=True)
        assert [one.name for one in video.classes] == [f"class {one.index}" for one in video.classes]
    return {video.id: {one.index: one.score for one in video.classes} for video in found}


NAMES = ["run", "run/export/3", pytest.param("model.tgz", marks=pytest.mark.heavy)]


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_inference(world: pathlib.Path, data: yt8m.Records, name: str) -> None:
    with (world / "predictions.csv").open() as file:
        rows = {row["VideoId"]: row["LabelConfidencePairs"].split() for row in csv.DictReader(file)}
    expected = {
        video: dict(zip(map(int, words[::2]), map(float, words[1::2]), strict=True)) for video, words in rows.items()
    }
    with yt8m.load(world / name) as model:
        for given in (data, f"{world}/video/*.tfrecord", list(data)):
            found = told(model, given)
            assert list(found) == list(expected)
            for video, scores in found.items():
                assert scores == pytest.approx(expected[video], rel=1e-5)  # six digits are written


def test_records_that_have_a_vector_or_nothing_in_place_of_labels_are_named(
    world: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As `eval` names them: the figures of such data say nothing about a model."""
    other: dict[str, list[int]] = {"none": [], "vectors": [0, 1, 1]}
    for name, labels in other.items():
        context = {"labels": shards.int64_feature(labels), "clip": shards.float_feature(np.zeros(SIZE))}
        records = [{"id": shards.bytes_feature(b"v%d" % row)} | context for row in range(3)]
        (tmp_path / f"{name}.tfrecord").write_bytes(b"".join(shards.framed(shards.example(one)) for one in records))
    with yt8m.load(world / "run") as model:
        for name, said in (("none", "none of the first 3 videos has a label"), ("vectors", "looks like a vector")):
            caplog.clear()
            model.evaluate(f"{tmp_path}/{name}.tfrecord")
            assert said in caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_eval(world: pathlib.Path, data: yt8m.Records, name: str) -> None:
    report = json.loads((world / "run/eval/report.json").read_text())
    with yt8m.load(world / name) as model:
        found = model.evaluate(data)
        of_arrays = model.evaluate(list(data))
    if name == "run":
        assert found == report
    ours = ["hit_at_one", "perr", "map", "gap", "num_examples", "classes"]
    assert {key: found[key] for key in ours} == {key: report[key] for key in ours}
    assert {key: of_arrays[key] for key in ours} == {key: report[key] for key in ours}
    if "export" in name:
        assert found["loss"] is None
    else:
        assert found["loss"] == report["loss"]


@pytest.mark.heavy
def test_segments_and_frames(world: pathlib.Path) -> None:
    pattern = f"{world}/frame/*.tfrecord"
    words = [f"--train_dir={world}/frames", f"--eval_data_pattern={pattern}", "--run_once"]
    with yt8m.load(world / "frames") as model:
        for more in ({}, {"segment_labels": True}):
            assert evaluation.main([*words, *(f"--{name}" for name in more)]) == 0
            assert model.evaluate(pattern, **more) == json.loads((world / "frames/eval/report.json").read_text())
        assert evaluation.main([*words, "--batch_size=20"]) == 0
        of_several_steps = model.evaluate(yt8m.read_records(pattern, batch_size=20))
        assert of_several_steps == json.loads((world / "frames/eval/report.json").read_text())
        frames = yt8m.read_records(pattern, num_classes=CLASSES)
        from_files, of_bytes = told(model, pattern), told(model, frames)
        of_arrays = told(model, list(frames))
        of_floats = told(model, [batch.dequantize() for batch in frames])
    assert from_files == of_bytes == of_arrays
    for video, scores in of_floats.items():
        assert scores == pytest.approx(of_arrays[video], rel=1e-4)


@pytest.mark.heavy
def test_features_reach_a_model_by_their_names(tmp_path: pathlib.Path) -> None:
    """Even if the data have them in another order, or have more than the model takes."""
    draw = np.random.default_rng(0)
    arrays = {name: draw.normal(size=(24, 3)).astype(np.float32) for name in "abc"}
    np.savez(tmp_path / "clips.npz", id=[f"v{n}" for n in range(24)], labels=["x", "y"] * 12, **arrays)
    cli.call("make-records", [f"--table={tmp_path}/clips.npz", f"--out={tmp_path}", "--splits=train:1"])
    pattern = f"{tmp_path}/video/train/*.tfrecord"
    more = {"feature_names": ["c", "a"], "feature_sizes": [3, 3], "num_classes": None, "train_data_pattern": pattern}
    run = fit(tmp_path, "run", **more)
    with yt8m.load(run.folder) as model, yt8m.load(f"{run.folder}/export/{run.step}") as exported:
        expected, found = ([one.classes[0] for one in each.predict(pattern)] for each in (model, exported))
        assert [one.index for one in found] == [one.index for one in expected]
        np.testing.assert_allclose([one.score for one in found], [one.score for one in expected], rtol=1e-5)
        (batch,) = yt8m.read_records(pattern, feature_names=["a", "b"])
        with pytest.raises(yt8m.UsageError, match=r"video level.*c of 3, a of 3\b.*a \[24, 3\], b \[24, 3\]"):
            list(exported.predict(batch))


def test_a_dict_of_arrays_is_predicted_as_its_batch(world: pathlib.Path, data: yt8m.Records) -> None:
    (batch,) = data
    clip = np.concatenate([batch.features["clip"]] * 20)
    assert len(clip) > 256
    for folder in (world / "run", world / "run/export/3"):
        with yt8m.load(folder) as model:
            expected = list(told(model, batch).values()) * 20
            for given in (clip, clip.astype(np.float64), clip.tolist()):
                found = told(model, {"clip": given})
                assert list(found) == [str(row) for row in range(len(clip))]
                for scores, same in zip(found.values(), expected, strict=True):
                    assert scores == pytest.approx(same, abs=1e-6)
            assert told(model, {"clip": clip[:0]}) == {}
            with pytest.raises(yt8m.UsageError, match=r"clip of video 7 \(row 7\) .*NaN .*value 0\b"):
                list(model.predict({"clip": np.where(np.arange(len(clip))[:, np.newaxis] == 7, np.inf, clip)}))
            for wrong in ({}, {"clip": clip[0]}, {"clip": clip, "more": clip[:1]}, {"clip": [[1.0], [1.0, 2.0]]}):
                with pytest.raises(yt8m.UsageError, match="arrays of numbers"):
                    list(model.predict(wrong))
            with pytest.raises(yt8m.UsageError, match="no labels"):
                model.evaluate({"clip": clip})


@pytest.mark.heavy
def test_several_models_in_several_threads(world: pathlib.Path, data: yt8m.Records) -> None:
    batches = list(data)
    with yt8m.load(world / "run") as run, yt8m.load(world / "run/export/3") as export:
        expected = [told(model, batches) for model in (run, export)]
        with ThreadPoolExecutor(4) as threads:
            futures = [threads.submit(told, model, batches) for model in (run, export) * 4]
            fitting = [threads.submit(fit, world, f"thread-{part}", seed=part) for part in range(2)]
            for place, future in enumerate(futures):
                assert future.result() == expected[place % 2]
            for part, future in enumerate(fitting):
                assert (future.result().folder, future.result().step) == (str(world / f"thread-{part}"), 3)
    with contextlib.ExitStack() as opened:
        again = fit(world, "alone", seed=1)
        models = [opened.enter_context(yt8m.load(folder)) for folder in (again.folder, world / "thread-1")]
        assert told(models[0], batches) == told(models[1], batches)


def test_what_does_not_fit_is_refused(world: pathlib.Path, data: yt8m.Records) -> None:
    (batch,) = data
    wrong = [
        (f"{world}/nothing", "no file matches"),
        (f"{world}/frame/*.tfrecord", None),
        (yt8m.read_records(f"{world}/frame/*.tfrecord"), r"takes video level .*clip of 8\b"),
        ([{"clip": batch.features["clip"]}], "expected a file pattern, .*read_records"),
        (5, "read_records .*; found a int"),
        (
            yt8m.NumpyBatch(["a"], {"clip": np.zeros((1, 7))}, np.ones(1), batch.labels[:1]),
            r"this batch has clip \[1, 7\]",
        ),
        (yt8m.NumpyBatch(["a"], {"clip": np.zeros((1, 8))}, np.ones(1), np.ones((1, 4), bool)), r"labels .* \[1, 4\]"),
    ]
    with yt8m.load(world / "run") as model:
        for given, problem in wrong:
            with pytest.raises((yt8m.UsageError, yt8m.RunError), match=problem):
                list(model.predict(given))
        with pytest.raises(yt8m.UsageError, match="top_k is 0"):
            model.predict(data, top_k=0)
        with pytest.raises(yt8m.RunError, match="hold no example"):
            model.evaluate([])


def test_damage_is_named_with_its_record(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    records = list(shards.read_shard(str(world / "video/0.tfrecord")))
    bad = shards.example({"id": shards.bytes_feature(b"bad"), "clip": shards.float_feature([np.nan] * SIZE)})
    (tmp_path / "a").write_bytes(b"".join(map(shards.framed, [*records[:5], bad])))
    with (
        yt8m.load(world / "run") as model,
        pytest.raises(yt8m.RunError, match=r"a: record 5: video bad: .*clip .*\b8\b"),
    ):
        list(model.predict(f"{tmp_path}/a"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [("nowhere", r"nowhere: .*no such folder"), ("video", "holds no saved_model.pb"), ("nowhere.tgz", "nowhere.tgz")],
)
def test_a_model_that_is_not_there(world: pathlib.Path, name: str, problem: str) -> None:
    with pytest.raises((yt8m.UsageError, yt8m.RunError), match=problem):
        yt8m.load(world / name)


def test_checkpoints_by_step(world: pathlib.Path, data: yt8m.Records) -> None:
    with yt8m.load(world / "run", checkpoint=0) as model:  # a step is a number or its text
        assert model.evaluate(data)["global_step"] == 0
    with pytest.raises(yt8m.UsageError, match=r"no checkpoint of step 7\b.*: 3, 0"):
        yt8m.load(world / "run", checkpoint="7")


OWN_MODEL = """
from yt8m.models.video_level import LogisticModel as Base
from dataclasses import dataclass
@dataclass(frozen=True)
class Mine(Base): pass
"""


def test_code_of_a_run_from_elsewhere_must_be_trusted(
    world: pathlib.Path, data: yt8m.Records, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_own_model.py").write_text(OWN_MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    fit(world, "own", model="my_own_model:Mine", export_model_steps=0)
    with yt8m.load(world / "own") as model:
        expected = told(model, data)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(yt8m.UsageError, match=r"my_own_model:Mine.*give trust_code=True"):
        yt8m.load(world / "own")
    assert models.get("my_own_model:Mine").__name__ == "Mine"  # the refusal ended with the call
    with yt8m.load(world / "own", trust_code=True) as model:
        with pytest.raises(yt8m.UsageError, match=r"my_own_model:Mine"):
            yt8m.load(world / "own")
        assert told(model, data) == expected
        with ThreadPoolExecutor(1) as thread:  # builds a further graph, from the same code
            assert thread.submit(model.evaluate, data).result()["num_examples"] == len(expected)
    sys.modules.pop("my_own_model")


@pytest.mark.heavy
@pytest.mark.promise("X4")
def test_a_loss_from_elsewhere_is_refused_when_it_is_needed(
    world: pathlib.Path, data: yt8m.Records, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predictions need no loss, so a model can be loaded without trust in it; a thread of its own is refused too."""
    code = "from yt8m.losses.label_losses import CrossEntropyLoss as Base\nclass Lost(Base): pass\n"
    (tmp_path / "my_own_loss.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    fit(world, "lost", label_loss="my_own_loss:Lost")
    sys.modules.pop("my_own_loss")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with yt8m.load(world / "lost") as model, ThreadPoolExecutor(1) as thread:
        told(model, data)
        refusal = r"loss 'my_own_loss:Lost'.*give trust_code=True to yt8m\.load"
        with pytest.raises(yt8m.UsageError, match=refusal):
            thread.submit(model.evaluate, data).result()
    assert "my_own_loss" not in sys.modules
    with yt8m.load(world / "lost", trust_code=True) as model:
        assert model.evaluate(data)["loss"] > 0
    sys.modules.pop("my_own_loss")


def test_nothing_is_left_of_a_closed_model(world: pathlib.Path, data: yt8m.Records) -> None:
    before = set(os.listdir(os.environ["TMPDIR"]))
    model = yt8m.load(world / "model.tgz")
    assert any(name.startswith("yt8m-model-") for name in set(os.listdir(os.environ["TMPDIR"])) - before)
    next(model.predict(data))
    model.close()
    model.close()
    assert set(os.listdir(os.environ["TMPDIR"])) == before
    for name in ("run", "run/export/3"):
        with yt8m.load(world / name) as model:
            begun = model.predict(list(data) * 2)
            next(begun)
        for use in (model.predict, model.evaluate):
            with pytest.raises(yt8m.UsageError, match=rf"{name}: .*closed"):
                use(data)
        with pytest.raises((yt8m.UsageError, RuntimeError), match="closed"):
            list(begun)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"modle": "MoeModel"}, "unknown option modle; did you mean model?"),
        ({"model": "MoModel"}, "model='MoModel': unknown model 'MoModel'; did you mean MoeModel?"),
        ({"batch_size": "many"}, "batch_size='many': expected a whole number"),
        ({"batch_size": 0}, "batch_size must be at least 1; it is 0"),
        ({"help": True}, "help is not an option"),
        ({"train_dir": object()}, "train_dir=<object"),
        ({"moe_num_mixtures": 3, "model": "LogisticModel"}, "LogisticModel has no such hyper-parameter"),
        ({"train_data_pattern": "/nowhere/*"}, "no file matches"),
    ],
)
def test_wrong_options_are_refused_in_the_words_of_python(given: dict, problem: str) -> None:
    with pytest.raises(yt8m.UsageError) as refusal:
        yt8m.fit(**given)
    assert problem in str(refusal.value)


def test_a_cluster_is_refused(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(yt8m.UsageError, match=r"TF_CONFIG or CLUSTER_SPEC\b.*`yt8m train`"):
        fit(world, "cluster")


def test_a_training_that_fails_says_why(world: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes((world / "video/0.tfrecord").read_bytes()[:-20])
    with pytest.raises(yt8m.RunError, match=r"a: record 47: .*cut"):
        fit(world, "failed", train_data_pattern=f"{tmp_path}/a")


def test_nothing_of_the_process_is_changed(world: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    def state() -> list[object]:
        root, tensorflow = logging.getLogger(), logging.getLogger("tensorflow")
        return [
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
            dict(os.environ) | {"PYTEST_CURRENT_TEST": ""},
            list(sys.modules["absl.flags"].FLAGS),
            [list(root.handlers), list(tensorflow.handlers), list(tensorflow.filters), absl_logging.get_verbosity()],
            list(sys.path),
            threading.enumerate(),
            tf.get_default_graph(),
        ]

    kept = logging.getLogger().handlers[:]
    logging.getLogger().handlers[:] = []  # pytest's own: who has set up a log keeps it as it is
    try:
        before = state()
        run = fit(world, "state", log_every_n_steps=1, export_model_steps=0)
        assert state() == before
    finally:
        logging.getLogger().handlers[:] = kept
    assert (run.status, run.step, run.message) == ("out_of_data", 3, "all data were read")
    assert run.figures["step"] == 3
    assert "training ended at step 3" in capfd.readouterr().err


STOP = """
import os, signal
from yt8m.runner import Callback
class Stop(Callback):
    def after_run(self, run_context, run_values):
        if self.context.step == 2:
            os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.heavy
def test_control_c_ends_a_training_in_order(
    world: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_stop.py").write_text(STOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = fit(world, "stopped", callbacks=["my_stop:Stop"], num_epochs=1000)
    assert run.status == "stopped"
    assert run.step >= 2
    with yt8m.load(run.folder) as model:
        assert model.evaluate(f"{world}/video/*.tfrecord")["global_step"] == run.step
    sys.modules.pop("my_stop")


def test_every_public_name_is_there() -> None:
    assert yt8m._MODULES.keys() < set(yt8m.__all__)
    assert [getattr(yt8m, name).__name__ for name in yt8m.__all__] == yt8m.__all__
    assert set(yt8m.__all__) <= set(dir(yt8m))
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = yt8m.trian


def test_no_public_name_is_that_of_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(yt8m.__path__)}
    assert {"train", "eval", "records"} <= modules
    assert modules.isdisjoint(yt8m.__all__)


_TYPED = """
import pathlib
from typing import Any
import yt8m
model = yt8m.load("runs/mine")
found: str = next(model.predict("a")).classes[0].name
count: int = len(next(iter(yt8m.read_records("a", seed=1))))
folder: str = yt8m.fit(model="MoeModel", train_dir=pathlib.Path("runs"), batch_size=64, hidden_sizes=[8]).folder
own: dict[str, Any] = {"my_own_option": 3}
yt8m.fit(**own)
yt8m.fit(batch_size="many")  # refused
yt8m.fit(bach_size=64)  # refused
reveal_type(yt8m.load)
reveal_type(yt8m.Classifier().fit([[1.0]], ["a"]).predict_proba)
"""


@pytest.mark.heavy
@pytest.mark.long
def test_users_of_mypy_see_the_types(tmp_path: pathlib.Path) -> None:
    (tmp_path / "use.py").write_text(_TYPED)
    root = pathlib.Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(tmp_path / "use.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    told = done.stdout.replace(" builtins.bool", " bool")
    assert "trust_code: bool =) -> yt8m.python_api.loaded_model.Model" in told, told
    assert "numpy.dtype[numpy.floating[" in told, told
    errors = [line.split(": error: ") for line in told.splitlines() if ": error: " in line]
    refused = [f"{tmp_path}/use.py:{n}" for n, line in enumerate(_TYPED.splitlines(), 1) if "# refused" in line]
    assert [place for place, _ in errors] == refused
    assert ['"batch_size"' in errors[0][1], '"bach_size"' in errors[1][1]] == [True, True]


def graphs() -> int:
    gc.collect()
    return sum(isinstance(found, tf.Graph) for found in gc.get_objects())


def resident() -> float:
    """Megabytes of memory of this process."""
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cycle(world: pathlib.Path) -> None:
    """Trains a run, loads it, predicts and evaluates."""
    data = yt8m.read_records(f"{world}/video/*.tfrecord", num_classes=CLASSES)
    folder = fit(world, "cycle", max_steps=1).folder
    with yt8m.load(folder) as model:
        next(model.predict(data))
        model.evaluate(data)
    shutil.rmtree(folder)


@pytest.mark.heavy
def test_no_graph_is_left_after_load_and_fit(world: pathlib.Path) -> None:
    cycle(world)
    before = graphs()
    cycle(world)
    assert graphs() == before


def growth(world: pathlib.Path) -> float:
    """Megabytes that this process grows by in a hundred cycles."""
    for _ in range(15):  # the allocators of Python and the runtime fill first
        cycle(world)
    before = resident()
    for _ in range(100):
        cycle(world)
    return resident() - before


@pytest.mark.heavy
@pytest.mark.long
def test_memory_stays_flat_over_a_hundred_cycles(world: pathlib.Path) -> None:
    # a process of its own: what former tests left free in the allocator's pages hides or feigns a growth
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(growth, world).result() < 30
