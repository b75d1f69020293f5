"""A run that is killed with SIGKILL again and again around its saves, and resumed each time."""

from __future__ import annotations

import json
import pathlib
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fork_server import Forked, ForkServer
from tiny_workload import write_rows

from yt8m.lazy import tf
from yt8m.runner import checkpoints

INTERVAL, KILLS, STEPS_A_LIFE = 3, 5, 9
GLANCE = 0.0005  # seconds from look to look: less than a save takes
SAME = {
    "exact_resume": True,
    "log_every_n_iter": 1,
    "checkpoints": {"save_checkpoint_steps": INTERVAL, "keep_checkpoints": 2},
}
# A save in the order in which its files appear; "step" is a moment between two saves.
MOMENTS = (
    "step",
    "input-{}.json",
    "input-{}.index",
    "model.ckpt-{}.data-00000-of-00001",
    "model.ckpt-{}.index",
    "model.ckpt-{}.meta",
    "checkpoint",
)


def losses(path: pathlib.Path) -> dict[str, Any]:
    return {"runner.tiny_hooks:Losses": {"path": str(path)}}


def read_losses(path: pathlib.Path) -> dict[int, str]:
    """The loss of each step, as written; a line that a kill cut short does not count."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return {int(step): loss for step, loss in (line.split() for line in whole.splitlines())}


def metrics(run: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without the speed, which alone differs from run to run."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "examples_per_second"} for row in rows]


def kill_at(process: Forked, run: pathlib.Path, log: pathlib.Path, step: int, moment: str, pause: float) -> None:
    """Kills it once the save of `step` has come to `moment`, and `pause` seconds later."""
    name = moment.format(step)
    while max(read_losses(log), default=0) < step:
        assert not process.has_ended(), process.communicate()
        time.sleep(GLANCE)
    if name == "checkpoint":
        while f"-{step}" not in _text(run / name).partition("\n")[0] and step in _steps(run, step):
            time.sleep(GLANCE)
    elif name != "step":
        while not (run / name).exists() and max(read_losses(log)) < step + INTERVAL:
            time.sleep(GLANCE)
    time.sleep(pause)
    process.kill()
    process.communicate()


def _steps(run: pathlib.Path, step: int) -> set[int]:
    """The step, while no later one has been saved."""
    return {step} - {step for path in run.glob("model.ckpt-*.index") if int(path.stem.split("-")[1]) > step}


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> tuple[pathlib.Path, str]:
    """The run that nothing happened to, and its data."""
    folder = tmp_path_factory.mktemp("unbroken")
    data = write_rows(folder / "rows.tfrecord")
    steps = STEPS_A_LIFE * (KILLS + 2)
    fields = {"model_dir": str(folder / "run"), "data": data, "max_steps": steps, "noise": 0.3, **SAME}
    done = fork_server.start(json.dumps({**fields, "callbacks": losses(folder / "losses")}))
    _, log = done.communicate()
    assert done.returncode == 0, log
    return folder, data


@pytest.mark.promise("C1")
@pytest.mark.parametrize(
    ("seed", "kills"),
    [(0, 2), *(pytest.param(seed, KILLS, marks=[pytest.mark.heavy, pytest.mark.long]) for seed in range(11))],
)
def test_killed_around_saves_it_goes_on_bit_for_bit(
    unbroken: tuple[pathlib.Path, str], start: Callable[..., Forked], tmp_path: pathlib.Path, seed: int, kills: int
) -> None:
    """Killed again and again: always restorable, never back by more than an interval, every step as unbroken."""
    whole, data = unbroken
    expected, draw, run = read_losses(whole / "losses"), random.Random(seed), tmp_path / "run"
    last = max(expected)
    fields = {"data": data, "max_steps": last, "noise": 0.3, **SAME}
    reached, killed_at = 0, []
    for life in range(kills):
        log = tmp_path / f"losses-{life}"
        step = INTERVAL * ((reached + draw.randrange(4, STEPS_A_LIFE)) // INTERVAL)
        moment, pause = draw.choice(MOMENTS), draw.choice((0.0, draw.uniform(0, 0.004)))
        # However late the kill comes, the run waits for it a save later.
        waits = {"runner.tiny_hooks:Gate": {"step": step + INTERVAL + 1, "seconds": 1e6}}
        kill_at(start(callbacks=losses(log) | waits, **fields), run, log, step, moment, pause)
        killed_at.append((step, moment, pause))
        seen = read_losses(log)
        found = checkpoints.newest_readable(str(run))
        assert found is not None, killed_at
        assert max(seen) - INTERVAL <= checkpoints.step_of(found) <= max(seen) + 1, killed_at
        assert min(seen) == reached + 1, killed_at  # this life went on from there
        assert seen == {step: expected[step] for step in seen}, killed_at
        reached = checkpoints.step_of(found)
    done = start(callbacks=losses(tmp_path / "losses-last"), **fields)
    _, said = done.communicate()
    assert done.returncode == 0, said
    rest = read_losses(tmp_path / "losses-last")
    assert rest == {step: expected[step] for step in range(reached + 1, last + 1)}
    assert metrics(run) == metrics(whole / "run")  # each step once, although the killed run took some of them twice
    mine, theirs = (tf.train.load_checkpoint(f"{folder}/model.ckpt-{last}") for folder in (run, whole / "run"))
    for name in theirs.get_variable_to_shape_map():
        np.testing.assert_array_equal(mine.get_tensor(name), theirs.get_tensor(name), err_msg=name)
