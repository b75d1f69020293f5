"""The three programs under TF_CONFIG, each role in a process of its own, against one process alone."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from clusters import Cluster
from golden_data import golden
from reader_records import video_record, write_shard

from yt8m import eval as evaluation
from yt8m import inference, train

pytestmark = [pytest.mark.long, pytest.mark.heavy]
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
    steps = 2 * ((40 + 20) // 10 + 30 // 10)  # an epoch of the chief's two shards and of the worker's one
    assert json.loads((folder / "cluster.json").read_text())["ended"] == steps
    assert (folder / f"model.ckpt-{steps}.index").exists()
    assert json.loads((folder / "eval/report.json").read_text())["global_step"] == steps
    assert (folder / f"export/{steps}/saved_model.pb").exists()
    # On one machine the run goes on in a graph without parameter servers.
    assert train.main([*flags, f"--max_steps={steps + 3}"]) == 0
    assert (folder / f"model.ckpt-{steps + 3}.index").exists()


def test_figures_are_those_of_one_process(
    data: pathlib.Path, run: pathlib.Path, processes: Callable[..., Cluster]
) -> None:
    flags = [f"--train_dir={run}", f"--eval_data_pattern={data}/test*", "--run_once", "--batch_size=4"]
    assert evaluation.main(flags) == 0
    alone = json.loads((run / "eval/report.json").read_text())
    started = processes("eval", *flags, workers=1).start_all()
    for process in (started["chief"][0], started["worker"][0]):
        assert process.end() == 0, process.log()
    together = json.loads((run / "eval/report.json").read_text())
    assert together["num_examples"] == sum(COUNTS["test"])
    for name in ("gap", "map", "hit_at_one"):
        assert together[name] == alone[name]
    for name in ("perr", "loss"):  # sums in another order
        assert together[name] == pytest.approx(alone[name], rel=1e-6)
    assert together["classes"] == alone["classes"]


def test_predictions_are_those_of_one_process_in_their_order(
    data: pathlib.Path, run: pathlib.Path, tmp_path: pathlib.Path, processes: Callable[..., Cluster]
) -> None:
    flags = [f"--train_dir={run}", f"--input_data_pattern={data}/test*", "--batch_size=4"]
    assert inference.main([*flags, f"--output_file={tmp_path}/alone.csv"]) == 0
    made = processes("inference", *flags, f"--output_file={tmp_path}/together.csv", workers=1)
    started = made.start_all()
    for process in (started["chief"][0], started["worker"][0]):
        assert process.end() == 0, process.log()
    alone, together = ((tmp_path / f"{name}.csv").read_text() for name in ("alone", "together"))
    assert [line.partition(",")[0] for line in together.splitlines()] == [
        line.partition(",")[0] for line in alone.splitlines()
    ]
    assert together == alone
    assert not list(tmp_path.glob("*.part-*"))


def test_segments_are_ranked_as_by_one_process(tmp_path: pathlib.Path, processes: Callable[..., Cluster]) -> None:
    features = ["--frame_features", "--feature_names=rgb,audio", "--feature_sizes=16,8", "--num_classes=20"]
    flags = ["--model=FrameLevelLogisticModel", "--batch_size=4", "--num_epochs=3", *features]
    frames = golden("tiny_frame.tfrecord")
    assert train.main([f"--train_data_pattern={frames}", f"--train_dir={tmp_path}/run", *flags]) == 0
    both = f"--input_data_pattern={frames},{golden('tiny_segment.tfrecord')}"
    words = [f"--train_dir={tmp_path}/run", both, "--segment_labels", "--segment_max_pred=30"]
    assert inference.main([*words, f"--output_file={tmp_path}/alone.csv"]) == 0
    made = processes("inference", *words, f"--output_file={tmp_path}/together.csv", workers=1)
    started = made.start_all()
    for process in (started["chief"][0], started["worker"][0]):
        assert process.end() == 0, process.log()
    assert (tmp_path / "together.csv").read_text() == (tmp_path / "alone.csv").read_text()
    assert not list(tmp_path.glob("*.part-*"))


def words_of(program: str, data: pathlib.Path, run: pathlib.Path, output: pathlib.Path) -> list[str]:
    """The flags of one evaluation, or of one inference into `output`."""
    if program == "eval":
        return [f"--train_dir={run}", f"--eval_data_pattern={data}/test*", "--run_once"]
    return [f"--train_dir={run}", f"--input_data_pattern={data}/test*", f"--output_file={output}"]


def test_a_lost_part_is_named(
    data: pathlib.Path, run: pathlib.Path, tmp_path: pathlib.Path, processes: Callable[..., Cluster]
) -> None:
    flags = [f"--train_dir={run}", f"--input_data_pattern={data}/test*", "--stall_timeout=2"]
    made = processes("inference", *flags, f"--output_file={tmp_path}/out.csv", workers=1)
    chief = made.start("chief")
    assert chief.end() == 1
    assert "the part of worker 0" in chief.log()
    assert "2 of 2, is lost" in chief.log()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", ["eval", "inference"])
def test_the_chief_says_why_a_worker_failed(
    program: str, data: pathlib.Path, run: pathlib.Path, tmp_path: pathlib.Path, processes: Callable[..., Cluster]
) -> None:
    """Long before it would have given the worker up."""
    words = words_of(program, data, run, tmp_path / "out.csv")
    made = processes(program, *words, "--stall_timeout=100000", workers=1)
    chief, worker = made.start("chief"), made.start("worker", 0, "--num_classes=7")
    assert worker.end() == chief.end() == 1
    assert re.search(r"error: .*worker 0 \(.*\).* (failed|is missing): .*is not of this model", chief.log())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", ["eval", "inference"])
def test_a_worker_whose_chief_is_killed_ends(
    program: str, data: pathlib.Path, run: pathlib.Path, tmp_path: pathlib.Path, processes: Callable[..., Cluster]
) -> None:
    """The chief is through with its own part and waits for the worker's, which has just begun."""
    words = words_of(program, data, run, tmp_path / "out.csv")
    made = processes(program, *words, "--stall_timeout=20", workers=1)
    chief = made.start("chief")
    chief.wait_for("examples processed|examples_processed")
    worker = made.start("worker")
    worker.wait_for("counts not checked")
    chief.kill()
    assert worker.end() == 1
    assert re.search(r"chief \(.*\) (is gone|does not answer)", worker.log())
    assert not (tmp_path / "out.csv").exists()


def test_the_runtime_keeps_quiet_about_processes_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The watchdog's one line says it; a level that the user has set stays."""
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
        ('{"cluster":' * 50_000, "TF_CONFIG is not JSON (its lists or objects are nested deeper"),
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
