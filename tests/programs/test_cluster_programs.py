"""The three programs under TF_CONFIG, each role in a process of its own, against one process alone."""

from __future__ import annotations

import json
import os
import pathlib
import socket
from collections.abc import Callable, Iterator

import cases
import numpy as np
import pytest
from clusters import Cluster, free_addresses
from reader_records import video_record, write_shard

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.graph import restore_predict
from yt8m.lazy import tf

FEATURES = ["--feature_names=mean_rgb", "--feature_sizes=4", "--num_classes=6"]
COUNTS = {"train": (40, 30, 20), "test": (17, 5, 9)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Three shards of each split, of unequal lengths."""
    folder, generator = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for split, counts in COUNTS.items():
        for shard, count in enumerate(counts):
            rows = generator.normal(size=(count, 4))
            records = [
                video_record(id=[b"%d.%d" % (shard, i)], labels=[int(row.argmax()), 5], mean_rgb=row.tolist())
                for i, row in enumerate(rows)
            ]
            write_shard(folder / f"{split}{shard}.tfrecord", records)
    return folder


@pytest.fixture
def processes() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that run one of the programs."""
    made: list[Cluster] = []

    def make(program: str, *flags: str, workers: int = 1, servers: int = 0) -> Cluster:
        made.append(Cluster(["-m", f"yt8m.{program}", *flags], workers, servers))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture(scope="module")
def run(data: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of one process."""
    folder = tmp_path_factory.mktemp("run")
    flags = [f"--train_data_pattern={data}/train*", f"--train_dir={folder}", "--batch_size=8", *FEATURES]
    assert train.main([*flags, "--num_epochs=2"]) == 0
    return folder


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("P5")
def test_training_in_every_role(data: pathlib.Path, tmp_path: pathlib.Path, processes: Callable[..., Cluster]) -> None:
    folder = tmp_path / "run"
    flags = [f"--train_data_pattern={data}/train*", f"--train_dir={folder}", *FEATURES]
    flags += [f"--eval_data_pattern={data}/test*", "--batch_size=10", "--num_epochs=2", "--stall_timeout=240"]
    made = processes("train", *flags, servers=1)
    started = made.start_all()
    evaluator = made.start("evaluator")
    assert [process.end() for role in ("chief", "worker", "ps") for process in started[role]] == [0, 0, 0]
    assert evaluator.end() == 0, evaluator.log()
    assert not (folder / "validation.json").exists()  # the evaluator evaluates; the training does not validate
    steps = 2 * ((40 + 20) // 10 + 30 // 10)  # an epoch of the chief's two shards and of the worker's one
    assert json.loads((folder / "cluster.json").read_text())["ended"] == steps
    assert (folder / f"model.ckpt-{steps}.index").exists()
    assert json.loads((folder / "eval/report.json").read_text())["global_step"] == steps
    assert (folder / f"export/{steps}/saved_model.pb").exists()
    # On one machine the run goes on in a graph without parameter servers.
    assert train.main([*flags, f"--max_steps={steps + 3}"]) == 0
    assert (folder / f"model.ckpt-{steps + 3}.index").exists()


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("P5")
def test_training_by_all_reduce(data: pathlib.Path, tmp_path: pathlib.Path, processes: Callable[..., Cluster]) -> None:
    """What the chief leaves is used on one machine as any other run is: it evaluates, predicts, exports and resumes."""
    folder = tmp_path / "run"
    flags = [f"--train_data_pattern={data}/train*", f"--train_dir={folder}", *FEATURES, "--batch_size=10"]
    words = [*flags, "--num_epochs=2", "--exchange=all-reduce", "--exchange_dtype=bfloat16", "--sync_replicas"]
    started = processes("train", *words, "--check_replicas_steps=3").start_all()
    assert [process.end() for role in ("chief", "worker") for process in started[role]] == [0, 0]
    steps = 2 * (40 + 20) // 10  # the chief's two shards; the worker's one is shorter
    assert json.loads((folder / "cluster.json").read_text())["ended"] == steps
    assert (folder / f"export/{steps}/saved_model.pb").exists()
    assert evaluation.main(words_of("eval", data, folder, tmp_path / "eval")) == 0
    assert inference.main(words_of("inference", data, folder, tmp_path)) == 0
    with tf.Graph().as_default(), tf.Session() as session:
        path = f"{folder}/model.ckpt-{steps}"
        predict, saver = restore_predict(f"{path}.meta")
        assert any(op.type == "CollectiveReduceV2" for op in tf.get_default_graph().get_operations())
        saver.restore(session, path)
        feed = {predict.input_batch_raw: np.ones((3, 4)), predict.num_frames: np.ones(3)}
        assert session.run(predict.predictions, feed).shape == (3, 6)
    assert train.main([*flags, f"--max_steps={steps + 3}"]) == 0
    assert (folder / f"model.ckpt-{steps + 3}.index").exists()


def words_of(program: str, data: pathlib.Path, run: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """The flags of one evaluation, or of one inference, with its results in `folder`."""
    if program == "eval":
        return [f"--train_dir={run}", f"--eval_data_pattern={data}/test*", "--run_once", f"--eval_dir={folder}"]
    return [f"--train_dir={run}", f"--input_data_pattern={data}/test*", f"--output_file={folder}/out.csv"]


@pytest.mark.parametrize(("program", "command"), [("eval", "eval"), ("inference", "infer")])
@pytest.mark.parametrize("role", cases.all_of(["chief", "worker"], heavy=["ps", "evaluator"]))
def test_the_chief_alone_evaluates_and_predicts(
    program: str,
    command: str,
    role: str,
    data: pathlib.Path,
    run: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}}))
    main = {"eval": evaluation.main, "inference": inference.main}[program]
    assert main(words_of(program, data, run, tmp_path)) == 0
    said = capfd.readouterr().err
    assert f"`yt8m bulk {command}` uses many processes" in said
    assert ("has nothing to do" in said) == (role != "chief")
    found = [path.name for path in tmp_path.iterdir()]
    assert bool(found) == (role == "chief")


def test_the_runtime_keeps_quiet_about_processes_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The one line of the `Watch` says it; a level that the user has set stays."""
    cluster = {"chief": ["localhost:1"], "ps": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}))
    for given, level in ((None, "3"), ("1", "1")):
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", given or "")
        if given is None:
            monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
        assert train.main([]) == 2  # there is no --train_dir
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == level
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    assert train.main(["--model=json:JSONDecoder"]) == 2  # a module that might import TensorFlow
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    assert "--train_dir is missing" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"cluster": {"wroker": ["a:1"]}, "task": {"type": "chief"}}', "TF_CONFIG: unknown job 'wroker'"),
        ('{"cluster": {}}', "TF_CONFIG has an empty cluster: the addresses of the processes are missing"),
        ('{"task": {"type": "worker", "index": 0}}', "TF_CONFIG has a task, but no cluster"),
        ('{"cluster":' * 50_000 + "0" + "}" * 50_000, "TF_CONFIG is not JSON (its lists or objects are nested deeper"),
    ],
)
@pytest.mark.parametrize("program", [train, evaluation, inference])
@pytest.mark.promise("P8")
def test_a_bad_description_is_refused_before_anything_is_written(
    program: object,
    text: str,
    said: str,
    data: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    words = [f"--train_dir={tmp_path}/run"]
    if program is train:
        words += [f"--train_data_pattern={data}/train*", *FEATURES]
    assert program.main(words) == 2
    assert said in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


def set_role(monkeypatch: pytest.MonkeyPatch, role: str, **jobs: list[str]) -> None:
    """Makes this process the first one with `role` in the cluster of these jobs."""
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": role, "index": 0}}))


def test_an_evaluator_without_files_is_refused(
    run: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would evaluate the run on generated sample data."""
    set_role(monkeypatch, "evaluator", chief=["localhost:1"], evaluator=["localhost:2"])
    report = run / "eval/report.json"
    before = report.read_text() if report.exists() else None
    assert train.main([f"--train_dir={run}", *FEATURES, "--stall_timeout=1"]) == 2
    assert "--eval_data_pattern is missing" in capfd.readouterr().err
    assert (report.read_text() if report.exists() else None) == before


ONE_MACHINE = {
    "--exact_resume": "--exact_resume is for one machine or --exchange=all-reduce",
    "--prefetch_to_device": "--prefetch_to_device is for one machine",
    "--accumulate_steps=2": "--accumulate_steps=2: with parameter servers all replicas would add to the same sums",
}


@pytest.mark.parametrize("flag", ONE_MACHINE)
@pytest.mark.parametrize("role", ["chief", "ps"])
def test_a_flag_that_parameter_servers_do_not_support_is_refused_before_anything_is_written(
    flag: str,
    role: str,
    data: pathlib.Path,
    run: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither the folder of a run that has ended is changed, nor a new one made."""
    chief, server = free_addresses(2)
    set_role(monkeypatch, role, chief=[chief], ps=[server])
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    for folder in (run, tmp_path / "new"):
        flags = [f"--train_data_pattern={data}/train*", f"--train_dir={folder}", "--batch_size=8", *FEATURES]
        assert train.main([*flags, "--num_epochs=2", flag]) == 2
        assert ONE_MACHINE[flag] in capfd.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("exchange", ["parameter-servers", "all-reduce"])
def test_a_taken_port_is_refused_before_anything_is_written(
    exchange: str,
    data: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        other = {"parameter-servers": "ps", "all-reduce": "worker"}[exchange]
        set_role(monkeypatch, "chief", **{"chief": [address], other: free_addresses(1)})
        flags = [f"--train_data_pattern={data}/train*", f"--train_dir={tmp_path}/run", *FEATURES]
        assert train.main([*flags, f"--exchange={exchange}"]) == 2
    assert f"chief cannot listen on {address}" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()
