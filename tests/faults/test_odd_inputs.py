"""What is odd about data is said alike by every command that reads such data."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import pathlib
import re
import zlib
from collections.abc import Callable

import cases
import numpy as np
import pytest
from reader_records import video_record, write_shard

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.bulk import shard_work
from yt8m.bulk.bulk_config import EvalBulk, InferBulk, ShardTask
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest
from yt8m.records.data_format import DataFormat, FeatureFormat

CLASSES = 4
Records = list[bytes]


def video(number: int, **changed: object) -> bytes:
    values = {"id": [b"v%d" % number], "clip": [0.5, float(number)], "labels": [number % CLASSES]}
    return video_record(**{**values, **changed})


def sound() -> Records:
    return [video(number) for number in range(24)]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small run on sound data."""
    folder = tmp_path_factory.mktemp("sound")
    shard = write_shard(folder / "a.tfrecord", sound())
    words = [f"--train_data_pattern={shard}", f"--train_dir={folder}/run", f"--num_classes={CLASSES}"]
    assert (
        train.main([*words, "--batch_size=8", "--max_steps=2", "--model=LogisticModel", "--export_model_steps=none"])
        == 0
    )
    return f"{folder}/run"


def bulk(work: Callable[..., object], config: object, path: str) -> int:
    """Does the work of one shard of a bulk job in this process, with its error as a program would print it."""
    try:
        work(config, ShardTask(0, path, f"{path}.csv"))
    except (UsageError, RunError) as error:
        print(error)
        return 1
    finally:
        shard_work.close_models()
    return 0


def bulk_job(config: EvalBulk) -> int:
    """The whole job, which needs Beam."""
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    from yt8m.bulk import jobs

    return jobs.run("eval", config, ())


def commands(run: str, path: str, out: pathlib.Path) -> dict[str, Callable[[], int]]:
    """{command: a call of it on the shard `path`}; those that learn from labels or compare with them come first."""
    classes, predictions = f"--num_classes={CLASSES}", out / "p.csv"
    lines = "".join(f"v{number},0 0.5\n" for number in range(24))
    predictions.write_text(f"VideoId,LabelConfidencePairs\n{lines}")
    small = ["--batch_size=8", "--max_steps=1", "--export_model_steps=none"]
    bulk_eval = EvalBulk(model=run, data=path, out=f"{out}/e")
    return {
        "train": lambda: train.main([f"--train_data_pattern={path}", f"--train_dir={out}/t", classes, *small]),
        "eval": lambda: evaluation.main([f"--train_dir={run}", f"--eval_data_pattern={path}", "--run_once"]),
        "score": lambda: cli.main(["score", f"--predictions={predictions}", f"--data={path}", classes]),
        "audit": lambda: cli.main(["audit", f"--data={path}", f"--out={out}/audit", classes, "--folds=2"]),
        "bulk eval": lambda: bulk(shard_work.evaluate, bulk_eval, path),
        "job of bulk eval": lambda: bulk_job(bulk_eval),
        "verify": lambda: cli.main(["verify", "--deep", path]),
        "inspect": lambda: cli.main(["inspect", path]),
        "cache": lambda: cli.main(["cache", f"--data={path}", f"--out={out}/cache", classes]),
        "inference": lambda: inference.main(
            [f"--train_dir={run}", f"--input_data_pattern={path}", f"--output_file={out}/o.csv"]
        ),
        "predict": lambda: cli.main(["predict", f"--model={run}", path, "--count=1000"]),
        "bulk infer": lambda: bulk(shard_work.predict, InferBulk(model=run, data=path, out=f"{out}/i"), path),
        "read_records": lambda: print(sum(map(len, yt8m.read_records(path, num_classes=CLASSES)))) or 0,
    }


NEED_LABELS = ("train", "eval", "score", "audit", "job of bulk eval")
PARSE_LABELS = ("verify", "inspect", "cache")
READ_ALL = ("train", "eval", "score", "audit", "bulk eval", "verify", "inspect", "cache", "inference", "predict")
READ_ALL += ("bulk infer", "read_records")
CHECK_FEATURES = ("train", "eval", "audit", "bulk eval", "verify", "cache", "inference", "predict", "bulk infer")


class Answers:
    """Sends a file through commands, and collects what they say."""

    def __init__(
        self, run: str, out: pathlib.Path, capfd: pytest.CaptureFixture[str], log: pytest.LogCaptureFixture
    ) -> None:
        self._run, self._out, self._capfd, self._log = run, out, capfd, log

    def of(self, name: str, path: str) -> tuple[int, str]:
        """The exit status of a command that reads the file `path`, and all that it says."""
        self._log.clear()
        self._capfd.readouterr()
        try:
            with self._log.at_level("INFO"):
                status = commands(self._run, path, self._out)[name]()
        except (UsageError, RunError) as error:  # from Python
            return 1, f"{error} {' '.join(self._log.messages)}"
        output, errors = self._capfd.readouterr()
        return status, " ".join(f"{output} {errors} {' '.join(self._log.messages)}".split())


@pytest.fixture
def answers(
    run_dir: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Answers:
    return Answers(run_dir, tmp_path, capfd, caplog)


def _gzip(folder: pathlib.Path) -> None:
    path = folder / "a.tfrecord"
    path.write_bytes(gzip.compress(path.read_bytes()))


def _zlib(folder: pathlib.Path) -> None:
    path = folder / "a.tfrecord"
    path.write_bytes(zlib.compress(path.read_bytes()))


def _deflate(folder: pathlib.Path) -> None:
    path = folder / "a.tfrecord"
    path.write_bytes(zlib.compress(path.read_bytes(), wbits=-15))


def _lz4(folder: pathlib.Path) -> None:
    """A frame of LZ4 with one block that is stored as it is; the checksum of its header is right."""
    path = folder / "a.tfrecord"
    block = path.read_bytes()
    size = (len(block) | 1 << 31).to_bytes(4, "little")
    path.write_bytes(b"\x04\x22\x4d\x18\x60\x40\x82" + size + block + bytes(4))


@pytest.fixture
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of bulk ends before it reads a shard."""

    def end(*_: object) -> None:
        raise RunError("the shards would be read now")

    if importlib.util.find_spec("apache_beam"):
        monkeypatch.setattr("yt8m.bulk.pipelines.run", end)


@pytest.mark.usefixtures("no_job")
@pytest.mark.parametrize("name", cases.only([*NEED_LABELS, *PARSE_LABELS], ["train", "score", "verify", "cache"]))
def test_vectors_of_0_and_1_in_place_of_labels_are_named(name: str, answers: Answers, tmp_path: pathlib.Path) -> None:
    vectors = [video(k, labels=[int(k % CLASSES == c) for c in range(CLASSES)]) for k in range(24)]
    path = write_shard(tmp_path / "a.tfrecord", vectors)
    status, text = answers.of(name, path)
    assert re.search(f"{path}: labels .*{CLASSES} numbers .*0 or 1", text)
    assert status == {"train": 2, "audit": 2, "job of bulk eval": 1}.get(name, 0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", '{"v0": ["a"], "v1": ["b"], "v0": ["c"]}'),
        ("t.json", '[{"id": "v0", "labels": ["a"], "labels": ["c"]}, {"id": "v1", "labels": ["b"]}]'),
        ("t.jsonl", '{"id": "v0", "labels": ["a"]}\n{"id": "v1", "labels": ["b"], "labels": ["c"]}\n'),
    ],
)
def test_labels_are_not_lost_because_a_key_occurs_twice(
    name: str, text: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    words = [f"--table={tmp_path}/{name}", f"--array={tmp_path}/x.npy", f"--out={tmp_path}/made"]
    assert cli.main(["make-records", *words]) == 1
    said = capfd.readouterr().err
    assert name in said
    assert "twice" in said
    assert not (tmp_path / "made").exists()


@pytest.mark.usefixtures("no_job")
@pytest.mark.parametrize("name", NEED_LABELS)
def test_a_missing_feature_labels_is_named_with_the_one_that_may_be_meant(
    name: str, answers: Answers, tmp_path: pathlib.Path
) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [video(k, labels=None, tag=[k]) for k in range(24)])
    status, text = answers.of(name, path)
    assert f"{path}: none of the first 24 videos has a label" in text
    assert "a feature tag ([0])" in text
    assert status == {"train": 2, "audit": 2, "score": 1, "job of bulk eval": 1}.get(name, 0)


def _empty(folder: pathlib.Path) -> None:
    (folder / "a.tfrecord").write_bytes(b"")


DAMAGES = {
    "the file is empty": _empty,
    "the file is compressed by gzip, and read as plain": _gzip,
    "the file is compressed by zlib, and read as plain": _zlib,
    "the file is compressed by zlib (raw deflate), and read as plain": _deflate,
    "the file is compressed by lz4, and read as plain": _lz4,
}


@pytest.mark.promise("I8")
@pytest.mark.parametrize(
    ("name", "damage"),
    cases.only(
        [*itertools.product(READ_ALL, DAMAGES)],
        [(name, damage) for name in READ_ALL for damage in DAMAGES if damage in list(DAMAGES)[:2] or name == "verify"],
    ),
)
def test_a_file_that_is_no_shard_ends_every_command_with_the_same_words(
    name: str, damage: str, answers: Answers, tmp_path: pathlib.Path
) -> None:
    path = write_shard(tmp_path / "a.tfrecord", sound())
    DAMAGES[damage](tmp_path)
    status, text = answers.of(name, path)
    assert damage in text
    assert path in text
    assert status == 1


@pytest.mark.parametrize("name", cases.only(CHECK_FEATURES, ["train", "verify", "predict", "bulk infer"]))
def test_a_feature_of_another_type_is_named_with_both_types(
    name: str, answers: Answers, tmp_path: pathlib.Path
) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [video(number, clip=[number, number]) for number in range(24)])
    declared = DataFormat("video", (FeatureFormat("clip", 2),), num_classes=CLASSES)
    manifest.write(str(tmp_path / manifest.NAME), {}, declared)
    status, text = answers.of(name, path)
    assert status == 1
    assert all(word in text for word in ("record 0", "clip", "float", "int64")), text


@pytest.mark.parametrize(
    "name", cases.all_of(["train", "inference", "read_records"], heavy=["eval", "audit", "bulk eval", "bulk infer"])
)
def test_a_shard_that_differs_from_its_manifest_is_named_with_both_numbers(
    name: str, answers: Answers, tmp_path: pathlib.Path
) -> None:
    """Training, which has an epoch of what there is, only warns."""
    path = write_shard(tmp_path / "a.tfrecord", sound())
    assert cli.main(["verify", path, f"--manifest={tmp_path}/{manifest.NAME}"]) == 0
    write_shard(tmp_path / "a.tfrecord", sound()[:-1])
    status, text = answers.of(name, path)
    assert re.search(f"{path} .*23 records.* 24", text)
    assert status == (0 if name == "train" else 1)
