"""Every command that says how good a model is warns if it is told to look at videos that the model was trained on."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import cases
import pytest
from reader_records import video_record, write_shard

import yt8m
from yt8m import eval as evaluation
from yt8m import train
from yt8m.bulk.bulk_config import EvalBulk
from yt8m.command_line import cli
from yt8m.errors import RunError
from yt8m.records import shared_videos

CLASSES = 3


def _records(prefix: str) -> list[bytes]:
    return [
        video_record(id=[b"%s%d" % (prefix.encode(), k)], clip=[k % CLASSES - 1.0, 0.5], labels=[k % CLASSES])
        for k in range(40)
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run, its training shard under three names, and a shard of other videos."""
    folder = tmp_path_factory.mktemp("world")
    write_shard(folder / "a.tfrecord", _records("a"))
    write_shard(folder / "other.tfrecord", _records("b"))
    (folder / "link.tfrecord").symlink_to(folder / "a.tfrecord")
    shutil.copy(folder / "a.tfrecord", folder / "copy.tfrecord")
    assert train.main(_training(folder, "run", "other")) == 0
    return folder


def _training(folder: pathlib.Path, run: str, validation: str, *more: str) -> list[str]:
    words = [f"--train_data_pattern={folder}/a.tfrecord", f"--train_dir={folder}/{run}", f"--num_classes={CLASSES}"]
    words += [f"--eval_data_pattern={folder}/{validation}.tfrecord", "--export_model_steps=0", *more]
    return words if more else [*words, "--model=LogisticModel", "--max_steps=2", "--batch_size=8"]


def _job_of_bulk_eval(folder: pathlib.Path, data: str) -> None:
    from yt8m.bulk import jobs

    config = EvalBulk(model=f"{folder}/run", data=f"{folder}/{data}.tfrecord", out=f"{folder}/figures_{data}")
    with pytest.raises(RunError, match="no more"):
        jobs.run("eval", config, ())


def _evaluated(folder: pathlib.Path, data: str) -> None:
    with yt8m.load(folder / "run") as model:
        model.evaluate(f"{folder}/{data}.tfrecord")


COMMANDS: dict[str, Callable[[pathlib.Path, str], object]] = {
    "train": lambda folder, data: train.main(_training(folder, f"of_{data}", data)),
    "a search": lambda folder, data: train.main(_training(folder, f"chosen_{data}", data, "--budget=1")),
    "eval": lambda folder, data: evaluation.main(
        [f"--train_dir={folder}/run", f"--eval_data_pattern={folder}/{data}.tfrecord", "--run_once"]
    ),
    "bulk eval": _job_of_bulk_eval,
    "count": lambda folder, data: cli.main(
        [
            *("count", f"--model={folder}/run", f"--labelled={folder}/{data}.tfrecord", f"--out={folder}/c.csv"),
            f"--data={folder}/other.tfrecord",
        ]
    ),
    "Model.evaluate": _evaluated,
}
FLAGS = {"bulk eval": "data", "count": "labelled", "Model.evaluate": "data"}


PAIRS = [(command, data) for command in COMMANDS for data in ("link", "copy")]
QUICK = [(command, "link") for command in COMMANDS if command != "a search"]


@pytest.mark.parametrize(("command", "data"), cases.only(PAIRS, QUICK))
def test_it_is_said_once(
    command: str, data: str, world: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def end(*_: object) -> None:
        raise RunError("no more")

    if command == "bulk eval":
        pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
        monkeypatch.setattr("yt8m.bulk.pipelines.run", end)
    monkeypatch.setattr(shared_videos, "_told", set())
    COMMANDS[command](world, data)
    (said,) = [text for text in caplog.messages if "what the model remembers" in text]
    assert said.startswith(f"--{FLAGS.get(command, 'eval_data_pattern')}={world}/{data}.tfrecord: 1 of the 1 files")
    assert f"{world}/{data}.tfrecord, which is {world}/a.tfrecord" in said


def test_nothing_is_said_of_other_videos(world: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    _evaluated(world, "other")
    assert not [text for text in caplog.messages if "remembers" in text]
