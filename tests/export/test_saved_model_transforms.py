"""A model whose input transform comes from its training data gives the same scores in every form of it."""

from __future__ import annotations

import pathlib
from typing import Any

import cases
import numpy as np
import pytest
from numpy.typing import NDArray
from reader_records import frame_record, write_shard

import yt8m
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.records.normal_scores import KNOTS
from yt8m.runner import checkpoints

C, SIZE = 3, 4
SCALES = np.array([1, 100, 0.01, 0], np.float32)  # the last value is constant


def values_of(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    draw = np.random.default_rng(seed)
    classes = draw.integers(0, C, count)
    values = np.eye(C, SIZE)[classes] + 0.3 * draw.normal(size=(count, SIZE))
    return ((values + 5) * SCALES).astype("f"), classes


def write_videos(folder: pathlib.Path, count: int = 60) -> str:
    values, classes = values_of(count, 0)
    np.save(folder / "x.npy", values)
    rows = [f"v{row},class {classes[row]},train" for row in range(count)]
    (folder / "t.csv").write_text("\n".join(["id,labels,split", *rows]) + "\n")
    words = [f"--table={folder}/t.csv", f"--array={folder}/x.npy", "--feature_names=clip", f"--out={folder}/data"]
    assert cli.main(["make-records", *words]) == 0
    return f"{folder}/data/video/train/*.tfrecord"


def write_frames(folder: pathlib.Path, count: int = 60) -> str:
    values, classes = values_of(count * 3, 1)
    records = []
    for row in range(count):
        frames = values[3 * row : 3 * row + 1 + row % 3]
        records.append(frame_record({"id": [b"v%d" % row], "labels": [int(classes[3 * row])]}, {"clip": list(frames)}))
    write_shard(folder / "frames.tfrecord", records)
    return f"{folder}/frames.tfrecord"


QUICK = ["LogisticModel standardize"]
HEAVY = ["LogisticModel normal_scores", "FrameLevelLogisticModel standardize", "FrameLevelLogisticModel normal_scores"]


@pytest.fixture(scope="module", params=cases.all_of(QUICK, heavy=HEAVY))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    model, transform = request.param.split()
    folder = tmp_path_factory.mktemp(f"{model}_{transform}_")
    has_frames = model == "FrameLevelLogisticModel"
    pattern = (write_frames if has_frames else write_videos)(folder)
    words = [f"--data={pattern}", f"--out={folder}/run", f"--model={model}", f"--input_transform={transform}"]
    words += [f"--num_classes={C}"] if has_frames else []
    assert cli.main(["train", *words, "--num_epochs=10", "--batch_size=20", "--base_learning_rate=0.3"]) == 0
    return f"{folder}/run"


def given(run: str, count: int = 9) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """New videos: float32 [videos, frames, values], or [videos, values], and the number of frames of each."""
    if "FrameLevel" in run:
        values = values_of(count * 3, 2)[0].reshape(count, 3, SIZE)
        lengths = np.array([1 + row % 3 for row in range(count)], np.int32)
        return np.where(np.arange(3)[:, None] < lengths[:, None, None], values, 0).astype("f"), lengths
    return values_of(count, 2)[0], np.ones(count, np.int32)


def scores(path: str, run: str) -> NDArray[np.float64]:
    values, lengths = given(run)
    batch = yt8m.NumpyBatch(
        [str(row) for row in range(len(lengths))], {"clip": values}, lengths, np.zeros((9, 0), bool)
    )
    found = np.zeros((len(lengths), C))
    with yt8m.load(path) as model:
        for row, video in enumerate(model.predict(batch, top_k=C)):
            for one in video.classes:
                found[row, one.index] = one.score
    return found


def standardized(run: str, reader: Any, values: NDArray[np.float32]) -> NDArray[np.float32]:
    mean, deviation = (reader.get_tensor(f"tower/standardize/{name}") for name in ("mean", "deviation"))
    if "FrameLevel" not in run:
        np.testing.assert_allclose(mean, values_of(60, 0)[0].mean(0), rtol=1e-4)
    assert deviation[3] == 0
    return np.where(deviation > 0, (values - mean) / np.where(deviation > 0, deviation, 1), 0)


def normal_scores_of(run: str, reader: Any, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """By NumPy's interpolation between the knots."""
    knots, scores = (
        reader.get_tensor(f"tower/normal_scores/{name}").reshape(SIZE, KNOTS) for name in ("knots", "scores")
    )
    if "FrameLevel" not in run:
        np.testing.assert_array_equal(knots[:, 0], values_of(60, 0)[0].min(0))
        np.testing.assert_array_equal(knots[:, -1], values_of(60, 0)[0].max(0))
    assert not scores[3].any()
    columns = [np.interp(values[..., k], knots[k], scores[k]) for k in range(SIZE)]
    return np.stack(columns, -1).astype(np.float32)


def test_a_run_scores_by_the_formula(run: str) -> None:
    """Checked against NumPy, with the numbers that the transform took from the training videos."""
    reader = tf.train.load_checkpoint(checkpoints.path_of(run, 30))
    names = reader.get_variable_to_shape_map()
    weights, biases = (
        reader.get_tensor(next(name for name in names if name.endswith(end) and name.count("/") == 2))
        for end in ("/weights", "/biases")
    )
    values, lengths = given(run)
    standard = (standardized if "standardize" in run else normal_scores_of)(run, reader, values)
    if standard.ndim == 3:
        mask = np.arange(3) < lengths[:, None]
        standard = (standard * mask[:, :, None]).sum(1) / lengths[:, None]
    expected = 1 / (1 + np.exp(-(standard @ weights + biases)))
    assert np.ptp(expected) > 0.3
    np.testing.assert_allclose(scores(run, run), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", cases.all_of(["saved_model", "onnx"], heavy=["onnx int8"]))
def test_an_export_gives_the_scores_of_the_run(run: str, tmp_path: pathlib.Path, form: str) -> None:
    out = tmp_path / ("m.onnx" if "onnx" in form else "out")  # the page of a model scores by such a file too
    words = ["--weights=int8"] if "int8" in form else []  # of few weights; what the transform needs stays as it is
    assert cli.main(["export", f"--model={run}", f"--format={form.split()[0]}", *words, f"--out={out}"]) == 0
    tolerance = 0.01 if words else 1e-5
    np.testing.assert_allclose(scores(str(out), run), scores(run, run), rtol=0, atol=tolerance)


@pytest.mark.heavy
def test_a_model_of_several_runs_give_the_scores_of_the_run(run: str, tmp_path: pathlib.Path) -> None:
    words = [f"--model={run},{run}", f"--out={tmp_path}/joined", f"--output_model_tgz={tmp_path}/joined.tgz"]
    assert cli.main(["ensemble", *words, f"--output_onnx={tmp_path}/joined.onnx"]) == 0
    for name in ("joined", "joined.onnx"):
        np.testing.assert_allclose(scores(f"{tmp_path}/{name}", run), scores(run, run), rtol=0, atol=1e-5)


@pytest.mark.heavy
def test_a_run_that_starts_from_it_has_the_same_scores(run: str, tmp_path: pathlib.Path) -> None:
    pattern = f"{pathlib.Path(run).parent}/" + ("frames" if "FrameLevel" in run else "data/video/train/*") + ".tfrecord"
    words = [f"--data={pattern}", f"--init_from={run}", "--max_steps=0", f"--out={tmp_path}/more", f"--num_classes={C}"]
    assert cli.main(["train", *words]) == 0
    np.testing.assert_allclose(scores(f"{tmp_path}/more", run), scores(run, run), rtol=0, atol=1e-5)
