"""The file of the position in the data: what is counted, saved, taken up again and told. Without TensorFlow."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from yt8m.runner.saver import ShardPosition

FILES, ORDER = ["a", "b", "c", "d"], {"seed": 3}


class Ops:
    """The member of the graph's input side that a position asks for."""

    begun = "the placeholder"


def position(files: list[str] = FILES, order: dict[str, Any] = ORDER, epochs: int | None = 3) -> ShardPosition:
    ops: Any = Ops()
    return ShardPosition(ops, files, order, epochs)


def saved(folder: pathlib.Path, begun: int, step: int = 7) -> None:
    one = position()
    one.count_shards(begun - 1)
    session: Any = None
    one.save(session, str(folder), step)


def test_the_file_holds_what_was_begun_of_how_many(tmp_path: pathlib.Path) -> None:
    one = position()
    session: Any = None
    one.save(session, str(tmp_path), 1)
    for last in (-1, 2, 0, 1):
        one.count_shards(last)
    one.save(session, str(tmp_path), 2)
    first, second = (json.loads((tmp_path / f"input-{step}.json").read_text()) for step in (1, 2))
    assert (first["begun"], first["shards"]) == (0, 4)
    assert (second["begun"], second["shards"]) == (3, 4)
    assert first["data"] == second["data"]
    assert set(second) == {"data", "begun", "shards", "checksum"}


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        (0, "epoch 1, shard 1 of 4; none was begun"),
        (1, "epoch 1, shard 2 of 4; the first 1 shards"),
        (4, "epoch 2, shard 1 of 4; all shards of epoch 1 were begun"),
        (11, "epoch 3, shard 4 of 4; the first 3 shards"),
    ],
)
def test_a_position_is_taken_up_and_told(
    tmp_path: pathlib.Path, lines: Callable[[], list[str]], begun: int, told: str
) -> None:
    saved(tmp_path, begun)
    assert position().resume(str(tmp_path), 7) == {Ops.begun: begun}
    assert [line for line in lines() if line.startswith("reading continues at") and told in line] == lines()


def test_no_end_of_epochs_goes_on_for_ever(tmp_path: pathlib.Path, lines: Callable[[], list[str]]) -> None:
    saved(tmp_path, 400)
    assert position(epochs=None).resume(str(tmp_path), 7) == {Ops.begun: 400}
    assert "epoch 101, shard 1 of 4" in lines()[0]


@pytest.mark.parametrize(("begun", "is_over"), [(11, False), (12, True), (13, True)])
def test_after_the_last_epoch_nothing_is_left(
    tmp_path: pathlib.Path, lines: Callable[[], list[str]], begun: int, is_over: bool
) -> None:
    saved(tmp_path, begun)
    assert position().resume(str(tmp_path), 7) == {Ops.begun: begun}
    assert lines()[0].startswith("all 4 shards of the last epoch (3 of 3) were begun before") == is_over
    assert len(lines()) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no "),
        ('{"step": 3}', "it was saved with --exact_resume"),
        (
            '{"begun": 3, "data": "other", "shards": 4}',
            "input-7.json belongs to other files, or to another batch size, seed, shuffling, or number of epochs",
        ),
        ('{"begun": 3}', "it is damaged"),
        ("{", "input-7.json is damaged"),
        ("", "input-7.json is damaged"),
        ("7", "input-7.json is damaged"),
        ("SAME many", "it is damaged"),
        ("SAME null", "it is damaged"),
    ],
)
def test_what_means_nothing_now_starts_the_pass_anew(
    tmp_path: pathlib.Path, lines: Callable[[], list[str]], content: str | None, problem: str
) -> None:
    if content is not None and content.startswith("SAME"):
        saved(tmp_path, 3)
        told = json.loads((tmp_path / "input-7.json").read_text())
        del told["checksum"]  # as an earlier version wrote it
        content = json.dumps({**told, "begun": None if content.endswith("null") else "many"})
    if content is not None:
        (tmp_path / "input-7.json").write_text(content)
    assert position().resume(str(tmp_path), 7) == {Ops.begun: 0}
    (line,) = lines()
    assert line.startswith("the position in the data of step 7 cannot be used (")
    assert problem in line
    assert line.endswith("): the data are read from their beginning")


def test_a_number_that_a_disk_changed_is_not_taken(tmp_path: pathlib.Path, lines: Callable[[], list[str]]) -> None:
    saved(tmp_path, 3)
    path = tmp_path / "input-7.json"
    path.write_text(path.read_text().replace('"begun": 3', '"begun": 2'))
    assert position().resume(str(tmp_path), 7) == {Ops.begun: 0}
    assert re.search(r"input-7\.json is damaged: .*checksum", lines()[0])


@pytest.mark.parametrize(
    ("files", "order", "same"),
    [
        (FILES, ORDER, True),
        (["a", "b", "c", "e"], ORDER, False),
        (["b", "a", "c", "d"], ORDER, False),
        (FILES, {"seed": 4}, False),
        (FILES, {"seed": 3, "buffer": pathlib.Path("x")}, False),
    ],
)
def test_other_files_or_another_order_is_another_sequence(
    tmp_path: pathlib.Path, files: list[str], order: dict[str, Any], same: bool
) -> None:
    saved(tmp_path, 2)
    assert position(files, order).resume(str(tmp_path), 7) == {Ops.begun: 2 if same else 0}


def test_the_order_of_the_settings_does_not_matter(tmp_path: pathlib.Path) -> None:
    one = position(order={"seed": 1, "buffer": 2})
    one.count_shards(1)
    session: Any = None
    one.save(session, str(tmp_path), 7)
    assert position(order={"buffer": 2, "seed": 1}).resume(str(tmp_path), 7) == {Ops.begun: 2}
