"""What a user may rely on when something goes wrong while a run is under way."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import cases
import pytest
from tiny_workload import TinyInputter, TinyModeler, write_rows

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.runner import CallbackConfig, checkpoints


def finite_and_whole(run: pathlib.Path) -> int:
    """The step of the newest checkpoint, which can be read and is finite."""
    path = checkpoints.newest_readable(str(run))
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    for name in reader.get_variable_to_shape_map():
        value = reader.get_tensor(name)
        assert (value == value).all()
    return checkpoints.step_of(path)


@pytest.mark.long
@pytest.mark.promise("C4")
def test_a_file_limit_while_saving(start: Callable, tmp_path: pathlib.Path) -> None:
    process = start(
        max_steps=30,
        checkpoints={"save_checkpoint_steps": 5},
        callbacks={"runner.tiny_hooks:FileLimit": {"step": 12, "size": 100}},
    )
    output, _ = process.communicate()
    assert process.returncode == 1
    status, step, message = json.loads(output.splitlines()[-1])
    assert (status, step) == ("failed", 15)
    assert "cannot save the checkpoint" in message
    assert finite_and_whole(tmp_path / "run") == 10
    assert not list((tmp_path / "run").glob("*-15*"))


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.promise("C1")
def test_killed_while_it_saves_it_goes_on_bit_for_bit(train: Callable, start: Callable, tmp_path: pathlib.Path) -> None:
    """A run that saves every step is killed at no matter which moment after the seventh."""

    def losses(name: str) -> dict[str, Any]:
        return {"runner.tiny_hooks:Losses": {"path": str(tmp_path / name)}}

    same = {"exact_resume": True, "checkpoints": {"save_checkpoint_steps": 1, "keep_checkpoints": 2}}
    process = start(callbacks=losses("killed"), max_steps=100_000, **same)
    assert any(line.rstrip().endswith("model.ckpt-7") for line in process.stderr)
    process.kill()
    process.communicate()
    last = int((tmp_path / "killed").read_text().splitlines()[-1].split()[0])
    resumed = CallbackConfig(options=losses("resumed"))
    assert train(resumed, max_steps=last + 20, **same).exit_code == 0
    unbroken = CallbackConfig(options=losses("unbroken"))
    train(unbroken, max_steps=last + 20, exact_resume=True, model_dir=str(tmp_path / "unbroken_run"))
    expected = (tmp_path / "unbroken").read_text().splitlines()
    got = (tmp_path / "resumed").read_text().splitlines()
    # The checkpoint is of the last step whose loss was written, or of one before or after it.
    assert 19 <= len(got) <= 22
    assert got == expected[-len(got) :]
    assert (tmp_path / "killed").read_text().splitlines() == expected[:last]


@pytest.mark.long
@pytest.mark.promise("O2")
def test_an_event_file_and_metrics_without_room_do_not_end_a_run(start: Callable, tmp_path: pathlib.Path) -> None:
    """The limit lets the small checkpoint through, but not the event file, which holds the graph."""
    run = tmp_path / "run"
    first = start(max_steps=2)
    first.communicate()
    biggest = max(path.stat().st_size for path in run.glob("model.ckpt-2.*"))
    run.joinpath("metrics.jsonl").write_bytes(b"\n" * (2 * biggest))
    process = start(
        max_steps=60,
        save_summary_steps=1,
        callbacks={"runner.tiny_hooks:FileLimit": {"step": 3, "size": biggest + 10_000}},
    )
    output, log = process.communicate()
    assert process.returncode == 0, log
    assert json.loads(output.splitlines()[-1])[:2] == ["finished", 60]
    assert log.count("metrics.jsonl cannot be written any more") == 1
    assert log.count("the event file in") == 1
    assert log.count("training step 10 |") == 1


@pytest.mark.parametrize(
    "names",
    [
        ("runner.tiny_hooks:Raises", "runner.tiny_hooks:Closed"),
        pytest.param(("runner.tiny_hooks:Closed", "runner.tiny_hooks:Raises"), marks=pytest.mark.heavy),
    ],
)
@pytest.mark.promise("P6")
def test_a_callback_that_raises(train: Callable, tmp_path: pathlib.Path, names: tuple[str, ...]) -> None:
    options = {"runner.tiny_hooks:Raises": {"step": 7}, "runner.tiny_hooks:Closed": {"path": str(tmp_path / "closed")}}
    outcome = train(CallbackConfig(names, options), max_steps=20, checkpoints={"save_checkpoint_steps": 5})
    assert (outcome.status, outcome.exit_code, outcome.global_step) == ("failed", 1, 7)
    assert "503" in outcome.message
    assert finite_and_whole(tmp_path / "run") == 5
    assert (tmp_path / "closed").read_text() == "closed\n"


@pytest.mark.promise("N1")
def test_nan_in_the_data_stops_at_that_step(train: Callable, tmp_path: pathlib.Path) -> None:
    poisoned = write_rows(tmp_path / "poisoned.tfrecord", poison=20)
    outcome = train(inputter=TinyInputter(poisoned, 8, shuffle=0), checkpoints={"save_checkpoint_steps": 1})
    assert outcome.exit_code == 1
    assert re.search(r"step 3: .*gradient of weights .*tower 0\b", outcome.message)
    assert finite_and_whole(tmp_path / "run") == 2  # row 20 is in the third batch


@pytest.mark.promise("N1")
def test_nan_without_the_guard_is_never_saved(train: Callable, tmp_path: pathlib.Path) -> None:
    poisoned = write_rows(tmp_path / "poisoned.tfrecord", poison=20)
    outcome = train(["-train_guard"], inputter=TinyInputter(poisoned, 8, epochs=1, shuffle=0))
    assert outcome.exit_code == 1
    assert "weights is not finite" in outcome.message
    assert finite_and_whole(tmp_path / "run") == 0


@pytest.mark.promise("N1")
@pytest.mark.parametrize(("last", "saved"), [(20, 5), (4, 4)])
def test_a_loss_that_is_not_finite_is_never_saved(
    train: Callable, tmp_path: pathlib.Path, last: int, saved: int
) -> None:
    """From the fourth step on the loss is NaN and its gradient is not; no step gets a line."""

    class Overflows(TinyModeler):
        def build(self, batch, is_training):  # type: ignore[no-untyped-def]
            output = super().build(batch, is_training)
            step = tf.cast(tf.train.get_global_step().read_value(), tf.float32)
            return dataclasses.replace(output, loss=output.loss + tf.where(step >= 3, float("nan"), 0.0))

    often = {"save_checkpoint_steps": 5}
    outcome = train(modeler=Overflows(), max_steps=last, log_every_n_iter=1000, checkpoints=often)
    assert outcome.exit_code == 1
    assert f"step {saved}: the loss is nan" in outcome.message
    assert finite_and_whole(tmp_path / "run") == 0


@pytest.mark.promise("N1")
@pytest.mark.parametrize(
    ("towers", "row", "step", "bad"), cases.all_of([(2, 28, 2, 1)], heavy=[(1, 20, 3, 0), (3, 17, 1, 2)])
)
def test_the_guard_names_step_tower_and_variable(
    train: Callable, tmp_path: pathlib.Path, towers: int, row: int, step: int, bad: int
) -> None:
    poisoned = write_rows(tmp_path / "poisoned.tfrecord", poison=row)
    outcome = train(["train_speed"], inputter=TinyInputter(poisoned, 8, shuffle=0), gpu_count=towers)
    assert re.search(rf"step {step}: .*gradient of weights .*tower {bad}\b", outcome.message)


@pytest.mark.promise("P7")
def test_a_broken_record_is_one_clear_message(train: Callable, tmp_path: pathlib.Path, data: str) -> None:
    content = bytearray(pathlib.Path(data).read_bytes())
    content[len(content) // 2] ^= 1
    pathlib.Path(data).write_bytes(content)
    outcome = train(inputter=TinyInputter(data, 8, epochs=1, shuffle=0))
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert outcome.message.startswith("DataLossError")
    assert "corrupted record at" in outcome.message
    assert "\n" not in outcome.message


def test_only_the_iterator_ends_the_data(train: Callable) -> None:
    """An OutOfRangeError of any other op is a failure."""

    class Other(TinyModeler):
        def build(self, batch, is_training):  # type: ignore[no-untyped-def]
            queue = tf.FIFOQueue(1, tf.float32, [[]])
            with tf.control_dependencies([queue.close()]):
                extra = queue.dequeue()
            output = super().build(batch, is_training)
            return dataclasses.replace(output, loss=output.loss + extra)

    outcome = train(modeler=Other(), max_steps=3, log_every_n_iter=1)
    assert (outcome.status, outcome.exit_code) == ("failed", 1)


def test_refusals_come_before_anything_is_written(train: Callable, tmp_path: pathlib.Path) -> None:
    for callbacks, expected in (
        (["train_los"], "did you mean train_loss"),
        (["eval_basic"], "is for eval"),
        (["train_loss", "train_loss"], "is named twice"),
        (["runner.tiny_hooks:Nothing"], "cannot load"),
        (["runner.tiny_hooks:Losses"], "cannot be made"),
        (["tiny_workload:TinyModeler"], r"derived from tf\.train\.SessionRunHook"),
    ):
        with pytest.raises(UsageError, match=expected):
            train(callbacks, max_steps=2)
    with pytest.raises(UsageError, match=r"batch_size_per_gpu is 16\b.*\b8\b"):
        train(inputter=TinyInputter("rows", 8), batch_size_per_gpu=16)
    with pytest.raises(UsageError, match="unknown runner"):
        train(name="locl_runner")
    with pytest.raises(UsageError, match="local_runner supports one tower"):
        train(name="local_runner", gpu_count=2)
    assert not (tmp_path / "run").exists()
