"""train, eval and inference one after the other, as a user runs them, on real records."""

from __future__ import annotations

import contextlib
import ctypes
import json
import pathlib
import re
import shlex
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf2
from golden_data import golden
from sklearn.metrics import average_precision_score
from small_run import train_words

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line import cli
from yt8m.eval_util import eval_samples
from yt8m.lazy import tf
from yt8m.runner import metric_files

DATA = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]


AVERAGED = "--moving_average_decay=0.9"


def train_flags(folder: pathlib.Path, *more: str) -> list[str]:
    pattern = golden("checkpoint_logistic/train.tfrecord")
    given = {flag.partition("=")[0] for flag in more}
    usual = ["--batch_size=16", "--num_gpu=2", "--max_steps=20", f"--train_dir={folder}/run", *DATA]
    kept = [flag for flag in usual if flag.partition("=")[0] not in given]
    return [f"--train_data_pattern={pattern}", "--num_epochs=100", *kept, *more]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("programs")
    assert train.main(train_flags(folder, AVERAGED)) == 0
    return folder


def copy_run(trained: pathlib.Path, folder: pathlib.Path) -> None:
    """A run in `folder`, as training left it."""
    later = shutil.ignore_patterns("best", "eval", "inference_model", "events.*")
    shutil.copytree(trained / "run", folder / "run", ignore=later)


def test_a_run_leaves_what_it_should(trained: pathlib.Path) -> None:
    names = {path.name for path in (trained / "run").iterdir()}
    assert {"config.json", "model_flags.json", "checkpoint", "metrics.jsonl", "export"} <= names
    assert {"model.ckpt-0.index", "model.ckpt-20.index", "model.ckpt-20.meta"} <= names
    config = json.loads((trained / "run/config.json").read_text())["config"]
    assert config["devices"]["num_gpu"] == 2
    lines = [json.loads(line) for line in (trained / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20]
    assert lines[1]["loss"] < lines[0]["loss"]
    (events,) = (trained / "run").glob("events.*")
    first = {one.tag for each in tf.train.summary_iterator(str(events)) if each.step == 1 for one in each.summary.value}
    assert {"learning_rate", "model/input_raw", "tower/fully_connected/weights"} <= first


def test_eval_writes_its_report_and_an_inference_model(
    trained: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = golden("checkpoint_logistic/test.tfrecord")
    flags = [f"--train_dir={trained}/run", f"--eval_data_pattern={data}", "--run_once", "--keep_best"]
    assert evaluation.main([*flags, "--report"]) == 0
    report = json.loads((trained / "run/eval/report.json").read_text())
    assert report["global_step"] == 20
    assert report["num_examples"] == 21
    assert 0.4 < report["gap"] < 1
    assert len(report["classes"]) == report["num_classes_with_positives"] == 10
    # Ten classes are one's own, and class 0 is not YouTube-8M's.
    assert [row["name"] for row in report["classes"]] == [f"class {row['class']}" for row in report["classes"]]
    shown = capsys.readouterr().out
    assert "class 9 (9)" in shown
    assert "Game" not in shown
    assert (trained / "run/inference_model/inference_model.meta").exists()
    best = json.loads((trained / "run/best/best.json").read_text())
    assert best["gap"] == pytest.approx(report["gap"])
    assert (trained / "run/best/model.ckpt-20.index").exists()
    page = (trained / "run/eval/report.html").read_text()
    assert f">{report['gap']:.4f}</div>" in page
    assert page.count("<img ") == 6 + 4  # curves of loss, rate and four figures; four of the evaluation


HIT_AT_FIVE = """
from yt8m.eval_util.metrics import MeanMetric


class HitAtFive(MeanMetric):
    name, key, percent, digits = "Hit@5 <b>", "hit_at_five", True, 4

    @classmethod
    def of_examples(cls, batch):
        return (batch.columns.hits & batch.columns.ranked)[:, :5].any(axis=1)
"""


def test_a_metric_of_ones_own_is_one_file_and_shown_everywhere(
    trained: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_metrics.py").write_text(HIT_AT_FIVE)
    monkeypatch.syspath_prepend(tmp_path)
    data = golden("checkpoint_logistic/test.tfrecord")
    flags = [f"--train_dir={trained}/run", f"--eval_data_pattern={data}", "--run_once", "--log_every_n_steps=1"]
    assert evaluation.main([*flags, "--report", "--metrics=my_metrics:HitAtFive"]) == 0
    figures, videos, *_ = eval_samples.read(str(trained / "run"))
    labels = np.zeros((len(videos), 10), bool)
    labels[videos.owners(), videos.labels] = True
    expected = np.take_along_axis(labels, videos.classes[:, :5], axis=1).any(axis=1).mean()
    assert figures["hit_at_five"] == pytest.approx(expected)
    assert json.loads((trained / "run/eval/report.json").read_text())["hit_at_five"] == figures["hit_at_five"]
    out, err = capfd.readouterr()
    shown = f"{100 * expected:.2f} %"
    assert f" | Avg_Hit@5 <b>: {shown} | num_classes: 10" in err
    assert f" | Batch Hit@5 <b>: {expected:.3f}" in err
    assert re.search(rf"Hit@5 <b> .* {shown}", out)
    events = [
        event for path in (trained / "run/eval").glob("events.*") for event in tf.train.summary_iterator(str(path))
    ]
    written = [value for event in events for value in event.summary.value if "Hit@5" in value.tag]
    assert [value.tag.partition("/")[0] for value in written] == [
        "GlobalStep",
        "Epoch",
    ]  # the only batch, and the whole
    assert [value.simple_value for value in written] == [pytest.approx(expected)] * 2
    assert f"Hit@5 &lt;b&gt; {shown}" in (trained / "run/eval/report.html").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--metrics=no_such_module:Mine", "cannot load metric 'no_such_module:Mine'"),
        ("--metrics=pathlib:Path", "must be a class that is derived from yt8m.eval_util.metrics.Metric"),
        ("--metrics=HitAtOne", "is taken already"),
        ("--metrics=yt8m.eval_util.metrics:Metric", "does not work on an evaluation without examples"),
        ("--callbacks=-eval_metrics", "would leave an evaluation without metrics"),
        ("--callbacks=-eval_basic", "cannot be removed; these can: eval_metrics, eval_speed"),
    ],
)
def test_a_wrong_metric_is_refused_before_the_work(
    trained: pathlib.Path, capfd: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    data = golden("checkpoint_logistic/test.tfrecord")
    assert evaluation.main([f"--train_dir={trained}/run", f"--eval_data_pattern={data}", "--run_once", given]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.heavy
def test_the_videos_that_were_kept_give_the_figures_again(trained: pathlib.Path) -> None:
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [f"--train_dir={trained}/run", f"--eval_data_pattern={data}", "--run_once", "--report"]
    assert evaluation.main(words) == 0
    figures, videos, num_classes, seen, _ = eval_samples.read(str(trained / "run"))
    assert (len(videos), num_classes, seen) == (21, 10, 21)
    scores, labels = np.zeros((21, 10)), np.zeros((21, 10), bool)
    np.put_along_axis(scores, videos.classes, videos.scores, axis=1)
    labels[videos.owners(), videos.labels] = True
    assert figures["gap"] == pytest.approx(average_precision_score(labels.ravel(), scores.ravel()), abs=1e-6)
    assert figures["map"] == pytest.approx(average_precision_score(labels, scores, average="macro"), abs=1e-6)
    assert [row["positives"] for row in figures["classes"]] == labels.sum(0).tolist()
    assert figures["perr"] == pytest.approx(videos.perr.mean())


@pytest.mark.heavy
def test_evaluating_twice_gives_the_same_report(trained: pathlib.Path) -> None:
    data = golden("checkpoint_logistic/test.tfrecord")
    reports = []
    for batch_size in (7, 64):
        flags = [f"--train_dir={trained}/run", f"--eval_data_pattern={data}", "--run_once"]
        assert evaluation.main([*flags, f"--batch_size={batch_size}"]) == 0
        reports.append(json.loads((trained / "run/eval/report.json").read_text()))
    for name in ("gap", "hit_at_one", "perr", "map", "loss"):
        assert reports[0][name] == pytest.approx(reports[1][name], abs=1e-6)
    history = list(metric_files.rows(str(trained / "run/eval")))[-2:]
    assert [row["step"] for row in history] == [20, 20]
    for row, told in zip(history, reports, strict=True):
        assert row == {"step": 20} | {one["name"]: told[one["key"]] for one in told["metrics"]}


@pytest.mark.heavy
def test_results_go_where_the_user_says_and_the_run_stays_as_it_is(trained: pathlib.Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (trained / "run").rglob("*")}
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [f"--train_dir={trained}/run", f"--eval_data_pattern={data}", "--run_once", "--keep_best", "--report"]
    assert evaluation.main([*words, f"--eval_dir={trained}/results"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (trained / "run").rglob("*")} == before
    written = {str(path.relative_to(trained / "results")) for path in (trained / "results").rglob("*")}
    assert {"best/best.json", "inference_model/inference_model.meta", "eval/report.json", "eval/report.html"} < written
    assert json.loads((trained / "results/eval/report.json").read_text())["num_examples"] == 21


@contextlib.contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Inside the block, permissions bind root too: this thread lacks the capability to override them."""
    libc, header, words = (
        ctypes.CDLL(None, use_errno=True),
        (ctypes.c_uint32 * 2)(0x20080522, 0),
        (ctypes.c_uint32 * 6)(),
    )
    assert libc.capget(header, words) == 0
    effective = words[0]
    words[0] = effective & ~(1 << 1)  # CAP_DAC_OVERRIDE
    assert libc.capset(header, words) == 0
    try:
        yield
    finally:
        words[0] = effective
        assert libc.capset(header, words) == 0


@pytest.mark.parametrize("place", ["", "eval"])
def test_a_run_that_cannot_be_written_is_refused_before_it_is_read(
    place: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / place).chmod(0o555)
    with bound_by_permissions():
        status = evaluation.main([f"--train_dir={tmp_path}", "--run_once"])
    (tmp_path / place).chmod(0o755)
    assert status == 2
    said = capfd.readouterr().err
    assert f"error: {tmp_path / place} is not writable, but" in said
    assert "name another folder by --eval_dir" in said


def test_an_export_that_could_not_be_written_is_refused_before_the_training(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "closed").mkdir(0o555)
    exported = tmp_path / "closed/exported"
    words = train_words(tmp_path / "run", f"--export_dir={exported}", "--max_steps=1")
    with bound_by_permissions():
        assert train.main(words) == 2
    expected = f"--export_dir={exported} is not writable; change its permissions, or name another folder.\n"
    assert capfd.readouterr().err == f"train.py: error: {expected}"
    assert not (tmp_path / "run").exists()


def predictions_of(trained: pathlib.Path, *flags: str) -> dict[str, dict[int, float]]:
    data, output = golden("checkpoint_logistic/test.tfrecord"), trained / "out.csv"
    words = [f"--train_dir={trained}/run", f"--input_data_pattern={data}", f"--output_file={output}", *flags]
    assert inference.main(words) == 0
    return scores_of(output)


def scores_of(output: pathlib.Path) -> dict[str, dict[int, float]]:
    """The scores of a CSV by video and class."""
    table = {}
    for line in output.read_text().splitlines()[1:]:
        video_id, _, pairs = line.partition(",")
        words = pairs.split()
        table[video_id] = dict(zip(map(int, words[::2]), map(float, words[1::2]), strict=True))
    return table


@pytest.fixture(scope="module")
def predicted(trained: pathlib.Path) -> dict[str, dict[int, float]]:
    """The scores of all ten classes, fewer than are asked for."""
    return predictions_of(trained, "--top_k=50")


@pytest.mark.heavy
def test_top_k_above_the_class_count_is_clipped(predicted: dict[str, dict[int, float]]) -> None:
    assert {len(row) for row in predicted.values()} == {10}


def test_inference_says_which_checkpoint_predicts_and_that_it_replaces_a_file(
    trained: pathlib.Path, predicted: dict[str, dict[int, float]], capfd: pytest.CaptureFixture[str]
) -> None:
    (trained / "out.csv").unlink()
    told = f"INFO {trained}/out.csv exists already: it will be replaced\n"
    first = predictions_of(trained, "--top_k=3")
    said = capfd.readouterr().err
    assert (
        said.count(f"INFO the model is LogisticModel, step 20, averaged weights, from {trained}/run/model.ckpt-20\n")
        == 1
    )
    assert told not in said
    assert first == {video_id: dict(list(row.items())[:3]) for video_id, row in predicted.items()}
    assert predictions_of(trained) == predicted
    assert capfd.readouterr().err.count(told) == 1


def test_the_export_loads_in_plain_tf2_and_predicts_as_inference(
    trained: pathlib.Path, predicted: dict[str, dict[int, float]]
) -> None:
    model = tf2.saved_model.load(str(trained / "run/export/20"))
    records = [record.numpy() for record in tf2.data.TFRecordDataset(str(golden("checkpoint_logistic/test.tfrecord")))]
    answers = model.signatures["serving_default"](example_bytes=tf2.constant(records))
    found = {name: value.numpy().tolist() for name, value in answers.items()}
    video_ids = [video_id.decode() for video_id in found["video_id"]]
    assert video_ids == list(predicted)
    for video_id, classes, scores in zip(video_ids, found["class_indexes"], found["predictions"], strict=True):
        row = predicted[video_id]
        assert classes == list(row)
        np.testing.assert_allclose(scores, list(row.values()), atol=1.5e-6)


@pytest.mark.heavy
def test_resume_takes_changed_flags_and_refuses_another_model(
    trained: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy_run(trained, tmp_path)
    assert train.main(train_flags(tmp_path, AVERAGED, "--max_steps=23", "--base_learning_rate=0.5")) == 0
    said = capfd.readouterr().err
    assert re.search(r"this start differs from the last one of the run: .*base_learning_rate: 0\.01 -> 0\.5", said)
    assert "the graph is rebuilt" in said
    assert "base_learning_rate was 0.01 and is 0.5" in said
    assert train.main(train_flags(tmp_path, "--model=MoeModel")) == 2
    assert "model: LogisticModel -> MoeModel" in capfd.readouterr().err
    assert train.main(train_flags(tmp_path, "--model=MoeModel", "--start_new_model", "--max_steps=2")) == 0
    assert [path.name for path in tmp_path.glob("run.old-*/model.ckpt-23.index")] == ["model.ckpt-23.index"]


@pytest.mark.heavy
def test_a_run_that_never_took_a_step_gives_way_to_the_corrected_command(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first command has too few classes; the corrected one is another model, and yet it is not refused."""
    assert train.main(train_flags(tmp_path, "--num_classes=2", "--max_steps=2")) == 1
    assert (tmp_path / "run/model.ckpt-0.index").exists()
    failed = capfd.readouterr().err
    reason = re.search(r" ERROR (.+)\n", failed)[1]
    assert failed.count(reason) == 1, "the log says it twice"
    assert re.search(rf"ended at step 0: .*\({tmp_path}/run\)", failed)
    assert train.main(train_flags(tmp_path, "--max_steps=2")) == 0
    out, said = capfd.readouterr()
    (aside,) = tmp_path.glob("run.old-*")
    assert re.search(f"{tmp_path}/run .*never took a step.* moved to {aside}", said)
    assert "differs from the last one" not in said  # that run is elsewhere now
    assert {"config.json", "model_flags.json", "model.ckpt-0.index"} <= {path.name for path in aside.iterdir()}
    assert (tmp_path / "run/model.ckpt-2.index").exists()
    for told in (f"TensorBoard: {tmp_path}/run\n", f"model: {tmp_path}/run/export/2\n"):
        assert told in out
    assert f"  yt8m eval --model={tmp_path}/run --data='FILES' --run_once\n" in out
    assert train.main(train_flags(tmp_path, "--max_steps=3", "--model=MoeModel")) == 2  # this run has taken steps


@pytest.mark.heavy
def test_the_end_of_a_run_names_commands_that_work(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    for split, source in (("train", "train"), ("validate", "test")):
        folder = tmp_path / f"my data/{split}"
        folder.mkdir(parents=True)
        shutil.copy(golden(f"checkpoint_logistic/{source}.tfrecord"), folder / f"{split}0.tfrecord")
    words = [word for word in train_flags(tmp_path, "--max_steps=2") if "data_pattern" not in word]
    assert train.main([*words, f"--train_data_pattern={tmp_path}/my data/train/train*.tfrecord"]) == 0
    told = [shlex.split(line) for line in capfd.readouterr().out.splitlines() if line.startswith("  yt8m")]
    assert [words[1] for words in told] == ["eval", "predict"]
    assert f"--data={tmp_path}/my data/validate/validate*.tfrecord" in told[0]
    for words in told:
        assert cli.main(words[1:]) == 0
    assert "labels: " in capfd.readouterr().out


@pytest.mark.heavy
def test_resume_with_the_same_flags_goes_on_in_the_saved_graph(
    trained: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy_run(trained, tmp_path)
    assert train.main(train_flags(tmp_path, AVERAGED, "--max_steps=27", "--num_readers=8")) == 0
    said = capfd.readouterr().err
    assert "model.ckpt-20 with the graph saved" in said
    assert "training ended at step 27" in said


def test_no_checkpoint_is_an_error(
    trained: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy_run(trained, tmp_path)
    for path in (tmp_path / "run").glob("*ckpt*"):
        path.unlink()
    (tmp_path / "run/checkpoint").unlink()
    data = golden("checkpoint_logistic/test.tfrecord")
    flags = [f"--train_dir={tmp_path}/run", f"--eval_data_pattern={data}", "--run_once"]
    assert evaluation.main(flags) == 1
    assert "no checkpoint in" in capfd.readouterr().err
    words = [f"--train_dir={tmp_path}/run", f"--input_data_pattern={data}", f"--output_file={tmp_path}/o.csv"]
    assert inference.main(words) == 1
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.heavy
def test_frame_level_programs_run_on_frame_records(tmp_path: pathlib.Path) -> None:
    data = golden("tiny_frame.tfrecord")
    flags = [
        f"--train_data_pattern={data}",
        f"--train_dir={tmp_path}/run",
        "--frame_features",
        "--model=FrameLevelLogisticModel",
        "--feature_names=rgb,audio",
        "--feature_sizes=16,8",
        "--num_classes=20",
        "--batch_size=3",
        "--num_gpu=2",
        "--num_epochs=4",
    ]
    assert train.main(flags) == 0
    assert evaluation.main([f"--train_dir={tmp_path}/run", f"--eval_data_pattern={data}", "--run_once"]) == 0
    archive, first, second = tmp_path / "m.tgz", tmp_path / "1.csv", tmp_path / "2.csv"
    words = [f"--input_data_pattern={data}", "--batch_size=5"]
    run = [f"--train_dir={tmp_path}/run", f"--output_file={first}", f"--output_model_tgz={archive}"]
    packed = [f"--input_model_tgz={archive}", f"--untar_model_dir={tmp_path}/u", f"--output_file={second}"]
    assert inference.main([*words, *run]) == 0
    assert inference.main([*words, *packed]) == 0
    found, packed_found = (scores_of(path) for path in (first, second))
    assert len(found) == 8
    assert list(found) == list(packed_found)
    for video_id, row in found.items():
        assert row == pytest.approx(packed_found[video_id], abs=1.5e-6)
