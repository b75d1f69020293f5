"""With --max_bad_records and --nan_policy=zero, all programs continue after a bad record and NaN, and report both."""

from __future__ import annotations

import csv
import json
import pathlib

import cases
import fault_shards
import pytest

from yt8m import eval as evaluation
from yt8m import inference, train

TOLERANT = ["--max_bad_records=1", "--nan_policy=zero"]
IDS = ["with,comma", 'with "quotes"', "ελληνικά", "same", "same", "odd"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a damaged shard and one that holds NaN, and a run trained on them, twice resumed."""
    folder = tmp_path_factory.mktemp("borne")
    videos = [fault_shards.video(name.encode()) for name in IDS[:5]]
    videos.append(fault_shards.video(b"odd", mean_rgb=[float("nan"), 1.0, float("inf")]))
    fault_shards.write(folder / "b.tfrecord", videos)
    whole = fault_shards.shard(fault_shards.sound("video", 4, "a"))
    (folder / "a.tfrecord").write_bytes(whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
    for epochs in (1, 2):
        assert train.main([*words(folder, "train"), f"--num_epochs={epochs}", "--exact_resume", *TOLERANT]) == 0
    return folder


def words(folder: pathlib.Path, program: str, data: str = "", run: str = "run") -> list[str]:
    """The command line of a program; its data are those of the folder, or as given."""
    data = data or f"{folder}/*.tfrecord"
    usual = [f"--train_dir={folder}/{run}", "--batch_size=2"]
    if program == "train":
        features = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=3,2", "--num_classes=10"]
        return [*usual, f"--train_data_pattern={data}", "--export_model_steps=none", *features]
    if program == "eval":
        return [*usual, f"--eval_data_pattern={data}", "--run_once"]
    return [*usual, f"--input_data_pattern={data}", f"--output_file={folder}/out.csv", "--top_k=2"]


def told(folder: pathlib.Path, mode: str) -> list[dict]:
    """The lines of metrics.jsonl about what was left out."""
    lines = map(json.loads, (folder / "run/metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line.get("mode") == mode]


@pytest.mark.promise("I2")
@pytest.mark.promise("I5")
def test_training_tells_in_metrics(run: pathlib.Path) -> None:
    first, summary, *_ = told(run, "train")
    where = first["bad_record"]
    assert (where["shard"], where["record"]) == (f"{run}/a.tfrecord", 3)
    assert "checksum" in where["what"]
    assert (summary["bad_records"], summary["zeroed_values"]) == (1, 2)


@pytest.mark.heavy
@pytest.mark.promise("I2")
@pytest.mark.promise("I5")
@pytest.mark.promise("I6")
def test_evaluation_and_inference(run: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    assert evaluation.main([*words(run, "eval"), *TOLERANT]) == 0
    assert json.loads((run / "run/eval/report.json").read_text())["num_examples"] == 9
    assert inference.main([*words(run, "inference"), *TOLERANT]) == 0
    for mode in ("eval", "infer"):
        *_, summary = told(run, mode)
        assert (summary["bad_records"], summary["zeroed_values"]) == (1, 2)
    assert f"1 bad records; not read: {run}/a.tfrecord from record 3 on" in "\n".join(caplog.messages)
    with (run / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["VideoId", "LabelConfidencePairs"]
    assert [row[0] for row in rows] == ["a0", "a1", "a2", *IDS]
    assert {len(row) for row in rows} == {2}


@pytest.mark.heavy
@pytest.mark.promise("I2")
@pytest.mark.promise("I5")
def test_by_default_both_are_refused(run: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert inference.main(words(run, "inference")) == 1
    assert f"{run}/a.tfrecord: record 3: its checksum is wrong" in capfd.readouterr().err
    (run / "a.tfrecord").rename(run / "a.set_aside")
    try:
        assert evaluation.main(words(run, "eval")) == 1
    finally:
        (run / "a.set_aside").rename(run / "a.tfrecord")
    said = capfd.readouterr().err
    assert f"{run}/b.tfrecord: record 5: video odd: feature mean_rgb has 2 values that are NaN" in said
    assert evaluation.main([*words(run, "eval"), "--max_bad_records=1"]) == 1
    assert "2 records are bad; --max_bad_records allows 1" in capfd.readouterr().err


@pytest.mark.promise("I3")
@pytest.mark.parametrize("program", cases.all_of(["inference"], heavy=["train", "eval"]))
def test_a_record_cut_before_its_labels_is_refused(
    run: pathlib.Path, tmp_path: pathlib.Path, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    payloads = [*fault_shards.sound("video", 3), fault_shards.cut_before_labels()]
    data = fault_shards.write(tmp_path / "cut.tfrecord", payloads)
    mains = {"train": train.main, "eval": evaluation.main, "inference": inference.main}
    assert mains[program](words(run, program, data, "other" if program == "train" else "run")) == 1
    assert f"{data}: record 3: it is not an Example or SequenceExample" in capfd.readouterr().err
