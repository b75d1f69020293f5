"""`yt8m predict` with an exported model: the classes that the model's own weights give, in words."""

from __future__ import annotations

import csv
import json
import pathlib
import shutil

import numpy as np
import pytest
import small_exports
from reader_records import frame_record, video_record, write_shard

from yt8m import eval as evaluation
from yt8m import scoring, train
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.records.shards import DamagedError
from yt8m.runner import checkpoints
from yt8m.scoring import graph_scorer
from yt8m.scoring.model_input import types_of

CLASSES, SIZE = 30, 6
DATA = ["--feature_names=mean_rgb", f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run with its export, and the records it was trained on."""
    folder = tmp_path_factory.mktemp("predict")
    draw = np.random.default_rng(1)
    records = [
        video_record(id=[b"v%02d" % row], labels=[row % 7, 20], mean_rgb=draw.normal(size=SIZE).astype("f4"))
        for row in range(12)
    ]
    write_shard(folder / "a.tfrecord", records[:8])
    write_shard(folder / "b.tfrecord", records[8:])
    flags = [f"--train_data_pattern={folder}/*.tfrecord", f"--train_dir={folder}/run", *DATA]
    assert train.main([*flags, "--batch_size=4", "--max_steps=8", "--export_model_steps=4"]) == 0
    return folder


def expected(folder: pathlib.Path) -> np.ndarray:
    """Scores of the logistic model from the checkpoint's own weights, by NumPy."""
    reader = tf.train.load_checkpoint(str(folder / "run/model.ckpt-8"))
    weights = reader.get_tensor("tower/fully_connected/weights").astype(np.float64)
    biases = reader.get_tensor("tower/fully_connected/biases").astype(np.float64)
    draw = np.random.default_rng(1)
    features = np.array([draw.normal(size=SIZE).astype("f4") for _ in range(12)], np.float64)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return 1 / (1 + np.exp(-(features @ weights + biases)))


def blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.strip().split("\n\n")]


def test_the_best_classes_in_words(world, capsys):
    assert cli.main(["predict", "--model", f"{world}/run", f"{world}/*.tfrecord", "--count=10"]) == 0
    shown, scores = blocks(capsys.readouterr().out), expected(world)
    names = [f"class {index}" for index in range(CLASSES)]  # of one's own, since there are 30
    assert len(shown) == 10
    for row, (title, *lines) in enumerate(shown):
        labels = sorted({row % 7, 20})
        assert title == f"v{row:02d}  labels: {', '.join(names[label] for label in labels)}"
        best = np.argsort(-scores[row])[:5]
        assert [int(line.split()[-1]) for line in lines] == best.tolist()
        for line, index in zip(lines, best, strict=True):
            assert float(line.split()[0]) == pytest.approx(scores[row, index], abs=6e-4)
            assert names[index] in line
            assert ("*" in line) == (index in labels)


def test_a_few_records_need_no_ops_that_parse_them_and_the_checkpoint_is_checked_once(world, monkeypatch):
    graphs, checked = [], []
    build, problem_of = graph_scorer.build_towers, checkpoints.problem_of
    monkeypatch.setattr(
        graph_scorer,
        "build_towers",
        lambda *args, **more: (graphs.append(tf.get_default_graph()), build(*args, **more))[1],
    )
    monkeypatch.setattr(checkpoints, "problem_of", lambda path: (checked.append(path), problem_of(path))[1])
    assert cli.main(["predict", f"--model={world}/run", f"{world}/a.tfrecord"]) == 0
    (graph,), (path,) = graphs, checked
    assert path == f"{world}/run/model.ckpt-8"
    kinds = {op.type for op in graph.get_operations()}
    assert "MatMul" in kinds
    assert not [kind for kind in kinds if "Parse" in kind or "Proto" in kind or kind == "Assert"]


@pytest.mark.heavy
@pytest.mark.parametrize("names", [("rgb", "audio/floats"), ("rgb", "audio")])
def test_parsed_frames_have_the_scores_of_the_records(tmp_path, names):
    """The model was trained on the first 3 frames of a video; most videos have more."""
    draw = np.random.default_rng(1)
    rows = [
        {"rgb": draw.integers(0, 256, (length, SIZE), np.uint8), names[1]: draw.integers(0, 256, (length, 2), np.uint8)}
        for length in range(1, 7)
    ]
    if names[1].endswith("floats"):
        rows = [{**frames, names[1]: frames[names[1]].astype("f4") / 64 - 2} for frames in rows]
    records = [
        frame_record({"id": [b"v%d" % row], "labels": [row]}, {name: list(values) for name, values in frames.items()})
        for row, frames in enumerate(rows)
    ]
    path = write_shard(tmp_path / "a.tfrecord", records)
    data = [f"--feature_names={','.join(names)}", f"--feature_sizes={SIZE},2", f"--num_classes={CLASSES}"]
    flags = ["--frame_features", "--model=FrameLevelLogisticModel", "--max_frames=3", "--batch_size=6", "--max_steps=1"]
    assert train.main([f"--train_data_pattern={path}", f"--train_dir={tmp_path}/run", *data, *flags]) == 0
    raws = [(record, path, number) for number, record in enumerate(records)]
    scores = []
    for kind in ("records", "parsed records"):
        with scoring.open(f"{tmp_path}/run", first_input=kind) as scorer:
            videos = raws if kind == "records" else scorer.batch_of(raws, scorer.records(path, 6))
            assert types_of(videos) == scorer.takes.types_of(kind)
            scores.append(scorer.scores(videos)[1])
    np.testing.assert_array_equal(*scores)


@pytest.mark.heavy
def test_tags_are_the_classes_that_reach_the_thresholds_of_the_evaluation(world, capsys):
    evaluated = [f"--train_dir={world}/run", f"--eval_data_pattern={world}/*.tfrecord", "--run_once", "--report"]
    (world / "media.csv").write_text(f"id,address\nv03,{world}/clips/v03.mp4\n")
    assert evaluation.main([*evaluated, "--min_positives=2", "--top_k=10", f"--media={world}/media.csv"]) == 0
    assert '<a href="../../clips/v03.mp4" rel="noreferrer">v03</a>' in (world / "run/eval/report.html").read_text()
    rows = list(csv.DictReader((world / "run/eval/thresholds.csv").open()))
    scores = expected(world)
    truth = np.array([[index in (row % 7, 20) for index in range(CLASSES)] for row in range(12)])
    assert [int(row["positives"]) for row in rows] == truth.sum(0).tolist()
    limits = np.array([float(row["threshold"]) for row in rows])
    assert {row["step"] for row in rows} == {"8"}
    capsys.readouterr()
    out = world / "exported"
    assert cli.main(["export", f"--run={world}/run", f"--out={out}"]) == 0
    assert evaluation.main([f"--train_dir={out}", evaluated[1], "--run_once", f"--eval_dir={out}-evaluated"]) == 0
    assert json.loads(pathlib.Path(f"{out}-evaluated/eval/report.json").read_text())["global_step"] == 8
    for place in (out, out / "saved_model", world / "run/inference_model"):
        assert (place / "thresholds.csv").read_bytes() == (world / "run/eval/thresholds.csv").read_bytes()
    capsys.readouterr()
    earlier = [f"{world}/run/export/8", f"--thresholds={world}/run/eval/thresholds.csv"]  # made by the training
    for model in ([f"{world}/run"], [f"{out}"], [f"{out}/saved_model"], earlier):
        assert cli.main(["predict", "--tags", "--model", *model, f"{world}/*.tfrecord", "--count=12"]) == 0
        shown = blocks(capsys.readouterr().out)
        for row, (_, *lines) in enumerate(shown):
            best = np.argsort(-scores[row])[:20]
            tags = [int(index) for index in best if scores[row, index] >= limits[index]]
            shown_tags = [line.partition(" its threshold comes from")[0] for line in lines if "no tag" not in line]
            assert [int(tag.split()[-1]) for tag in shown_tags] == tags
            assert lines or not tags


def test_a_model_of_3862_classes_says_their_names(tmp_path, capsys):
    model = small_exports.export(tmp_path, "LogisticModel", len(vocabulary.load()))
    write_shard(tmp_path / "a.tfrecord", small_exports.video_records(3))
    assert cli.main(["predict", f"--model={model}", f"{tmp_path}/a.tfrecord", "--top_k=2"]) == 0
    names = vocabulary.load().names
    shown = blocks(capsys.readouterr().out)
    assert [title for title, *_ in shown] == [f"v{row:02d}  labels: {names[row]}" for row in range(3)]
    for _, *lines in shown:
        assert len(lines) == 2
        assert all(names[int(line.split()[-1])] in line for line in lines)


def test_one_video(world, capsys):
    words = [f"--model={world}/run/export/8", "--video_id=v09", "--top_k=2"]
    assert cli.main(["predict", *words, f"{world}/a.tfrecord", f"{world}/b.tfrecord"]) == 0
    ((title, *lines),) = blocks(capsys.readouterr().out)
    assert title.startswith("v09 ")
    assert len(lines) == 2


def test_an_exported_model_refuses_a_record_that_was_cut(world):
    cut = video_record(id=[b"x"], mean_rgb=np.zeros(SIZE))
    cut = b"\n" + bytes([cut[1] + 8]) + cut[2:]
    whole = video_record(id=[b"x"], mean_rgb=np.zeros(SIZE))
    for path in ("run", "run/export/8"):
        what = "f: record 1: it is not an Example or SequenceExample"
        with scoring.open(str(world / path)) as model, pytest.raises(DamagedError, match=what):
            model.scores([(whole, "f", 0), (cut, "f", 1)])


def test_the_newest_export_stands_for_a_run_without_checkpoints(world, tmp_path):
    shutil.copytree(world / "run", tmp_path / "run", ignore=shutil.ignore_patterns("model.ckpt*", "checkpoint"))
    shutil.rmtree(tmp_path / "run/inference_model", ignore_errors=True)
    with scoring.open(str(tmp_path / "run")) as model:
        assert model.weights == str(tmp_path / "run/export/8")
        assert (model.model, model.step) == ("LogisticModel", 8)
    assert (world / "run/export/4").is_dir()


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["{0}/a.tfrecord"], 2, "--model is missing"),
        (["--model={0}/run"], 2, "no file is named"),
        (["--model={0}/run", "{0}/nothing"], 2, "no file matches"),
        (["--model={0}/run", "{0}/a.tfrecord", "{0}/nothing"], 2, "no file matches '{0}/nothing'"),
        (["--model={0}/run", "{0}/nothing,{0}/a.tfrecord"], 2, "no file matches '{0}/nothing'"),
        (["--model={0}", "{0}/a.tfrecord"], 2, "holds no saved_model.pb"),
        (["--model={0}/run/export/8", "{0}/a.tfrecord", "--tags"], 2, "export/8 has no thresholds.csv; run `yt8m eval"),
        (["--model={0}/run", "{0}/a.tfrecord", "--thresholds=x.csv"], 2, "--thresholds has no effect without --tags"),
        (["--model={0}/run", "{0}/a.tfrecord", "--tags", "--thresholds=x.csv"], 2, "x.csv: there is no such file"),
        (["--model={0}/run", "{0}/*.tfrecord", "--video_id=zz"], 1, "/*.tfrecord: there is no video 'zz'"),
        (["--model={0}/run", "{0}/other"], 1, "/other: record 0: video x: feature mean_rgb is missing"),
        (
            ["--model={0}/run", "{0}/frames"],
            2,
            "takes video level with mean_rgb of 6; these records are frame level with rgb of 6.",
        ),
        (["--model={0}/run", "{0}/cut"], 1, "/cut: record 1: it is not an Example or SequenceExample: a field"),
        (["--model={0}/broken", "{0}/a.tfrecord"], 1, "the SavedModel cannot be loaded"),
    ],
)
def test_what_cannot_be_says_why(world, capsys, words, status, part):
    write_shard(world / "other", [video_record(id=[b"x"], labels=[1])])
    write_shard(world / "frames", [frame_record({"id": [b"x"], "labels": [1]}, {"rgb": [np.zeros(SIZE, np.uint8)]})])
    whole = video_record(id=[b"x"], mean_rgb=np.zeros(SIZE), labels=[1])
    write_shard(world / "cut", [whole, b"\n" + bytes([whole[1] + 8]) + whole[2:]])
    (world / "broken").mkdir(exist_ok=True)
    (world / "broken/saved_model.pb").write_bytes(b"nothing of the kind")
    assert cli.main(["predict", *(word.format(world) for word in words)]) == status
    assert part.format(world) in capsys.readouterr().err
