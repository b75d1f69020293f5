"""Every path in a bucket, through the command lines: train, SIGKILL, resume, evaluate, predict, export."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
import small_exports
from golden_data import golden
from small_run import kill_in_the_middle, losses, run, train_words, weights

from yt8m import eval as evaluation
from yt8m import inference, storage
from yt8m.command_line import cli
from yt8m.records import shards
from yt8m.records.shards import framed
from yt8m.storage import copies

STEPS = 30
SAVING = ("--save_checkpoint_steps=3", "--keep_checkpoints=2", f"--max_steps={STEPS}", "--export_model_steps=1000")

pytestmark = pytest.mark.promise("I10")


@pytest.fixture
def data(bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Shards, in a folder here and under the same names in the bucket; the cache is this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    records = list(shards.read_shard(str(golden("checkpoint_logistic/train.tfrecord"))))
    test = golden("checkpoint_logistic/test.tfrecord").read_bytes()
    files = {f"train{n}": b"".join(map(framed, records[n::3])) for n in range(3)} | {"test0": test}
    for name, content in files.items():
        for folder in (tmp_path, bucket):
            with storage.write_atomic(f"{folder}/data/{name}.tfrecord") as file:
                file.write(content)
    return f"{bucket}/data"


@pytest.mark.heavy
def test_all_that_is_done_with_a_run_is_done_in_a_bucket(
    data: str, bucket: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, here = f"{bucket}/run", tmp_path / "run"
    assert run(here, *SAVING, f"--train_data_pattern={tmp_path}/data/train*.tfrecord") == 0
    words = train_words(folder, *SAVING, f"--train_data_pattern={data}/train*.tfrecord")
    kill_in_the_middle(words, f"saved {folder}/model.ckpt-6")
    _the_rest_of_the_run_is_that_of_an_unbroken_one(folder, here, words)
    _a_second_trainer_is_refused(folder, words, capsys)
    _it_is_evaluated(folder, data)
    _what_it_predicts_and_exports_agree(folder, data, bucket)
    assert not list((tmp_path / "cache").rglob("unsent"))


def _the_rest_of_the_run_is_that_of_an_unbroken_one(folder: str, here: pathlib.Path, words: list[str]) -> None:
    from yt8m import train

    assert train.main(words) == 0
    names = [name for name in storage.listdir(folder) if name.startswith(("model.ckpt", "input-"))]
    assert names == sorted(path.name for path in here.glob("[mi][on][dp]*-*"))
    state = storage.read_text(f"{folder}/checkpoint")
    assert state.splitlines()[0] == f'model_checkpoint_path: "model.ckpt-{STEPS}"'
    prefix = copies.copy_of(f"{folder}/model.ckpt-{STEPS}")
    found = weights(pathlib.Path(prefix).parent, STEPS)
    for name, value in weights(here, STEPS).items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    lines = map(json.loads, storage.read_text(f"{folder}/metrics.jsonl").splitlines())
    told = {line["step"]: line["loss"] for line in lines}
    assert told == {step: loss for step, loss in losses(here).items() if step in told}
    assert set(told) >= set(range(1, 6)) | {STEPS}  # a step's line comes after its checkpoint
    assert len(storage.glob(f"{folder}/events.out.tfevents.*")) == 2
    assert storage.exists(f"{folder}/export/{STEPS}/saved_model.pb")
    assert not storage.exists(f"{folder}/train.lock")


def _a_second_trainer_is_refused(folder: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from yt8m import train

    capsys.readouterr()
    before = storage.listdir(folder)
    with storage.lock(f"{folder}/train.lock"):
        assert train.main(words) == 1
    assert f"{folder}/train.lock is held by process" in capsys.readouterr().err
    assert storage.listdir(folder) == before


def _it_is_evaluated(folder: str, data: str) -> None:
    words = [f"--train_dir={folder}", f"--eval_data_pattern={data}/test*.tfrecord", "--run_once", "--keep_best"]
    assert evaluation.main(words) == 0
    assert json.loads(storage.read_text(f"{folder}/eval/report.json"))["global_step"] == STEPS
    assert storage.exists(f"{folder}/best/model.ckpt-{STEPS}.index")
    assert storage.exists(f"{folder}/inference_model/inference_model.meta")
    assert storage.glob(f"{folder}/eval/events.out.tfevents.*")


def _what_it_predicts_and_exports_agree(folder: str, data: str, bucket: str) -> None:
    words = [f"--train_dir={folder}", f"--input_data_pattern={data}/test*.tfrecord"]
    assert inference.main([*words, f"--output_file={bucket}/out/p.csv"]) == 0
    lines = storage.read_text(f"{bucket}/out/p.csv").splitlines()[1:]
    said = {line.split(",")[0]: line.split(",")[1].split()[:2] for line in lines}
    assert cli.call("export", [f"--train_dir={folder}", "--checkpoint=best", f"--out={bucket}/model"]) == 0
    records = list(shards.read_shard(f"{data}/test0.tfrecord"))
    found = small_exports.predictions(f"{bucket}/model/saved_model", records)
    assert len(said) == len(records) == 21
    for name, classes, scores in zip(*found, strict=True):
        assert int(said[name][0]) == classes[0]
        assert float(said[name][1]) == pytest.approx(scores[0], abs=1e-6)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--train_data_pattern=gs://nowhere/*.tfrecord"], 2, "there is no bucket nowhere"),
        (["--train_dir=gs://nowhere/run"], 2, "there is no bucket nowhere"),
    ],
)
def test_a_missing_bucket_is_named_on_the_command_line(
    words: list[str], status: int, text: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(pathlib.Path("unused"), *words) == status
    assert text in capsys.readouterr().err
    assert not pathlib.Path("unused").exists()
