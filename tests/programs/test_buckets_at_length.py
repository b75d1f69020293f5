"""Runs in buckets, at length: uploads that fail, damage in the bucket, an evaluation that follows."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from bulk_data import same_rows
from golden_data import golden
from gs_proxy import Fault, Proxy, running_proxy
from small_run import kill_in_the_middle, run, train_words, weights

from yt8m import eval as evaluation
from yt8m import inference, storage
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.records import shards
from yt8m.records.shards import framed
from yt8m.runner import checkpoints
from yt8m.storage import copies

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.heavy, pytest.mark.promise("I10")]


@pytest.fixture
def proxy(
    bucket: str, emulator_address: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running_proxy(emulator_address) as running:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.address)
        yield running


@pytest.fixture
def data(bucket: str) -> str:
    for name in ("train", "test"):
        with storage.write_atomic(f"{bucket}/{name}.tfrecord") as file:
            file.write(golden(f"checkpoint_logistic/{name}.tfrecord").read_bytes())
    return bucket


def write_damaged(path: str) -> None:
    """Writes a shard whose last record is damaged."""
    whole = golden("checkpoint_logistic/train.tfrecord").read_bytes()
    storage.write(path, whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])


def words(bucket: str, *more: str) -> list[str]:
    return [
        f"--train_data_pattern={bucket}/train.tfrecord",
        "--save_checkpoint_steps=3",
        "--export_model_steps=1000",
        *more,
    ]


def test_a_checkpoint_that_cannot_be_sent_ends_the_run_and_is_kept(
    data: str, proxy: Proxy, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = f"{data}/run"
    proxy.faults = [Fault("POST", "model.ckpt-6.index", status=403)]
    assert run(folder, *words(data)) == 1
    assert "checkpoint are in" in capsys.readouterr().err
    (kept,) = (tmp_path / "cache/yt8m/unsent").iterdir()
    assert "model.ckpt-6.index" in {path.name for path in kept.iterdir()}
    assert not storage.exists(f"{folder}/model.ckpt-6.index")
    assert checkpoints.pointed_to(folder) == f"{folder}/model.ckpt-3"
    assert not storage.exists(f"{folder}/train.lock")
    proxy.faults = [Fault(method, times=3, status=503) for method in ("GET", "POST", "DELETE")]
    assert run(folder, *words(data)) == 0
    assert checkpoints.pointed_to(folder) == f"{folder}/model.ckpt-12"
    assert not any(fault.times for fault in proxy.faults)


def test_a_checkpoint_whose_meta_graph_cannot_be_sent_is_gone_on_from(
    data: str, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = f"{data}/run"
    proxy.faults = [Fault("POST", "model.ckpt-6.meta", status=403)]
    assert run(folder, *words(data)) == 1
    assert "checkpoint are in" in capsys.readouterr().err
    proxy.faults = []
    assert checkpoints.newest_readable(folder) == f"{folder}/model.ckpt-6"
    assert run(folder, *words(data)) == 0
    said = capsys.readouterr().err
    assert f"rebuilt and filled from {folder}/model.ckpt-6" in said
    assert checkpoints.pointed_to(folder) == f"{folder}/model.ckpt-12"


@pytest.mark.promise("C1")
def test_a_run_that_was_killed_while_it_sent_a_checkpoint_goes_on_without_alarm(
    data: str, proxy: Proxy, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wherever it was killed: what was sent is a checkpoint, or is removed as the rest of a save."""
    folder = f"{data}/run"
    assert run(folder, *words(data, "--max_steps=3")) == 0
    state = storage.read_text(f"{folder}/checkpoint")
    sent: list[str] = []
    proxy.faults = [
        Fault("POST", f"model.ckpt-6.{end}", before=functools.partial(sent.append, end))
        for end in ("data-00000-of-00001", "index", "meta")
    ]
    assert run(folder, *words(data, "--max_steps=6")) == 0
    assert [end[:4] for end in sent] == ["data", "inde", "meta"]
    proxy.faults = []
    for kept in (2, 1):
        with storage.write_atomic(f"{folder}/checkpoint", "w") as file:
            file.write(state)
        for end in sent[kept:]:
            if storage.exists(f"{folder}/model.ckpt-6.{end}"):
                storage.remove(f"{folder}/model.ckpt-6.{end}")
        capfd.readouterr()
        assert run(folder, *words(data, f"--max_steps={9 - kept}")) == 0
        told = capfd.readouterr().err
        assert "DAMAGED" not in told
        assert bool(re.search("save of step 6 .*removed", told)) == (kept == 1)
        assert checkpoints.steps_in(folder)[0] == 9 - kept


@pytest.mark.promise("C1")
def test_a_run_on_shards_of_a_bucket_reads_none_twice_when_killed(
    data: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps behind the kill are those of a local run that was ended at the same checkpoint."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    records = list(shards.read_shard(str(golden("checkpoint_logistic/train.tfrecord"))))
    for shard in range(9):
        for folder in (f"{tmp_path}/shards", f"{data}/shards"):
            with storage.write_atomic(f"{folder}/train{shard}.tfrecord") as file:
                file.write(b"".join(map(framed, records[shard::9])))
    usual = ["--exact_resume=False", "--save_checkpoint_steps=2", "--batch_size=4"]
    usual += ["--num_readers=1", "--shuffle_buffer=8"]
    there = [*usual, f"--train_data_pattern={data}/shards/*.tfrecord"]
    here = [*usual, f"--train_data_pattern={tmp_path}/shards/*.tfrecord"]
    kill_in_the_middle(train_words(f"{data}/run", *there, "--max_steps=60"), f"saved {data}/run/model.ckpt-6")
    step = checkpoints.step_of(checkpoints.newest_readable(f"{data}/run"))
    begun = json.loads(storage.read_text(f"{data}/run/input-{step}.json"))["begun"]
    assert begun > 1
    assert run(f"{data}/run", *there, "--max_steps=60") == 0
    assert run(tmp_path / "run", *here, f"--max_steps={step}") == 0
    assert json.loads((tmp_path / f"run/input-{step}.json").read_text())["begun"] == begun
    assert run(tmp_path / "run", *here, "--max_steps=60") == 0
    found = copies.copy_of(f"{data}/run/model.ckpt-60")
    for name, value in weights(tmp_path / "run", 60).items():
        np.testing.assert_array_equal(weights(pathlib.Path(found).parent, 60)[name], value, err_msg=name)


def test_damaged_checkpoints_in_a_bucket_are_passed_over(data: str, proxy: Proxy) -> None:
    folder = f"{data}/run"
    assert run(folder, *words(data, "--max_steps=6")) == 0
    name = f"{folder}/model.ckpt-6.data-00000-of-00001"
    content = storage.read_bytes(name)
    with storage.write_atomic(name) as file:
        file.write(content[: len(content) // 2])
    assert checkpoints.newest_readable(folder) == f"{folder}/model.ckpt-3"
    with storage.write_atomic(f"{folder}/checkpoint") as file:
        file.write(b"\xff garbage {")
    assert checkpoints.newest_readable(folder) == f"{folder}/model.ckpt-3"
    assert run(folder, *words(data, "--max_steps=6")) == 0
    assert checkpoints.newest_readable(folder) == f"{folder}/model.ckpt-6"


def test_models_are_packed_averaged_and_exported_in_a_bucket(data: str, proxy: Proxy, tmp_path: pathlib.Path) -> None:
    folder = f"{data}/run"
    assert run(folder, *words(data)) == 0
    given = f"--input_data_pattern={data}/test.tfrecord"
    outputs = [f"--output_file={data}/p.csv", f"--output_model_tgz={data}/m.tgz"]
    assert inference.main([f"--train_dir={folder}", given, *outputs]) == 0
    packed = [f"--input_model_tgz={data}/m.tgz", f"--untar_model_dir={tmp_path}/unpacked"]
    assert inference.main([*packed, given, f"--output_file={data}/q.csv"]) == 0
    written = [storage.read_text(f"{data}/{name}.csv").splitlines() for name in "qp"]
    assert same_rows(*written)  # on some processors the last digit of a few scores differs
    assert cli.call("average-checkpoints", [f"--train_dir={folder}", "--last=3", f"--out={data}/mean"]) == 0
    evaluated = [f"--eval_data_pattern={data}/test.tfrecord", "--weights=float16"]
    assert cli.call("export", [f"--train_dir={data}/mean", f"--out={data}/model", *evaluated]) == 0
    assert inference.main([f"--train_dir={data}/model", given, f"--output_file={data}/r.csv"]) == 0
    assert len(storage.read_text(f"{data}/r.csv").splitlines()) == 22
    begun = words(data, f"--init_from={data}/mean", f"--teacher={data}/model", "--max_steps=2")
    assert run(f"{data}/second", *begun) == 0
    learned = words(data, f"--distill_from={data}/trained.csv", "--max_steps=2")
    from_train = [f"--train_dir={folder}", f"--input_data_pattern={data}/train.tfrecord"]
    assert inference.main([*from_train, f"--output_file={data}/trained.csv"]) == 0
    assert run(f"{data}/third", *learned) == 0


@pytest.mark.promise("I2")
def test_bad_records_are_told_in_the_metrics_of_a_run_in_a_bucket(
    data: str, proxy: Proxy, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = f"{data}/run"
    write_damaged(f"{data}/train-2.tfrecord")
    pattern = f"--train_data_pattern={data}/train*.tfrecord"
    assert run(folder, pattern, "--max_bad_records=1", "--save_checkpoint_steps=3") == 0
    assert "cannot upload" not in capfd.readouterr().err
    rows = [json.loads(line) for line in storage.read_text(f"{folder}/metrics.jsonl").splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, 13))
    (bad,) = [row["bad_record"] for row in rows if "bad_record" in row]
    assert bad["shard"] == f"{data}/train-2.tfrecord"
    assert rows[-1]["bad_records"] == 1
    output, usual = f"--output_file={tmp_path}/p.csv", [f"--train_dir={folder}", "--max_bad_records=1"]
    for allowed in (True, False):
        proxy.faults = [] if allowed else [Fault("POST", "metrics.jsonl", status=403)]
        assert inference.main([*usual, pattern.replace("train", "input", 1), output]) == 0
        rows = [json.loads(line) for line in storage.read_text(f"{folder}/metrics.jsonl").splitlines()]
        assert [row["mode"] for row in rows if "bad_records" in row] == ["train", "infer"]


def test_an_evaluation_writes_no_metrics_of_a_run_that_is_trained_in_a_bucket(data: str, proxy: Proxy) -> None:
    folder = f"{data}/run"
    write_damaged(f"{data}/test-2.tfrecord")
    assert run(folder, *words(data)) == 0
    before = storage.read_text(f"{folder}/metrics.jsonl")
    evaluated = [f"--train_dir={folder}", f"--eval_data_pattern={data}/test*.tfrecord", "--run_once"]
    with run_dir.lock(folder):
        assert evaluation.main([*evaluated, "--max_bad_records=1"]) == 0
    assert storage.read_text(f"{folder}/metrics.jsonl") == before


def test_evaluation_follows_a_run_in_a_bucket(data: str, proxy: Proxy) -> None:
    folder = f"{data}/run"
    assert run(folder, *words(data, "--max_steps=3")) == 0
    storage.remove(f"{folder}/ended.json")  # as if the training had been killed, so that it may go on
    follow = [sys.executable, "eval.py", f"--train_dir={folder}", f"--eval_data_pattern={data}/test.tfrecord"]
    process = subprocess.Popen(follow, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        evaluated = (line.split()[5] for line in process.stderr if "epoch/eval number" in line)
        assert next(evaluated) == "3"
        assert run(folder, *words(data, "--max_steps=6", "--keep_checkpoints=1")) == 0
        assert next(evaluated) == "6"
        process.communicate()
        assert process.returncode == 0  # the training has ended
    finally:
        process.kill()
        process.wait()
