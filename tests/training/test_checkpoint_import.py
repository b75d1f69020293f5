"""`yt8m import-checkpoint` on checkpoints that the tests write as the published code did."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from golden_data import golden, published, published_vector
from models.published_networks import SIZES, Drawn, described, files, given_for
from reader_records import frame_record, video_record, write_shard
from small_run import weights

import yt8m
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.models.published import NETWORKS, SCOPE, SOURCES, find, variables
from yt8m.records import vocabulary
from yt8m.records.batches import NumpyBatch
from yt8m.runner import checkpoints
from yt8m.training.checkpoint_import import Checkpoint

FEATURES, SMALL_CLASSES, EXPERTS = 6, 4, 3
WORDS = ["--model=MoeModel", "--feature_names=mean_rgb", f"--feature_sizes={FEATURES}", f"--moe_num_mixtures={EXPERTS}"]
random = np.random.RandomState(0)
# A mixture of experts as the starter code names it.
MOE = {
    "gates/weights": random.normal(size=(FEATURES, SMALL_CLASSES * (EXPERTS + 1))),
    "experts/weights": random.normal(size=(FEATURES, SMALL_CLASSES * EXPERTS)),
    "experts/biases": random.normal(size=SMALL_CLASSES * EXPERTS),
}


def write_checkpoint(
    path: pathlib.Path, values: Mapping[str, Any], step: int = 700, *, scope: str = "tower/", former: bool = False
) -> str:
    """A checkpoint of TensorFlow 1, with what Adam keeps; returns its prefix.

    Args:
      values: {name without scope: value}.
      scope: before each name; the code of 2017 had none.
      former: whether it is a single file, as in the first versions of TensorFlow.
    """
    whole = {f"{scope}{name}": np.asarray(value, np.float32) for name, value in values.items()}
    slots = {f"{name}/Adam{number}": value + 7.0 for name, value in whole.items() for number in ("", "_1")}
    others = {
        "global_step": np.array(step, np.int32),
        "model/beta1_power": np.float32(0.5),
        "beta2_power": np.float32(1),
    }
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in {**whole, **slots, **others}.items():
            tf.get_variable(name, initializer=tf.constant(value), use_resource=False)
        session.run(tf.global_variables_initializer())
        kind = tf.train.SaverDef.V1 if former else tf.train.SaverDef.V2
        return str(tf.train.Saver(write_version=kind).save(session, str(path / "model.ckpt"), step))


def imported(source: str, checkpoint: str, out: pathlib.Path, *words: str) -> int:
    return cli.main(["import-checkpoint", f"--from={source}", f"--checkpoint={checkpoint}", f"--out={out}", *words])


def predicted(run: pathlib.Path, batch: NumpyBatch) -> np.ndarray:
    """float32 [B, C], the predictions of a run."""
    with yt8m.load(run) as model:
        rows = np.zeros((len(batch), model.num_classes), np.float32)
        for row, video in enumerate(model.predict(batch, top_k=model.num_classes)):
            for one in video.classes:
                rows[row, one.index] = one.score
    return rows


def batch_of(features: Mapping[str, np.ndarray], frames: int = 1) -> NumpyBatch:
    rows = len(next(iter(features.values())))
    counts = np.full(rows, frames, np.int32)
    return NumpyBatch([f"v{row}" for row in range(rows)], features, counts, np.zeros((0, 0), bool))


def mixture(x: np.ndarray) -> np.ndarray:
    """The starter code's mixture of experts on rows of length 1, by NumPy."""
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    gates = np.exp(x @ MOE["gates/weights"]).reshape(-1, SMALL_CLASSES, EXPERTS + 1)
    votes = (x @ MOE["experts/weights"] + MOE["experts/biases"]).reshape(-1, SMALL_CLASSES, EXPERTS)
    return ((gates / gates.sum(2, keepdims=True))[:, :, :-1] / (1 + np.exp(-votes))).sum(2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run from a checkpoint of 2017: a single file, and no scope."""
    folder = tmp_path_factory.mktemp("imported")
    path = write_checkpoint(folder, MOE, scope="", former=True)
    assert not pathlib.Path(f"{path}.index").exists()
    assert imported("google", path, folder / "run", *WORDS) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Records of videos."""
    draw = np.random.RandomState(1)
    records = [
        video_record(id=[f"v{row}".encode()], labels=[row % SMALL_CLASSES], mean_rgb=draw.normal(size=FEATURES))
        for row in range(24)
    ]
    return write_shard(tmp_path_factory.mktemp("data") / "train.tfrecord", records)


@pytest.mark.heavy
def test_the_run_predicts_as_the_published_network(run: pathlib.Path) -> None:
    x = np.random.RandomState(2).normal(size=(5, FEATURES)).astype(np.float32)
    np.testing.assert_allclose(predicted(run, batch_of({"mean_rgb": x})), mixture(x), rtol=1e-5)


@pytest.mark.promise("C10")
def test_the_run_is_complete(run: pathlib.Path) -> None:
    assert checkpoints.steps_in(str(run)) == [700]
    found = weights(run, 700)
    assert found["global_step"] == 700
    for name, value in MOE.items():
        np.testing.assert_array_equal(found[f"tower/{name}"], value.astype(np.float32))
        assert not found[f"tower/{name}/Adam"].any()  # a new optimizer
    assert json.loads((run / "config.json").read_text())["config"]["data"]["num_classes"] == SMALL_CLASSES
    assert json.loads((run / "ended.json").read_text())["status"] == "finished"
    assert not run.with_name("run.partial").exists()


@pytest.mark.heavy
def test_the_run_evaluates_exports_and_trains_on(run: pathlib.Path, data: str, tmp_path: pathlib.Path) -> None:
    of_run = f"--train_dir={run}"
    assert cli.main(["eval", of_run, f"--eval_data_pattern={data}", "--run_once"]) == 0
    assert json.loads((run / "eval/report.json").read_text())["num_examples"] == 24
    assert cli.main(["export", of_run, f"--out={tmp_path / 'export'}"]) == 0
    x = np.random.RandomState(3).normal(size=(5, FEATURES)).astype(np.float32)
    with yt8m.load(tmp_path / "export" / "saved_model") as model:
        best = [video.classes[0].index for video in model.predict(batch_of({"mean_rgb": x}), top_k=1)]
    assert best == mixture(x).argmax(1).tolist()
    training = [f"--train_data_pattern={data}", "--batch_size=8", f"--num_classes={SMALL_CLASSES}", *WORDS]
    assert cli.main(["train", f"--init_from={run}", f"--train_dir={tmp_path / 'new'}", "--max_steps=1", *training]) == 0
    before = weights(run, 700)["tower/gates/weights"]
    assert cli.main(["train", of_run, "--max_steps=702", *training]) == 0
    assert checkpoints.steps_in(str(run))[0] == 702
    for folder, step in ((run, 702), (tmp_path / "new", 1)):
        moved = np.abs(weights(folder, step)["tower/gates/weights"] - before)
        assert 0 < moved.max() < 0.05  # a step of Adam is about as long as its rate, 0.01


def told(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().err.strip().splitlines()[-1]


@pytest.mark.promise("C10")
def test_what_does_not_fit_is_refused_by_name(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    more = {**MOE, "attention/weights": np.ones(3), "experts/biases/ExponentialMovingAverage": np.ones(12)}
    del more["gates/weights"]
    path = write_checkpoint(tmp_path, more)
    assert imported("google", path, tmp_path / "out", *WORDS[:-1], "--moe_num_mixtures=5") == 1
    message = told(capfd)
    for part in (
        f"{path} is not of this MoeModel",
        "no variable of the model takes tower/attention/weights, tower/experts/biases/ExponentialMovingAverage;",
        "the checkpoint has no variable for tower/gates/weights;",
    ):
        assert part in message
    assert imported("google", path, tmp_path / "out", *WORDS, "--num_classes=5") == 1
    assert "tower/experts/biases has [12], and tower/experts/biases has [15]" in told(capfd)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.promise("C10")
def test_two_variables_of_one_name_are_refused(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    twice = {**{f"tower/{name}": value for name, value in MOE.items()}, "experts/biases": MOE["experts/biases"]}
    path = write_checkpoint(tmp_path, twice, scope="")
    assert imported("google", path, tmp_path / "out", *WORDS) == 1
    assert "takes experts/biases, tower/experts/biases" in told(capfd)


@pytest.mark.promise("C10")
def test_a_training_that_had_failed_is_refused(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_checkpoint(tmp_path, {**MOE, "experts/biases": MOE["experts/biases"] * np.nan})
    assert imported("google", path, tmp_path / "out", *WORDS) == 1
    assert "the variable tower/experts/biases holds NaN or infinity" in told(capfd)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "model", "name", "shape"),
    [
        ("willow", "NetVladModel", "video_VLAD/cluster_weights", (5,)),
        ("wangheda", "BiLstmModel", "RNN/fw/multi_rnn_cell/cell_0/basic_lstm_cell/bias", ()),
    ],
)
def test_a_variable_with_too_few_axes_is_refused_by_its_shape(
    source: str, model: str, name: str, shape: tuple[int, ...]
) -> None:
    taken = variables(find(source, model), {name: shape, "gates/weights": (5, 3)})
    assert taken[name].shape(shape) == shape  # what the command compares with the model's
    assert taken["gates/weights"].rows is None


def test_no_checkpoint(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("this is no checkpoint\n" * 100)
    for name, status, message in (
        ("text", 1, "text is not a checkpoint of TensorFlow, or is damaged: "),
        ("nothing", 2, "nothing.index nor a file "),
        (".", 2, "the folder has no checkpoint named model.ckpt-N"),
    ):
        assert imported("google", str(tmp_path / name), tmp_path / "out", *WORDS) == status
        assert message in told(capfd)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from=willlow"], "--from=willlow: expected google or willow or wangheda or linrongc; did you mean willow?"),
        (["--model=LstmModel"], "--from is missing"),
        (["--from=willow", "--model=DbofModel"], "DbofModel is a network of --from=google."),
        (["--from=wangheda", "--model=CnnModel"], "LstmAttentionMaxModel (LstmAttentionMaxPoolingModel there)"),
        (["--from=willow", "--model=NetFvModel", "--nofv_variances_as_whole"], "NetFVModelLF of https://github.com/"),
        (["--from=google", "--train_dir=x"], "unknown flag --train_dir"),
    ],
)
def test_wrong_usage(words: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import-checkpoint", "--checkpoint=model.ckpt-1", "--out=out", *words]) == 2
    assert message in told(capfd)


TRANSFORMS = {
    "l2_normalize": lambda raw: tf.nn.l2_normalize(raw, 2),
    "reverse_whitening": lambda raw: tf.multiply(raw - tf.fill([8], 0.1), tf.fill([8], 2.0)),
    "": tf.identity,
}


def checkpoint_with_graph(path: pathlib.Path, transform: str) -> str:
    """A checkpoint whose .meta has the collections of the published train.py; its variables are of no network."""
    with tf.Graph().as_default(), tf.Session() as session:
        raw = tf.placeholder(tf.float32, [None, 3, 8])
        tf.add_to_collection("input_batch_raw", raw)
        tf.add_to_collection("input_batch", TRANSFORMS[transform](raw))
        tf.add_to_collection("predictions", tf.get_variable("tower/w", [2]))
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(path / "model.ckpt"), 5))


NEXTVLAD = ("--model=NeXtVladModel", "--feature_names=rgb,audio", "--feature_sizes=1024,128", "--frame_features")


@pytest.mark.parametrize(("transform", "other"), [("l2_normalize", "raw"), ("reverse_whitening", "l2_normalize")])
def test_the_input_transform_is_that_of_the_checkpoints_graph(
    transform: str, other: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint_with_graph(tmp_path, transform)
    assert Checkpoint.open(path).input_transform() == transform
    assert imported("linrongc", path, tmp_path / "out", *NEXTVLAD, f"--input_transform={other}") == 2
    assert f"--input_transform={other}, but the graph in {path}.meta has {transform}" in told(capfd)


def test_an_input_transform_that_no_graph_shows_is_asked_for(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint_with_graph(tmp_path, "")
    assert imported("linrongc", path, tmp_path / "out", *NEXTVLAD) == 2
    assert "give --input_transform=reverse_whitening for train.py of linrongc/youtube-8m (2018), or " in told(capfd)
    assert imported("linrongc", path, tmp_path / "out", *NEXTVLAD, "--input_transform=l2_normalize") == 1
    assert "is not of this NeXtVladModel" in told(capfd)  # it goes on to the variables


def test_the_page_lists_the_networks() -> None:
    page = pathlib.Path(__file__).parents[2] / "docs/users/published.md"
    told = re.findall(r"^\| (\w+) \| (\w+)(?: with `--(\w+)`)? \| (\w+) \|$", page.read_text(), re.MULTILINE)
    assert told == [(one.source, one.published_class, one.switch, one.model) for one in NETWORKS]
    for address in re.findall(r"https://\S+", " ".join(SOURCES.values())):
        assert f"({address})" in page.read_text()


def test_a_run_of_the_starter_code(tmp_path: pathlib.Path) -> None:
    folder = golden("checkpoint_logistic")
    features = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8"]
    assert imported("google", str(folder / "train_dir"), tmp_path / "run", "--model=LogisticModel", *features) == 0
    words = [f"--train_dir={tmp_path / 'run'}", f"--input_data_pattern={folder / 'test.tfrecord'}", "--top_k=10"]
    assert cli.main(["inference", *words, f"--output_file={tmp_path / 'out.csv'}"]) == 0
    found, recorded = (numbers(path.read_text()) for path in (tmp_path / "out.csv", folder / "predictions.csv"))
    assert found.keys() == recorded.keys()
    for video, scores in recorded.items():
        np.testing.assert_allclose(found[video], scores, atol=2e-6)


def numbers(text: str) -> dict[str, list[float]]:
    """{id: its classes and scores} of a file of predictions."""
    lines = [line.partition(",") for line in text.splitlines()[1:]]
    return {video: [float(word) for word in pairs.split()] for video, _, pairs in lines}


# --- the vectors of published code ---

QUICK = ("w_gatedmoe",)
every_file = pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=() if path.stem in QUICK else (pytest.mark.long, pytest.mark.heavy))
        for path in files()
    ],
)


class Imported(NamedTuple):
    """A network of the vectors.

    Attributes:
      run: the folder of the run.
      words: flags that say what it reads.
      batch: the inputs of the vectors.
      predictions: those of the published code.
    """

    run: pathlib.Path
    words: list[str]
    batch: NumpyBatch
    predictions: np.ndarray


def imported_vectors(name: str, folder: pathlib.Path, transform: str = "") -> Imported:
    """Imports a checkpoint of the variables of a file; the published defaults are left to the command."""
    with np.load(published() / f"{name}.npz") as arrays:
        drawn, kind = Drawn.of(arrays), described(arrays)
        words = [f"--{option}={value}" for option, value in given_for(arrays).items()]
        expected = arrays["eval/predictions"]
    path = write_checkpoint(folder, {name.removeprefix(SCOPE): value for name, value in drawn.values.items()})
    words += [f"--input_transform={transform}"] if transform else []
    x = as_dequantised(drawn.inputs, is_whitened=transform == "reverse_whitening")
    has_frames = x.ndim == 3
    names = ("rgb", "audio") if has_frames else ("mean_rgb", "mean_audio")
    words += [f"--model={kind.model}", f"--feature_names={','.join(names)}", "--feature_sizes=1024,128"]
    words += ["--frame_features"] if has_frames else []
    assert imported(kind.source, path, folder / "run", *words) == 0
    features = dict(zip(names, np.split(x, [SIZES[0]], -1), strict=True))
    return Imported(folder / "run", words, batch_of(features, x.shape[1] if has_frames else 1), expected)


def as_dequantised(inputs: np.ndarray, is_whitened: bool) -> np.ndarray:
    """Features whose transform gives these inputs, which have length 1."""
    if not is_whitened:
        return inputs
    raw = inputs.copy()
    raw[..., : SIZES[0]] /= np.sqrt(vocabulary.pca_eigenvalues()[: SIZES[0]]) + 1e-4
    raw[..., : SIZES[0]] += 4 / 512
    return raw


@pytest.mark.published
@every_file
def test_imported_networks_predict_as_the_vectors(name: str, tmp_path: pathlib.Path) -> None:
    # The vectors of linrongc's networks begin after the transform, so they hold for each.
    for transform in ("reverse_whitening", "l2_normalize") if name.startswith("n_") else ("",):
        made = imported_vectors(name, folder := tmp_path / (transform or "run"), transform)
        assert folder.is_dir()
        np.testing.assert_allclose(predicted(made.run, made.batch), made.predictions, rtol=1e-5)


@pytest.mark.published
@pytest.mark.long
@pytest.mark.heavy
def test_an_imported_network_of_frames_is_a_run(tmp_path: pathlib.Path) -> None:
    published_vector("w_netvlad")
    made = imported_vectors("w_netvlad", tmp_path)
    of_run = f"--train_dir={made.run}"
    assert cli.main(["export", of_run, f"--out={tmp_path / 'export'}"]) == 0
    np.testing.assert_allclose(predicted(tmp_path / "export/saved_model", made.batch), made.predictions, rtol=1e-5)
    draw = np.random.RandomState(0)
    frames = {name: draw.randint(256, size=(9, size), dtype=np.uint8) for name, size in (("rgb", 1024), ("audio", 128))}
    records = [frame_record({"id": [b"abcd"], "labels": [label]}, frames) for label in range(4)]
    data = write_shard(tmp_path / "train.tfrecord", records)
    assert cli.main(["eval", of_run, f"--eval_data_pattern={data}", "--run_once"]) == 0
    words = [f"--config={made.run}/config.json", f"--train_data_pattern={data}", "--num_classes=7"]
    assert cli.main(["train", of_run, *words, "--batch_size=2", "--max_steps=701"]) == 0
    assert checkpoints.steps_in(str(made.run)) == [701, 700]
