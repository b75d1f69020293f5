"""Validation while training: its figures are those of eval.py, and training itself stays as it is."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil

import pytest
from golden_data import golden
from reader_records import video_record, write_shard
from small_run import evaluate, run, weights

from yt8m import storage
from yt8m.command_line import flags
from yt8m.config.run_options import ValidationConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.records import shards, vocabulary
from yt8m.records.opened_data import open_data
from yt8m.reports import run_list
from yt8m.training import validator

PLAIN = ("--moving_average_decay=0.9", "--num_gpu=2")


def on_test() -> str:
    return f"--eval_data_pattern={golden('checkpoint_logistic/test.tfrecord')}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of 12 steps with validations, and the same run without."""
    folder = tmp_path_factory.mktemp("validated")
    assert run(folder / "run", *PLAIN, on_test(), "--eval_every_n_steps=5") == 0
    assert run(folder / "plain", *PLAIN) == 0
    return folder


def rows(folder: pathlib.Path, mode: str | None = "validate") -> list[dict]:
    found = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row for row in found if row.get("mode") == mode]


@pytest.mark.heavy
def test_every_validation_has_the_figures_of_eval_on_that_checkpoint(
    trained: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    validated = rows(trained / "run")
    assert [row["step"] for row in validated] == [5, 10, 12]
    for row in validated:
        alone = tmp_path / str(row["step"])
        alone.mkdir()
        for path in (trained / "run/config.json", *(trained / "run").glob(f"model.ckpt-{row['step']}.*")):
            shutil.copy(path, alone)
        report = evaluate(alone, "--batch_size=16", "--num_gpu=2")
        expected = {one["name"]: report[one["key"]] for one in report["metrics"]}
        assert expected.keys() == {"Hit@1", "PERR", "mAP", "GAP", "loss"}
        assert {name: row[name] for name in expected} == expected
        assert row["examples"] == report["num_examples"]
    assert {"step", "loss", "Hit@1", "PERR", "GAP"} <= set(rows(trained / "run", None)[-1])


def meta_graph(path: pathlib.Path) -> dict[str, str]:
    """The parts of a meta-graph as text.

    TensorFlow numbers the functions of a graph on from those of the process' earlier graphs, and graphs share traces of
    functions. So here each has the number of its first mention.
    """
    whole = tf.MetaGraphDef.FromString(path.read_bytes())
    texts = {function.signature.name: str(function) for function in whole.graph_def.library.function}
    numbers = _by_mention(str(whole.graph_def.node), texts)

    def renamed(part: object) -> str:
        return re.sub(r"\w+", lambda found: _numbered(found[0], numbers), str(part))

    functions = sorted(map(renamed, texts.values()))
    whole.graph_def.library.ClearField("function")
    parts = {field.name: renamed(value) for field, value in whole.ListFields() if field.name != "collection_def"}
    collections = {key: renamed(value) for key, value in whole.collection_def.items()}
    return parts | {"collection_def": str(sorted(collections.items())), "functions": "\n".join(functions)}


def _by_mention(nodes: str, texts: dict[str, str]) -> dict[str, int]:
    """The number of each function in the order in which the nodes, and the functions that they call, name them."""
    numbers: dict[str, int] = {}
    rest = [nodes, *texts.values()]
    while rest:
        new = [word for word in dict.fromkeys(re.findall(r"\w+", rest.pop(0))) if word in texts and word not in numbers]
        numbers |= {word: len(numbers) + place for place, word in enumerate(new)}
        rest[:0] = [texts[word] for word in new]
    return numbers


def _numbered(word: str, numbers: dict[str, int]) -> str:
    return f"{word.rpartition('_')[0]}_{numbers[word]}" if word in numbers else word


@pytest.mark.heavy
def test_the_training_is_the_same_with_and_without_validation(trained: pathlib.Path) -> None:
    graphs = [meta_graph(trained / name / "model.ckpt-12.meta") for name in ("run", "plain")]
    assert graphs[0].keys() >= {"graph_def", "collection_def", "saver_def", "functions"}
    for part, expected in graphs[1].items():
        assert graphs[0][part] == expected, part
    ours, plain = (weights(trained / name, 12) for name in ("run", "plain"))
    assert ours.keys() == plain.keys()
    assert all((ours[name] == plain[name]).all() for name in plain)
    timed = ("examples_per_second",)
    told = [
        [{name: value for name, value in row.items() if name not in timed} for row in rows(trained / name, None)]
        for name in ("run", "plain")
    ]
    assert told[0] == told[1]


def test_tensorboard_shows_both_in_one_chart(trained: pathlib.Path) -> None:
    def points(folder: str, tag: str) -> dict[int, float]:
        (path,) = (trained / "run" / folder).glob("events.*")
        events = tf.train.summary_iterator(str(path))
        return {e.step: v.simple_value for e in events for v in e.summary.value if v.tag == tag}

    for tag in ("GAP", "Hit@1", "loss"):
        for folder, mode in (("train", None), ("validate", "validate")):
            expected = {row["step"]: row[tag] for row in rows(trained / "run", mode)}
            assert points(folder, tag) == pytest.approx(expected)
    published = {
        v.tag
        for path in (trained / "run").glob("events.*")
        for e in tf.train.summary_iterator(str(path))
        for v in e.summary.value
    }
    assert {"model/Training_GAP", "model/Training_Hit@1", "model/Training_Loss"} <= published
    assert not (trained / "plain/train").exists()


def test_runs_and_the_report_read_the_rows(trained: pathlib.Path) -> None:
    found = {one.folder.rpartition("/")[2]: one for one in run_list.find_runs([str(trained)], "gap")}
    best = max(rows(trained / "run"), key=lambda row: row["GAP"])
    assert (found["run"].figures.source, found["run"].figures.step) == ("evaluation", best["step"])
    assert found["plain"].figures.source == "training batch"


@pytest.mark.heavy
def test_an_epoch_is_the_usual_interval_and_its_end_is_validated(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run", on_test(), "--num_epochs=3", "--batch_size=64", "--max_steps=100") == 0
    # 160 records an epoch: the epochs end in the middle of step 3, with step 5, and with the last one.
    assert [row["step"] for row in rows(tmp_path / "run")] == [3, 5, 8]
    shown = capsys.readouterr().err
    last = rows(tmp_path / "run")[-1]
    assert f"validation at step 8 | Loss: {last['loss']:.4f} | Hit@1: {last['Hit@1']:.4f}" in shown
    assert f"GAP: {last['GAP']:.4f} | 21 examples in " in shown
    assert shown.index("training step 3 |") < shown.index("validation at step 3") < shown.index("training step 4 |")


@pytest.mark.heavy
def test_in_a_bucket_the_shards_show_where_an_epoch_ends(
    bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("train", "test"):
        with storage.write_atomic(f"{bucket}/data/{name}.tfrecord") as file:
            file.write(pathlib.Path(golden(f"checkpoint_logistic/{name}.tfrecord")).read_bytes())
    words = [f"--train_data_pattern={bucket}/data/train.tfrecord", f"--train_dir={bucket}/run", "--num_epochs=2"]
    data = [f"--eval_data_pattern={bucket}/data/test.tfrecord"]
    assert run(tmp_path, *words, *data, "--max_steps=100") == 0
    told = map(json.loads, storage.read_text(f"{bucket}/run/metrics.jsonl").splitlines())
    # The first record of the second epoch shows that the first has ended: it is in step 11.
    validated = [row for row in told if row.get("mode") == "validate"]
    assert [row["step"] for row in validated] == [11, 20]
    best = max(validated, key=lambda row: row["GAP"])
    note = json.loads(storage.read_text(f"{bucket}/run/best/best.json"))
    assert (note["step"], note["gap"]) == (best["step"], best["GAP"])
    ends = ("data-00000-of-00001", "index", "meta")
    expected = {"best.json", *(f"model.ckpt-{best['step']}.{end}" for end in ends)}
    assert set(storage.names_in(f"{bucket}/run/best")) == expected
    for end in ends:
        name = f"model.ckpt-{best['step']}.{end}"
        assert storage.read_bytes(f"{bucket}/run/best/{name}") == storage.read_bytes(f"{bucket}/run/{name}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--eval_every_n_steps=5"], "--eval_every_n_steps needs --eval_data_pattern"),
        (
            ["--eval_data_pattern=x", "--eval_every_n_steps=5", "--eval_every_n_epochs=1"],
            r"both .*interval of validations",
        ),
        (["--eval_data_pattern=x", "--eval_every_n_epochs=0"], "eval_every_n_epochs must be at least 1"),
    ],
)
def test_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flags.train_config(words)


def test_data_that_do_not_fit_are_refused_before_the_run(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames, videos = golden("tiny_frame.tfrecord"), golden("checkpoint_logistic/test.tfrecord")
    shutil.copy(videos, tmp_path / "test.tfrecord")
    for folder, first in (("", "cat"), ("train/", "dog")):
        path = f"{tmp_path}/{folder}vocabulary.csv"
        vocabulary.write(path, vocabulary.of_names([first, *(f"class {n}" for n in range(1, 10))]))
    named, remedy = f"--vocabulary={tmp_path}/train/vocabulary.csv", "Validate on data with the same format as those of"
    for pattern, more, message in (
        (
            frames,
            [],
            f"the data do not fit the model, which takes video-level records, but these are frame-level ones "
            f"(the first record of {frames}). {remedy} --train_data_pattern=",
        ),
        (
            f"{tmp_path}/test.tfrecord",
            [named],
            f"class 0 is 'dog' in {tmp_path}/train/vocabulary.csv, and 'cat' in {tmp_path}/vocabulary.csv. {remedy} ",
        ),
        (f"{tmp_path}/none*", [], f"no file matches '{tmp_path}/none*'. Check the path"),
    ):
        assert run(tmp_path / "run", f"--eval_data_pattern={pattern}", *more) == 2
        assert f"error: --eval_data_pattern={pattern}: {message}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_the_copies_of_a_sample_leave_nothing_in_the_cache(tmp_path: pathlib.Path) -> None:
    sample = ("--max_steps=2", f"--cache={tmp_path}/cache", on_test(), "--eval_max_videos=1")
    assert run(tmp_path / "run", *sample) == 0
    assert {path.name.partition(".")[0] for path in (tmp_path / "cache").iterdir()} == {"train"}


def test_the_draw_of_a_sample_names_a_record_that_is_no_proto(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    payloads = list(shards.read_shard(golden("checkpoint_logistic/test.tfrecord")))
    content = map(shards.framed, [*payloads[:2], b"no proto", *payloads[2:]])
    (tmp_path / "bad.tfrecord").write_bytes(b"".join(content))
    assert run(tmp_path / "run", f"--eval_data_pattern={tmp_path}/bad.tfrecord", "--eval_max_videos=1") == 1
    assert f"{tmp_path}/bad.tfrecord: record 2: {shards.NO_PROTO}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_in_a_cluster_the_flags_of_a_validation_are_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = {"chief": ["localhost:1"], "evaluator": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": "chief", "index": 0}}))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    assert run(tmp_path / "run", on_test(), "--eval_every_n_steps=5") == 2
    assert "--eval_every_n_steps is for training" in capsys.readouterr().err


def test_other_videos_in_files_of_the_same_size_are_other_data(tmp_path: pathlib.Path) -> None:
    def described(first: float) -> str:
        rows = [video_record(id=[b"v"], labels=[1], mean_rgb=[first, 2.0])]
        write_shard(tmp_path / "new.tfrecord", rows)
        os.utime(tmp_path / "new.tfrecord", (1, 1))
        shutil.copy2(tmp_path / "new.tfrecord", tmp_path / "a.tfrecord")
        config = TrainConfig(validation=ValidationConfig(eval_data_pattern=f"{tmp_path}/a.tfrecord"))
        return str(validator._describe_data(config, open_data(f"{tmp_path}/a.tfrecord"), False)["fingerprint"])

    first = described(1.0)
    assert described(3.0) != first
    assert described(1.0) == first  # the same content, copied anew
