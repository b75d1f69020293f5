"""Shards that change after their records were counted: the error names them, and no result is written."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator

import fault_shards
import pytest
from fault_shards import CLASSES, LEVELS

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import EvalConfig
from yt8m.errors import RunError
from yt8m.readers import BatchQueue
from yt8m.readers.input_check import CountedShards, check_input
from yt8m.records import manifest
from yt8m.scoring.evaluation import evaluate

SHARDS, RECORDS = 16, 8  # so many that after one batch the last is not open yet
FEATURES = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=3,2", "--num_classes=10"]

# Changes the last shard after the first step. It is named by its file, as a user's own callback is.
CALLBACK = """
import os
from yt8m.lazy import tf


class Change(tf.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        path, length = os.environ["SHARD"], int(os.environ["LENGTH"])
        if os.path.exists(path):
            os.truncate(path, length) if length else os.unlink(path)


class ChangeFirst(tf.train.SessionRunHook):
    def begin(self):
        Change().after_run(None, None)
"""

pytestmark = pytest.mark.promise("I1")


def fill(folder: pathlib.Path, level: str = "video") -> tuple[pathlib.Path, int]:
    """Writes the shards; returns the last one, and its length without its last three records."""
    for number in range(SHARDS):
        records = fault_shards.sound(level, RECORDS, f"{number}.")
        fault_shards.write(folder / f"{number:02}.tfrecord", records)
    return folder / f"{SHARDS - 1:02}.tfrecord", len(fault_shards.shard(records[:-3]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run on videos, with two checkpoints."""
    folder = tmp_path_factory.mktemp("changed")
    fill(folder)
    data = [
        f"--train_data_pattern={folder}/*.tfrecord",
        "--batch_size=8",
        "--save_checkpoint_steps=2",
        "--export_model_steps=none",
    ]
    assert train.main([*data, *FEATURES, f"--train_dir={folder}/run", "--max_steps=4"]) == 0
    return folder / "run"


@pytest.fixture
def changing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[pathlib.Path, int], list[str]]:
    """Makes the flag of a callback that cuts a shard to a length after the first step; 0 removes it."""
    (tmp_path / "changing_shards.py").write_text(CALLBACK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def flag(shard: pathlib.Path, length: int) -> list[str]:
        monkeypatch.setenv("SHARD", str(shard))
        monkeypatch.setenv("LENGTH", str(length))
        return ["--callbacks=changing_shards:Change"]

    return flag


@pytest.mark.parametrize("how", ["cut", pytest.param("deleted", marks=pytest.mark.heavy)])
def test_inference_writes_nothing(
    run: pathlib.Path,
    tmp_path: pathlib.Path,
    changing: Callable[..., list[str]],
    capfd: pytest.CaptureFixture[str],
    how: str,
) -> None:
    """In the middle of it the last shard changes."""
    shard, length = fill(tmp_path)
    words = [f"--train_dir={run}", f"--input_data_pattern={tmp_path}/*.tfrecord", "--batch_size=8"]
    words += [f"--output_file={tmp_path}/out.csv", *changing(shard, length if how == "cut" else 0)]
    assert inference.main(words) == 1
    said = capfd.readouterr().err
    assert "Traceback" not in said
    what = {"cut": f"{shard} has changed", "deleted": f"cannot read {shard}"}
    assert what[how] in said
    assert not list(tmp_path.glob("*out.csv*"))


@pytest.mark.heavy
def test_segment_inference_writes_nothing(
    tmp_path: pathlib.Path, changing: Callable[..., list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    """Its examples are segments; what is counted are the records that they come from."""
    shard, length = fill(tmp_path, "segment")
    features = ["--feature_names=rgb,audio", "--feature_sizes=3,2", "--num_classes=10", "--frame_features"]
    data = [f"--train_data_pattern={tmp_path}/*.tfrecord", "--batch_size=8", "--max_steps=1"]
    flags = ["--model=FrameLevelLogisticModel", *data, *features]
    assert train.main([*flags, f"--train_dir={tmp_path}/run"]) == 0
    words = [f"--train_dir={tmp_path}/run", f"--output_file={tmp_path}/out.csv", "--segment_labels"]
    words += [f"--input_data_pattern={tmp_path}/*.tfrecord", "--batch_size=4"]
    assert inference.main(words) == 0
    (tmp_path / "out.csv").unlink()
    # Records are parsed 64 at a time, so all could be read before the first step: change the shard before that.
    changed = [word.replace(":Change", ":ChangeFirst") for word in changing(shard, length)]
    assert inference.main([*words, *changed]) == 1
    assert f"{shard} has changed" in capfd.readouterr().err
    assert not list(tmp_path.glob("*out.csv*"))


def test_one_evaluation_reports_nothing(
    run: pathlib.Path, tmp_path: pathlib.Path, changing: Callable[..., list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    shard, length = fill(tmp_path)
    words = [f"--train_dir={run}", f"--eval_data_pattern={tmp_path}/*.tfrecord", "--batch_size=8", "--run_once"]
    assert evaluation.main([*words, *changing(shard, length)]) == 1
    assert f"{shard} has changed" in capfd.readouterr().err
    assert not (run / "eval/report.json").exists()


@pytest.mark.parametrize("how", [pytest.param("cut", marks=pytest.mark.heavy), "deleted"])
def test_an_evaluation_that_follows_a_run_ends(run: pathlib.Path, tmp_path: pathlib.Path, how: str) -> None:
    """A process that has judged one checkpoint; before the next one comes a shard changes."""
    shard, length = fill(tmp_path)
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("eval"))

    def as_they_come() -> Iterator[str]:
        yield f"{tmp_path}/run/model.ckpt-2"
        os.truncate(shard, length) if how == "cut" else shard.unlink()
        yield f"{tmp_path}/run/model.ckpt-4"

    config = EvalConfig(train_dir=f"{tmp_path}/run", eval_data_pattern=f"{tmp_path}/*.tfrecord")
    what = {"cut": f"{shard} holds 5 records, but held 8 before", "deleted": f"{shard} has changed or is gone"}[how]
    with pytest.raises(RunError, match=what):
        evaluate(config, as_they_come())
    assert json.loads((tmp_path / "run/eval/report.json").read_text())["global_step"] == 2


def test_training_tells_what_it_has_read(
    tmp_path: pathlib.Path, changing: Callable[..., list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    """A batch may hold records of two epochs; each record is counted in its own epoch."""
    shard, length = fill(tmp_path)
    words = [f"--train_data_pattern={tmp_path}/*.tfrecord", "--batch_size=24", "--num_epochs=5", *FEATURES]
    assert (
        train.main([*words, f"--train_dir={tmp_path}/run", "--export_model_steps=none", *changing(shard, length)]) == 0
    )
    told = [record for record in caplog.records if "records expected" in record.getMessage()]
    assert told[0].getMessage() == "epoch 1: 128 records expected, 128 read"
    assert told[0].levelname == "INFO"
    assert re.fullmatch(rf"epoch 5: 128 records .* 125 .*{shard} .*", told[-1].getMessage())
    assert told[-1].levelname == "WARNING"
    assert len(told) == 5
    read = sum(int(record.getMessage().split("expected, ")[1].split()[0]) for record in told)
    assert any(re.fullmatch(f"{read} records .* 128", message) for message in caplog.messages)


@pytest.mark.heavy
def test_a_resumed_run_compares_the_epochs_that_it_begins(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    words = [f"--train_data_pattern={tmp_path}/*.tfrecord", "--batch_size=24", "--num_epochs=3", *FEATURES]
    words += [f"--train_dir={tmp_path}/run", "--exact_resume"]
    assert train.main([*words, "--max_steps=3"]) == 0
    assert not [text for text in caplog.messages if "records expected" in text]
    assert train.main(words) == 0
    told = [text for text in caplog.messages if "records expected" in text]
    assert told == [f"epoch {epoch}: 128 records expected, 128 read" for epoch in (2, 3)]
    assert any(re.fullmatch(f"{3 * 128 - 72} records .* 128", message) for message in caplog.messages)


def count_shards(folder: object, level: str = "video", bad: int = 0) -> tuple[BatchQueue, CountedShards]:
    """A queue over the shards in a folder, and the look at them."""
    pattern = f"{folder}/*.tfrecord"
    queue = fault_shards.queue(level, pattern, max_bad_records=bad)
    return queue, check_input(queue, DataConfig(pattern, num_classes=CLASSES, max_bad_records=bad))


def names(*shards: tuple[str, int]) -> list[str]:
    return [f"{prefix}{number}" for prefix, count in shards for number in range(count)]


def test_a_shard_written_anew_may_hold_as_many(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in "ab":
        fault_shards.write(tmp_path / f"{name}.tfrecord", fault_shards.sound("video", 6, name))
    queue, counted_shards = count_shards(tmp_path)
    assert fault_shards.ids_read(queue) == names(("a", 6), ("b", 6))
    counted_shards.check_read()
    fault_shards.write(tmp_path / "b.tfrecord", fault_shards.sound("video", 6, "other"))
    fault_shards.write(tmp_path / "c.tfrecord", fault_shards.sound("video", 6, "c"))
    with pytest.raises(RunError, match=r"b\.tfrecord has changed"):
        counted_shards.check_read()
    counted_shards.check_unchanged()
    assert any(re.fullmatch(f"rewritten .*1 shard, .*{tmp_path}/b.tfrecord", message) for message in caplog.messages)
    assert f"1 shards, such as {tmp_path}/c.tfrecord, appeared after the start" in caplog.text
    assert fault_shards.ids_read(queue) == names(("a", 6), ("other", 6))
    counted_shards.check_read()
    whole = (tmp_path / "b.tfrecord").read_bytes()
    (tmp_path / "b.tfrecord").write_bytes(whole[:-3])
    with pytest.raises(RunError, match=r"b\.tfrecord: record 5: .*cut"):
        counted_shards.check_unchanged()


@pytest.mark.parametrize(
    ("level", "parts"), [("video", 3), *(pytest.param(level, 1, marks=pytest.mark.heavy) for level in LEVELS[1:])]
)
def test_fewer_records_than_the_headers_said_are_refused(tmp_path: pathlib.Path, level: str, parts: int) -> None:
    """Whatever the reason is: here, that the pass ends before the last record."""
    paths = [tmp_path / f"{name}.tfrecord" for name in "ab"]
    for path, count in zip(paths, (7, 6), strict=True):
        fault_shards.write(path, fault_shards.sound(level, count, path.stem))
    queue, _ = count_shards(tmp_path, level)
    # More processes than files share every file.
    shares = [queue] if parts == 1 else [queue.share(part, parts) for part in range(parts)]
    counts = {str(path): count for path, count in zip(paths, (7, 6), strict=True)}
    for share in shares:
        fault_shards.ids_read(share)
        CountedShards(share, DataConfig(num_classes=CLASSES), counts).check_read()
    assert sum(share.records_read for share in shares) == 13
    for share in shares:
        more = CountedShards(share, DataConfig(num_classes=CLASSES), counts | {str(paths[1]): 6 + parts})
        with pytest.raises(RunError, match=rf"such as {paths[0]}, should give {share.records_read + 1} records, but"):
            more.check_read()


def test_shards_of_which_one_grows_as_the_other_shrinks_are_named(tmp_path: pathlib.Path) -> None:
    """Their sum says nothing."""
    paths = [tmp_path / f"{name}.tfrecord" for name in "ab"]
    for path, count in zip(paths, (7, 6), strict=True):
        fault_shards.write(path, fault_shards.sound("video", count, path.stem))
    queue, counted_shards = count_shards(tmp_path)
    for path, count in zip(paths, (3, 10), strict=True):
        fault_shards.write(path, fault_shards.sound("video", count, path.stem))
    fault_shards.ids_read(queue)
    with pytest.raises(RunError, match=r"a\.tfrecord has changed.*b\.tfrecord has changed"):
        counted_shards.check_read()
    with pytest.raises(RunError, match=r"a\.tfrecord holds 3 records, but held 7 .*b\.tfrecord holds 10 records"):
        counted_shards.check_unchanged()


def test_another_file_of_the_same_size_and_time_is_named(tmp_path: pathlib.Path) -> None:
    """As `tar`, `rsync -t` and `cp -p` leave it."""
    path, other = tmp_path / "a.tfrecord", tmp_path / "new"
    for place, name in ((path, "a"), (other, "b")):
        fault_shards.write(place, fault_shards.sound("video", 6, name))
        os.utime(place, (1e9, 1e9))
    queue, counted_shards = count_shards(tmp_path)
    other.replace(path)
    fault_shards.ids_read(queue)
    with pytest.raises(RunError, match=r"a\.tfrecord has changed"):
        counted_shards.check_read()


@pytest.mark.heavy
def test_a_shard_is_expected_up_to_its_bad_record(tmp_path: pathlib.Path) -> None:
    for name, bad in (("a", b"no proto"), ("b", None)):
        records = fault_shards.sound("video", 6, name)
        fault_shards.write(tmp_path / f"{name}.tfrecord", records[:4] + [bad or records[4], records[5]])
    queue, counted_shards = count_shards(tmp_path, bad=1)
    assert fault_shards.ids_read(queue) == names(("a", 4), ("b", 6))
    counted_shards.check_read()
    fault_shards.write(tmp_path / "b.tfrecord", fault_shards.sound("video", 3, "b"))
    assert fault_shards.ids_read(queue) == names(("a", 4), ("b", 3))
    with pytest.raises(RunError, match=r"b\.tfrecord has changed"):
        counted_shards.check_read()
    with pytest.raises(RunError, match=r"b\.tfrecord holds 3 records, but held 6"):
        counted_shards.check_unchanged()


@pytest.mark.promise("I10")
def test_in_a_bucket_a_shard_is_known_by_its_generation(
    bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from yt8m import storage

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(name: str, count: int) -> None:
        with storage.write_atomic(f"{bucket}/{name}.tfrecord") as file:
            file.write(fault_shards.shard(fault_shards.sound("video", count, name)))

    write("a", 6)
    write("b", 6)
    queue, counted_shards = count_shards(bucket)
    counted_shards.check_unchanged()
    assert fault_shards.ids_read(queue) == names(("a", 6), ("b", 6))
    counted_shards.check_read()
    write("b", 6)
    with pytest.raises(RunError, match=r"b\.tfrecord has changed"):
        counted_shards.check_read()
    with pytest.raises(RunError, match=r"b\.tfrecord has changed"):
        counted_shards.check_unchanged()
    storage.remove(f"{bucket}/a.tfrecord")
    with pytest.raises(RunError, match=r"a\.tfrecord .*changed or .*gone"):
        counted_shards.check_unchanged()


@pytest.mark.promise("I10")
def test_in_a_bucket_the_manifest_says_what_shards_hold(
    bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from yt8m import storage

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    content = fault_shards.shard(fault_shards.sound("video", 6, "a"))
    with storage.write_atomic(f"{bucket}/a.tfrecord") as file:
        file.write(content)
    shard = {"records": 7, "bytes": len(content), "crc32c": "00000000"}
    known = {"format": manifest.FORMAT, "shards": {"a.tfrecord": shard}}
    storage.write(f"{bucket}/manifest.json", json.dumps(known))
    queue, counted_shards = count_shards(bucket)
    fault_shards.ids_read(queue)
    with pytest.raises(RunError, match=r"a\.tfrecord, should give 7 records, but 6 were read"):
        counted_shards.check_read()
