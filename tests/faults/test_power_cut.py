"""The power fails while a command writes: no name promises more than the disk holds, and training goes on."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable, Mapping

import cases
import made_videos
import numpy as np
import pytest
from datasets.download import shard_server
from faults.power_cuts import (
    OUTCOMES,
    Files,
    Recording,
    build,
    promises,
    record,
    write_files,
    written_in_place,
    yt8m_words,
)
from golden_data import golden
from own_clips import write_clips
from small_run import FEATURES, ROOT, train_words, weights

from yt8m import train
from yt8m.runner import checkpoints

TRAIN = ["--save_checkpoint_steps=4", "--keep_checkpoints=2", "--max_steps=12"]
MODELS = {
    "train": train_words(pathlib.Path("run"), *TRAIN, "--cache=cache"),
    "export": ["--train_dir=run", "--out=export"],
    "average-checkpoints": ["--train_dir=run", "--last=2", "--out=averages"],
    "inference": ["--train_dir=run", "--input_data_pattern={test}", "--output_file=p.csv", "--output_model_tgz=m.tgz"],
    "eval": ["--train_dir=run", "--eval_data_pattern={test}", "--run_once", "--report"],
    "report": ["run", "--output=page.html"],
    "import-checkpoint": [
        *("--from=google", "--checkpoint={starter}", "--out=imported", "--model=LogisticModel"),
        *FEATURES[:2],
    ],
}
DATA = {
    "make-records": ["--table={clips}/clips.csv", "--out=made", "--level=frame", "--shards=2"],
    "extract": [
        *("--videos={videos}", "--labels=folder", "--out=extracted", "--shards=2", "--jobs=1"),
        "--extractors=own_extractors:Colours",
    ],
    "download": ["--partition=2/frame/train", "--dest=shards", "--plan_url={url}", "--mirror_url={url}"],
}
ALL_POINTS = [10, 200]
POINTS = cases.only(ALL_POINTS, [10])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("recorder"))


def recorded(library: pathlib.Path, folder: pathlib.Path, names: Iterable[str]) -> Recording:
    """What these commands of `MODELS` do, one after another."""
    data = {"test": golden("checkpoint_logistic/test.tfrecord"), "starter": golden("checkpoint_logistic/train_dir")}
    commands = {name: [name, *(word.format(**data) for word in MODELS[name])] for name in names}
    return record(library, folder, yt8m_words(commands))


@pytest.fixture(scope="module")
def training(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A run is trained."""
    return recorded(library, tmp_path_factory.mktemp("training"), ["train"])


@pytest.fixture(scope="module")
def models(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A run is trained, and everything is made of it that can be made."""
    return recorded(library, tmp_path_factory.mktemp("models"), MODELS)


@pytest.fixture(scope="module")
def data(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Records are made of arrays and of videos, and others are downloaded."""
    clips, videos = tmp_path_factory.mktemp("clips"), tmp_path_factory.mktemp("videos")
    write_clips(clips)
    made_videos.write_kinds(videos, 6)
    shards = {f"{name}.tfrecord": os.urandom(20_000) for name in ("trainaa", "trainab", "trainbF")}
    with shard_server.serving(shards) as server:
        places = {"clips": clips, "videos": videos, "url": server.url}
        commands = [
            yt8m_words({name: [name, *(word.format(**places) for word in words)]}) for name, words in DATA.items()
        ]
        own_code = {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{ROOT / 'tests/support'}",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        return record(library, tmp_path_factory.mktemp("data"), *commands, **own_code)


def check(recording: Recording, command: str, count: int) -> None:
    """No name is taken as finished that misses a byte; and at the end of the command all names are on the disk."""
    promised = promises(recording)
    points = recording.points(count, command)
    for point, disk in recording.replay(points):
        for outcome in OUTCOMES:
            files = disk.after_power_cut(outcome)
            assert promised.broken(files) == [], f"{command}, after call {point}, {outcome}"
            if point == points[-1]:
                assert promised.files.keys() & disk.files().keys() <= files.keys(), f"{command}, {outcome}"


def unlike(files: Files, folder: str, step: int, whole: Mapping[str, bytes]) -> list[str]:
    """The files of a checkpoint and of its position that are not as they were when they were complete.

    The meta-graph is written last and may be absent: the graph is then built by the model's code (promise C2).
    """
    there = {path for path in whole if path.startswith((f"{folder}/model.ckpt-{step}.", f"{folder}/input-{step}."))}
    optional = {path for path in there if path.endswith(".meta") and path not in files}
    return sorted(path for path in there - optional if files.get(path) != whole[path])


@pytest.mark.promise("C11")
@pytest.mark.long
@pytest.mark.parametrize("count", POINTS)
def test_training_goes_on_from_a_whole_checkpoint(training: Recording, tmp_path: pathlib.Path, count: int) -> None:
    """The checkpoint that is named is whole, and so is the one that the next start chooses, which is no older."""
    whole = {call.target: call.content for call in training.calls if call.operation == "rename" and call.content}
    newest, steps = 0, set()
    for point, disk in training.replay(training.points(count, "train")):
        for number, outcome in enumerate(OUTCOMES):
            files = disk.after_power_cut(outcome)
            run = write_files(tmp_path / f"{point}-{number}", files) / "run"
            state = checkpoints.read_state(str(run)) if run.exists() else None
            pointed = checkpoints.step_of(state.model_checkpoint_path) if state else 0
            chosen = checkpoints.step_of(checkpoints.newest_readable(str(run)) or "-0") if run.exists() else 0
            assert newest <= pointed <= chosen, f"after call {point}, {outcome}"
            for step in {pointed, chosen} - {0}:
                assert unlike(files, "run", step, whole) == [], f"after call {point}, {outcome}"
            newest, steps = max(newest, pointed if not outcome.names else 0), steps | {chosen}
    assert steps == {0, 4, 8, 12}


@pytest.mark.heavy
@pytest.mark.promise("C11")
@pytest.mark.long
@pytest.mark.parametrize("count", [1, 10])
def test_training_ends_as_without_a_power_cut(training: Recording, tmp_path: pathlib.Path, count: int) -> None:
    whole = {path: content for path, (_, content) in training.after.items() if content is not None}
    expected = weights(write_files(tmp_path / "whole", whole) / "run", 12)
    for point, disk in training.replay(training.points(2 * count, "train")[::2]):
        outcome = OUTCOMES[point % len(OUTCOMES)]
        folder = write_files(tmp_path / str(point), disk.after_power_cut(outcome))
        words = train_words(folder / "run", *TRAIN, f"--cache={folder}/cache")
        assert train.main(words) == 0, f"after call {point}, {outcome}"
        for name, values in weights(folder / "run", 12).items():
            np.testing.assert_array_equal(values, expected[name], f"{name}, after call {point}, {outcome}")


@pytest.mark.promise("C11")
@pytest.mark.long
@pytest.mark.parametrize("count", POINTS)
def test_what_a_training_makes(training: Recording, count: int) -> None:
    check(training, "train", count)
    assert any(path.endswith(".parsed") for path in promises(training).files), "the cache of parsed shards"


@pytest.mark.heavy
@pytest.mark.promise("C11")
@pytest.mark.long
@pytest.mark.parametrize("count", ALL_POINTS)
@pytest.mark.parametrize("command", [name for name in MODELS if name != "train"])
def test_what_is_made_of_models(models: Recording, command: str, count: int) -> None:
    check(models, command, count)


@pytest.mark.heavy
@pytest.mark.promise("C11")
@pytest.mark.long
@pytest.mark.parametrize("count", ALL_POINTS)
@pytest.mark.parametrize("command", DATA)
def test_what_is_made_of_data(data: Recording, command: str, count: int) -> None:
    check(data, command, count)


@pytest.mark.promise("C11")
@pytest.mark.long
@pytest.mark.parametrize("of_models", cases.all_of(["training"], heavy=["models"]))
def test_only_files_that_grow_are_written_under_their_names(
    of_models: str, data: Recording, request: pytest.FixtureRequest
) -> None:
    """A reader leaves out a last line or event that is cut; an input position counts once the state names its step."""
    growing = re.compile(r".*/(events\.out\.tfevents\..*|metrics\.jsonl|input-\d+\.(index|data-.*))")
    assert [path for path in written_in_place(request.getfixturevalue(of_models)) if not growing.fullmatch(path)] == []
    assert written_in_place(data) == []
