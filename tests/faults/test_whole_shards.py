"""Cut, torn and empty shards, and other counts than the manifest's, are refused; training tells counts."""

from __future__ import annotations

import itertools
import json
import pathlib
import re

import fault_shards
import pytest
from faults.mutations import read

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line.cli import main
from yt8m.records import manifest
from yt8m.records.shards import DamagedError

FEATURES = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=3,2", "--num_classes=10"]


@pytest.mark.promise("I1")
def test_a_cut_anywhere_but_between_records_is_seen(tmp_path: pathlib.Path) -> None:
    payloads = [b"", b"abc", b"x" * 70_000, *(bytes(range(n)) for n in range(1, 40, 7)), b"y" * 300_000]
    whole = fault_shards.shard(payloads)
    ends = list(itertools.accumulate((len(payload) + 16 for payload in payloads), initial=0))
    path = tmp_path / "x.tfrecord"
    near = {end + step for end in ends for step in range(-18, 19) if 0 <= end + step <= len(whole)}
    for cut in sorted(near | set(range(0, len(whole), 9973))):
        path.write_bytes(whole[:cut])
        if cut in ends[1:]:
            assert manifest.count_records(str(path)) == ends.index(cut)
            continue
        with pytest.raises(DamagedError) as caught:
            manifest.count_records(str(path))
        assert caught.value.record == sum(end <= cut for end in ends[1:])


@pytest.mark.promise("I7")
def test_a_length_beyond_the_file_takes_no_memory(tmp_path: pathlib.Path) -> None:
    import struct

    from yt8m.records.checksums import masked_crc

    path = tmp_path / "x.tfrecord"
    for length in (1 << 30, 1 << 40, (1 << 64) - 1):
        header = struct.pack("<Q", length)
        path.write_bytes(fault_shards.shard([b"one"]) + header + masked_crc(header) + b"abc")
        found, error = read(path)
        assert found == [b"one"]
        assert error is not None
        assert "record 1: it is cut short" in str(error)
        with pytest.raises(DamagedError, match="record 1"):
            manifest.count_records(str(path))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run trained for two epochs on two shards with a manifest beside them, and its log."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "data").mkdir()
    for name in "ab":
        fault_shards.write(folder / f"data/{name}.tfrecord", fault_shards.sound("video", 6, name))
    words = [f"{folder}/data/*.tfrecord", f"--manifest={folder}/data/manifest.json"]
    assert main(["verify", *words]) == 0
    data = [
        f"--train_data_pattern={folder}/data/*.tfrecord",
        "--batch_size=4",
        "--num_epochs=2",
        "--export_model_steps=none",
    ]
    assert train.main([*data, *FEATURES, f"--train_dir={folder}/run"]) == 0
    return folder


def refusals(run: pathlib.Path, data: object, capfd: pytest.CaptureFixture[str], *more: str) -> list[str]:
    """What evaluation and inference say against the data."""
    said = []
    for program, words in (
        (evaluation.main, [f"--eval_data_pattern={data}", "--run_once"]),
        (inference.main, [f"--input_data_pattern={data}", f"--output_file={run}/out.csv"]),
    ):
        assert program([f"--train_dir={run}/run", *words, *more]) == 1
        said.append(capfd.readouterr().err)
    assert not list(run.glob("*out.csv*"))
    return said


@pytest.mark.promise("I1")
def test_torn_and_empty_shards_are_refused(
    run: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fault_shards.write(tmp_path / "a.tfrecord", fault_shards.sound("video"))
    whole = (tmp_path / "a.tfrecord").read_bytes()
    for content, what in ((b"", "the file is empty"), (whole + whole[:5], "record 6: its length is")):
        (tmp_path / "b.tfrecord").write_bytes(content)
        for said in refusals(run, f"{tmp_path}/*.tfrecord", capfd):
            assert f"{tmp_path}/b.tfrecord" in said
            assert what in said


@pytest.mark.promise("I1")
def test_a_count_other_than_the_manifests_is_refused(
    run: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        fault_shards.write(tmp_path / f"{name}.tfrecord", fault_shards.sound("video", 6, name))
    known = tmp_path / "manifest.json"
    assert main(["verify", f"{tmp_path}/*.tfrecord", f"--manifest={known}"]) == 0
    fault_shards.write(tmp_path / "b.tfrecord", fault_shards.sound("video", 5, "b"))
    for said in refusals(run, f"{tmp_path}/*.tfrecord", capfd):
        assert re.search(r"b\.tfrecord .*\b5 records.*\b6\b", said)
    (tmp_path / "b.tfrecord").unlink()
    for said in refusals(run, f"{tmp_path}/*.tfrecord", capfd, f"--manifest={known}"):
        assert re.search(r"b\.tfrecord is gone.*manifest", said)
    known.write_text('{"format": "another"}')
    for said in refusals(run, f"{tmp_path}/*.tfrecord", capfd):
        assert f"{known} is not a 'yt8m manifest 1'" in said


@pytest.mark.promise("I1")
def test_training_tells_what_was_expected_and_read(
    run: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = json.loads((run / "data/manifest.json").read_text())
    known["shards"]["b.tfrecord"]["records"] = 7
    (tmp_path / "manifest.json").write_text(json.dumps(known))
    for name in "ab":
        (tmp_path / f"{name}.tfrecord").write_bytes((run / f"data/{name}.tfrecord").read_bytes())
    data = [
        f"--train_data_pattern={tmp_path}/*.tfrecord",
        "--batch_size=4",
        "--num_epochs=2",
        "--export_model_steps=none",
    ]
    assert train.main([*data, *FEATURES, f"--train_dir={tmp_path}/run"]) == 0
    said = "\n".join(caplog.messages)
    assert re.search(r"b\.tfrecord .*\b6 records.*\b7\b", said)
    assert "epoch 1: 13 records expected, 12 read" in said
    assert "epoch 2: 13 records expected, 12 read" in said
    assert "24 records were read" in said
    assert "are not checked" not in said


@pytest.mark.promise("I1")
def test_the_log_counts_the_shards_that_the_manifest_does_not_list(
    run: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = json.loads((run / "data/manifest.json").read_text())
    del known["shards"]["b.tfrecord"]
    (tmp_path / "manifest.json").write_text(json.dumps(known))
    for name in "ab":
        (tmp_path / f"{name}.tfrecord").write_bytes((run / f"data/{name}.tfrecord").read_bytes())
    evaluation.main([f"--train_dir={run}/run", f"--eval_data_pattern={tmp_path}/*.tfrecord", "--run_once"])
    said = "\n".join(caplog.messages)
    assert f"1 of 2 shards are not in {tmp_path}/manifest.json, such as {tmp_path}/b.tfrecord: the numbers" in said


@pytest.mark.promise("I1")
def test_without_a_manifest_the_log_says_so(
    run: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "a.tfrecord"
    data.write_bytes((run / "data/a.tfrecord").read_bytes())
    evaluation.main([f"--train_dir={run}/run", f"--eval_data_pattern={data}", "--run_once"])
    assert "are not checked" in "\n".join(caplog.messages)
    words = [f"--train_dir={run}/run", f"--eval_data_pattern={data}", f"--manifest={run}/none.json"]
    assert evaluation.main(words) == 2
    assert re.search(f"--manifest={run}/none.json: .*no such file", capfd.readouterr().err)
