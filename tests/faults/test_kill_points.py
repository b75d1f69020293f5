"""Commands that are killed at each call that changes names or syncs end well when they are repeated."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import pathlib
import signal
from collections.abc import Iterator

import cases
import fault_shards
import made_videos
import numpy as np
import pytest
from datasets.download import shard_server
from faults.kill_points import Case, Killer, chosen, killer, problems, problems_in_states, record
from faults.killed_commands import DATA, MODELS, REMOTE, REMOTE_MODELS
from faults.saved_states import Bucket, State
from reader_records import frame_record

from yt8m.bulk import bulk_config
from yt8m.command_line import cli

# The others replace what is there, learn ranges, or write as one of these: heavy tests take all of their calls.
QUICK_DATA = ["make-records", "download", "verify"]


@pytest.fixture(scope="module")
def plain(recorder_library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs commands that do not import TensorFlow."""
    imports = [
        "yt8m.storage.gcs",
        "yt8m.datasets.make_records",
        "yt8m.datasets.extract",
        "yt8m.datasets.download",
        "own_extractors",
    ]
    if importlib.util.find_spec("apache_beam"):
        imports.append("yt8m.bulk.extraction")
    with killer(recorder_library, tmp_path_factory.mktemp("killed"), imports) as one:
        yield one


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "videos").mkdir()
    made_videos.write_kinds(folder / "videos", 2)
    rows = [f"v{number},c{number % 3}" for number in range(12)]
    (folder / "table.csv").write_text("\n".join(["id,labels", *rows]) + "\n")
    np.save(folder / "array.npy", np.arange(48, dtype=np.float32).reshape(12, 4))
    choice = {"from_name": "classes", "to_name": "video", "type": "choices", "value": {"choices": ["c1"]}}
    answers = [{"id": 1, "data": {"id": "v1"}, "annotations": [{"completed_by": 1, "result": [choice]}]}]
    (folder / "answers.json").write_text(json.dumps(answers))
    for name in ("shards", "protos", "json"):
        (folder / name).mkdir()
    for name in ("v1", "v2"):
        (folder / f"protos/{name}.pb").write_bytes(frame_record({}, {"RGB/feature/floats": [[1.0]]}))
        line = {"video_id": name, "class_indexes": [1], "predictions": [0.5]}
        (folder / f"json/{name}.json").write_text(json.dumps(line) + "\n")
    (folder / "decisions.csv").write_text("video,class,kind,decision\na1,c1,wrong,yes\nb2,c2,missing,yes\n")
    (folder / "labelled").mkdir()
    (folder / "labelled/vocabulary.csv").write_text("".join(["name\n", *(f"c{number}\n" for number in range(10))]))
    for name, place in itertools.product("ab", ("shards", "labelled")):
        fault_shards.write(folder / f"{place}/{name}.tfrecord", fault_shards.sound("video", 6, name))
    shards = {f"{name}.tfrecord": os.urandom(20_000) for name in ("trainaa", "trainab", "trainbF")}
    with shard_server.serving(shards) as server:
        names = {"table": "table.csv", "array": "array.npy", "answers": "answers.json", "decisions": "decisions.csv"}
        names |= {name: name for name in ("videos", "shards", "labelled", "protos", "json")}
        yield {name: str(folder / file) for name, file in names.items()} | {"url": server.url}


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", cases.only(DATA, QUICK_DATA))
def test_what_is_made_of_data(plain: Killer, places: dict[str, str], command: str) -> None:
    assert problems(Case(plain, DATA[command], places), 3) == []


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", DATA)
def test_what_is_made_of_data_at_all_calls(plain: Killer, places: dict[str, str], command: str) -> None:
    assert problems_in_states(Case(plain, DATA[command], places)) == []


@pytest.mark.heavy
@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", REMOTE)
def test_what_is_made_in_a_bucket(plain: Killer, places: dict[str, str], bucket: str, command: str) -> None:
    assert problems(Case(plain, REMOTE[command], places, bucket), 3) == []


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", REMOTE)
def test_what_is_made_in_a_bucket_at_all_calls(
    plain: Killer, places: dict[str, str], saved_bucket: Bucket, command: str
) -> None:
    assert problems_in_states(Case(plain, REMOTE[command], places, saved_bucket.url), saved_bucket) == []


@pytest.mark.parametrize(
    ("count", "expected"), [(0, [1, 2, 3, 4, 5, 6]), (9, [1, 2, 3, 4, 5, 6]), (3, [2, 4, 6]), (1, [6])]
)
def test_which_calls_a_command_is_killed_at(count: int, expected: list[int]) -> None:
    assert chosen(6, count) == expected


# Commands that write nothing that a later start reads.
_WITHOUT_OUTPUT = {"bulk", "cloud-job", "completion", "doctor", "inspect", "runs", "score", "serve", "vocabulary"}
_ON_THIS_MACHINE_ALONE = {"cache", "download"}  # which refuse an --out in a bucket


def test_every_command_that_writes_is_killed_in_a_folder_and_in_a_bucket() -> None:
    writing = {*cli.COMMANDS, *(f"bulk {name}" for name in bulk_config.COMMANDS)} - _WITHOUT_OUTPUT
    for expected, tables in ((writing, (DATA, MODELS)), (writing - _ON_THIS_MACHINE_ALONE, (REMOTE, REMOTE_MODELS))):
        words = [command.words for table in tables for command in table.values() if command.words[0] != "python"]
        assert {" ".join(each[: 1 + (each[0] == "bulk")]) for each in words} == expected


def _assert_kills_leave_what_was_read(case: Case, bucket: Bucket | None = None) -> None:
    """Kills a command at four calls, each time as soon as the state before the call has been read."""
    calls = record(case, case.prepare(), bucket).calls
    numbers = chosen(len(calls), 5)[:-1]  # without the last: its saves depend on a clock
    digests = {_digest_at_kill(case, call, bucket) for call in numbers}
    assert len(digests) == 4


def _digest_at_kill(case: Case, call: int, bucket: Bucket | None) -> bytes:
    read, words = list[State](), case.prepare()
    status, said = case.killed.look(words, lambda: read.append(case.read_state(bucket)), kill_at=call)
    assert (status, len(read)) == (-signal.SIGKILL, call), said
    assert case.read_state(bucket) == read[-1]
    return read[-1].digest()


@pytest.mark.heavy
def test_a_kill_leaves_what_was_read_before(plain: Killer, places: dict[str, str]) -> None:
    _assert_kills_leave_what_was_read(Case(plain, DATA["make-records"], places))


@pytest.mark.heavy
def test_a_kill_leaves_what_was_read_before_in_a_bucket(
    plain: Killer, places: dict[str, str], saved_bucket: Bucket
) -> None:
    _assert_kills_leave_what_was_read(Case(plain, REMOTE["make-records"], places, saved_bucket.url), saved_bucket)
