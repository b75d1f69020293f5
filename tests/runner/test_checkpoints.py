"""When runs are saved, what is kept, and what damage does."""

from __future__ import annotations

import itertools
import logging
import os
import pathlib
import re
import shutil
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_workload import TinyInputter

from yt8m.command_line.flag_parsing import flags_of, parse
from yt8m.config.run_options import CheckpointConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.runner import checkpoints


def saved(folder: pathlib.Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("model.ckpt-*.index"))


def test_first_every_n_and_last(train: Callable, data: str, tmp_path: pathlib.Path) -> None:
    outcome = train(
        inputter=TinyInputter(data, 8, epochs=3), checkpoints={"save_checkpoint_steps": 4, "keep_checkpoints": 9}
    )
    assert (outcome.status, outcome.global_step, outcome.exit_code) == ("out_of_data", 15, 0)
    assert saved(tmp_path / "run") == [0, 4, 8, 12, 15]
    assert tf.train.latest_checkpoint(str(tmp_path / "run")).endswith("model.ckpt-15")


def test_the_newest_stay_and_positions_go_with_their_checkpoints(train: Callable, tmp_path: pathlib.Path) -> None:
    wanted = {"save_checkpoint_steps": 2, "keep_checkpoints": 3}
    train(max_steps=9, checkpoints=wanted, exact_resume=True)
    assert saved(tmp_path / "run") == [6, 8, 9]
    positions = sorted(path.name for path in (tmp_path / "run").glob("input-*.index"))
    assert positions == ["input-6.index", "input-8.index", "input-9.index"]
    state = tf.train.get_checkpoint_state(str(tmp_path / "run"))
    assert [pathlib.Path(path).name for path in state.all_model_checkpoint_paths] == [
        "model.ckpt-6",
        "model.ckpt-8",
        "model.ckpt-9",
    ]
    train(max_steps=12, checkpoints=wanted)
    assert saved(tmp_path / "run") == [9, 10, 12]


def test_all_stay_if_the_flag_says_so(train: Callable, tmp_path: pathlib.Path) -> None:
    values = parse(flags_of(CheckpointConfig, "Checkpoints"), ["--keep_checkpoints=all"], [])
    assert values == {"keep_checkpoints": 0}
    train(max_steps=9, checkpoints={"save_checkpoint_steps": 1, **values})
    assert saved(tmp_path / "run") == list(range(10))
    with pytest.raises(UsageError, match=r"--keep_checkpoints=every: .*whole number"):
        parse(flags_of(CheckpointConfig, "Checkpoints"), ["--keep_checkpoints=every"], [])


def test_a_moved_run_is_whole(train: Callable, tmp_path: pathlib.Path) -> None:
    train(max_steps=3)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert tf.train.latest_checkpoint(str(tmp_path / "elsewhere")) == str(tmp_path / "elsewhere/model.ckpt-3")
    assert train(max_steps=5, model_dir=str(tmp_path / "elsewhere")).global_step == 5


@given(gaps=st.lists(st.floats(1.0, 2000.0), min_size=1, max_size=40), keep=st.integers(1, 6))
def test_what_is_kept(gaps: list[float], keep: int) -> None:
    """Played through save by save: the newest stay, the others are a quarter of an hour apart, and near."""
    now, times, preserved = 1e9, {}, 1e9
    history = []
    for step, gap in enumerate(gaps):
        now += gap
        times[step] = now
        history.append(now)
        doomed, preserved = checkpoints.to_delete(times, keep, preserved)
        times = {found: when for found, when in times.items() if found not in doomed}
    newest = list(range(len(gaps)))[-keep:]
    assert set(newest) <= set(times)
    old = [when for step, when in sorted(times.items()) if step not in newest]
    assert all(later - earlier >= 900 for earlier, later in itertools.pairwise(old))
    assert len(old) <= (history[-1] - 1e9) / 900
    # Whatever was deleted lies within a quarter of an hour after one that was kept.
    for step, when in enumerate(history):
        if step not in times:
            assert any(0 <= when - kept < 900 for kept in [1e9, *old])


@given(
    times=st.lists(st.floats(1e9 - 1e5, 1e9 + 1e5), min_size=1, max_size=40),
    last=st.one_of(st.floats(1e9 - 2e5, 1e9 + 2e5), st.integers(0, 39)),
    keep=st.integers(1, 6),
)
@example(times=[1e9, 1e9, 1e9 - 1, 1e9 - 1], last=1e9 - 1, keep=1)  # a drawn `last` may be the time of a step too
def test_the_order_of_the_clock_keeps_nothing(times: list[float], last: float, keep: int) -> None:
    """Of what was not decided before, one stays for each quarter of an hour by which the clock went on.

    Steps up to the first one whose time is `last`, the time of the newest preserved one, were decided on before.
    """
    by_step = dict(enumerate(times))
    preserved = times[last] if isinstance(last, int) and last < len(times) else last
    doomed, _ = checkpoints.to_delete(by_step, keep, preserved)
    decided = times.index(preserved) if preserved in times else -1
    undecided = [step for step in by_step if step > decided]
    on = sum(max(0.0, times[step] - times[step - 1]) for step in undecided if step)
    assert len(set(undecided) - set(doomed)) <= keep + 2 + on / 900
    assert not set(doomed) & set(range(len(times))[-keep:])


class Clocks:
    """The clocks of a machine: each save comes a minute after the one before.

    The wall clock, of which `time.time` and the files' times are, goes back a day before each save of a step
    in `put_back`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, put_back: set[int]) -> None:
        self.wall, self.monotonic, self.put_back = 1.7e9, 5000.0, put_back
        self._write = checkpoints.write_state
        monkeypatch.setattr(checkpoints, "write_state", self._write_state)
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic", lambda: self.monotonic)

    def _write_state(self, model_dir: str, step: int, *arguments: object) -> None:
        self.wall, self.monotonic = self.wall + 60 - 86400 * (step in self.put_back), self.monotonic + 60
        os.utime(checkpoints.path_of(model_dir, step) + ".index", (self.wall, self.wall))
        self._write(model_dir, step, *arguments)


@pytest.mark.heavy
@pytest.mark.parametrize("put_back", [{5, 25, 26, 41}, set(), set(range(0, 60, 2))])
def test_a_clock_that_goes_back_changes_nothing(
    train: Callable, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, put_back: set[int]
) -> None:
    """The newest three and one of each quarter of an hour, within a run and over a restart."""
    Clocks(monkeypatch, put_back)
    wanted = {"save_checkpoint_steps": 1, "keep_checkpoints": 3}
    train(max_steps=40, checkpoints=wanted)
    assert saved(tmp_path / "run") == [15, 30, 38, 39, 40]
    train(max_steps=60, checkpoints=wanted)
    kept = saved(tmp_path / "run")
    assert kept[:2] + kept[-3:] == [15, 30, 58, 59, 60]
    assert len(kept) == 6


@pytest.mark.heavy
def test_what_a_clock_that_went_back_has_left_is_deleted(
    train: Callable, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state file that goes back in time, as another program may write it: a restart clears up."""
    run = tmp_path / "run"
    train(max_steps=40, checkpoints={"save_checkpoint_steps": 1, "keep_checkpoints": 50})
    times = [1.7e9 + 60 * step - 86400 * (step >= 20) for step in range(41)]
    state = tf.train.generate_checkpoint_state_proto(
        str(run), f"{run}/model.ckpt-40", [f"{run}/model.ckpt-{step}" for step in range(41)], times, times[16]
    )
    (run / "checkpoint").write_text(str(state))
    train(max_steps=41, checkpoints={"save_checkpoint_steps": 1, "keep_checkpoints": 3})
    # What was there up to the last one preserved was decided on before.
    assert saved(run) == [*range(17), 32, 39, 40, 41]


@pytest.mark.parametrize(
    "damage",
    [
        "flip",
        *(
            pytest.param(name, marks=pytest.mark.heavy)
            for name in ("no index", "truncate", "no data", "truncated index")
        ),
    ],
)
@pytest.mark.promise("C3")
def test_a_damaged_newest_checkpoint_is_passed_over_loudly(
    train: Callable, tmp_path: pathlib.Path, lines: Callable[[], list[str]], damage: str
) -> None:
    run = tmp_path / "run"
    train(max_steps=6, checkpoints={"save_checkpoint_steps": 4})
    harm(run, 6, damage)
    outcome = train(max_steps=5)
    assert (outcome.status, outcome.global_step) == ("finished", 5)
    assert sum("DAMAGED CHECKPOINT" in line and "model.ckpt-6" in line for line in lines()) == 1
    assert sum("USING THE OLDER CHECKPOINT" in line for line in lines()) == 1
    # Trained over, the damaged step is whole again.
    assert train(max_steps=6).global_step == 6
    assert not checkpoints.problem_of(str(run / "model.ckpt-6"))


def harm(run: pathlib.Path, step: int, damage: str) -> None:
    data, index = run / f"model.ckpt-{step}.data-00000-of-00001", run / f"model.ckpt-{step}.index"
    content = bytearray(data.read_bytes())
    if damage == "truncate":
        data.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif damage == "no data":
        data.unlink()
    elif damage == "no index":
        index.unlink()
    else:
        index.write_bytes(index.read_bytes()[:20])


@pytest.mark.promise("C3")
def test_a_garbage_state_file_does_not_matter(train: Callable, tmp_path: pathlib.Path) -> None:
    train(max_steps=3)
    once = {"inputter": TinyInputter(str(tmp_path / "rows.tfrecord"), 8, 1), "signature": {"epochs": 1}}
    for step, content in enumerate((b"", b"\xff\x00 garbage {", b'model_checkpoint_path: "model.ckpt-99"'), 3):
        (tmp_path / "run" / "checkpoint").write_bytes(content)
        assert checkpoints.steps_in(str(tmp_path / "run"))[0] == step
        assert train(max_steps=step + 1, **once).global_step == step + 1
    (tmp_path / "run" / "checkpoint").write_bytes(content)
    assert train(mode="eval", **once).global_step == 6


@pytest.mark.promise("C3")
def test_never_a_fresh_start_over_checkpoints(train: Callable, tmp_path: pathlib.Path) -> None:
    train(max_steps=2)
    for path in (tmp_path / "run").glob("model.ckpt-*.data*"):
        path.write_bytes(b"")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    outcome = train(max_steps=4)
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert "none of its checkpoints" in outcome.message
    assert "--start_new_model" in outcome.message
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


def test_a_first_save_that_was_cut_short_is_no_run(train: Callable, tmp_path: pathlib.Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.ckpt-0.data-00000-of-00001").write_bytes(b"half")
    assert train(max_steps=2).global_step == 2


@pytest.mark.promise("C1")
def test_a_save_that_was_killed_before_its_index_is_removed_with_a_plain_line(
    train: Callable, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, lines: Callable[[], list[str]]
) -> None:
    """It is no checkpoint that was damaged: nothing was lost but what no save had promised."""
    run = tmp_path / "run"
    train(max_steps=2, exact_resume=True)
    for name in ("model.ckpt-3.data-00000-of-00001", "input-3.json", "input-3.index", "input-4.index"):
        (run / name).write_bytes(b"whatever")
    assert checkpoints.steps_in(str(run)) == [2, 0]
    assert train(max_steps=5, exact_resume=True).global_step == 5
    assert [line.partition(":")[0] for line in lines() if "not finished" in line] == [
        "the save of step 3 was not finished",
        "the save of step 4 was not finished",
    ]
    warnings = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
    assert [text for text in warnings if "is a program" not in text] == []
    assert {path.name.partition(".")[0] for path in run.glob("input-*")} == {"input-0", "input-2", "input-5"}
    assert saved(run) == [0, 2, 5]


@pytest.mark.promise("C3")
def test_a_damaged_meta_graph_is_rebuilt(
    train: Callable, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    train(max_steps=2)
    (tmp_path / "run" / "model.ckpt-2.meta").write_bytes(b"\xff\xff\xff")
    assert train(max_steps=3).global_step == 3
    assert sum("its .meta cannot be read" in line for line in lines()) == 1


def test_eval_without_a_checkpoint(train: Callable) -> None:
    outcome = train(mode="eval")
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert "no checkpoint" in outcome.message


@pytest.mark.promise("C1")
@pytest.mark.promise("C2")
def test_killed_between_any_two_files_of_a_save(train: Callable, tmp_path: pathlib.Path) -> None:
    """What was written of step 4, file by file, on top of a whole step 2: each such folder goes on."""
    run, same = tmp_path / "run", {"exact_resume": True, "checkpoints": {"keep_checkpoints": 1}}
    train(max_steps=2, **same)
    shutil.copytree(run, tmp_path / "before")
    train(max_steps=4, **same)
    names = [path for path in run.iterdir() if "-4." in path.name] + [run / "checkpoint"]
    # Files of one tick of the clock in the order in which they must come, so that only a later one can be in its place.
    kinds = ["input", "model", "checkpoint"]
    names.sort(
        key=lambda path: (path.stat().st_mtime_ns, kinds.index(re.split(r"\W", path.name)[0]), path.suffix == ".index")
    )
    assert [re.sub(r"\..*", "", path.name) for path in names] == ["input-4"] * 3 + ["model"] * 3 + ["checkpoint"]
    reached = []
    for count in range(len(names)):
        folder = tmp_path / f"killed{count}"
        shutil.copytree(tmp_path / "before", folder)
        for path in names[:count]:
            shutil.copy2(path, folder)
        # The limit is passed already where step 4 was found: nothing is done, and the step is told.
        reached.append(train(max_steps=3, model_dir=str(folder), **same).global_step)
    assert reached == [3] * 5 + [4] * 2


@pytest.mark.promise("C1")
def test_what_a_killed_save_left_half_written_goes(train: Callable, tmp_path: pathlib.Path) -> None:
    run = tmp_path / "run"
    train(max_steps=2)
    left = [
        "model.ckpt-3.data-00000-of-00001.tempstate5227440940204842142",
        "model.ckpt-3.index.tempstate17",
        f"model.ckpt-3.meta.tmp{'0a' * 16}",
        "input-3.data-00000-of-00001.tempstate5227440940204842142",
    ]
    for name in (*left, "my.tempstate1"):
        (run / name).write_bytes(b"half")
    train(max_steps=4)
    there = {path.name for path in run.iterdir()}
    assert there.isdisjoint(left)
    assert there >= {"my.tempstate1", "model.ckpt-2.index", "model.ckpt-4.index"}
