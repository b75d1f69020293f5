"""What the callbacks print, write and hand on."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from runner import tiny_hooks
from tiny_workload import TinyInputter, TinyModeler

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.runner import CallbackConfig, RunnerConfig, callbacks
from yt8m.types import ModelOutput

NUMBER = r"\d+\.\d\d"


def test_the_training_line_is_there_once(
    train: Callable, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    train(max_steps=25)
    said = [line for line in lines() if line.startswith("training step")]
    assert [line.split(" | ")[0] for line in said] == ["training step 10", "training step 20"]
    pattern = (
        rf"training step 20 \| Loss: {NUMBER} Examples/sec: {NUMBER} "
        rf"\| Hit@1: {NUMBER} PERR: {NUMBER} GAP: {NUMBER} \| step 20 of 25 \| 0:00:\d\d left"
    )
    assert re.fullmatch(pattern, said[1])
    train(max_steps=32)
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [10, 20, 30]
    assert set(metrics[0]) == {"step", "loss", "examples_per_second", "Hit@1", "PERR", "GAP"}
    assert f"Loss: {metrics[1]['loss']:.2f} " in said[1]
    assert train(max_steps=30).global_step == 32
    assert any("already at step 32 of 30" in line for line in lines())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["-train_speed", "-train_accuracy"], rf"training step 2 \| Loss: {NUMBER} \| step 2 of 2 \| 0:00:00 left"),
        (
            ["-train_loss", "-train_accuracy"],
            rf"training step 2 \| Examples/sec: {NUMBER} \| step 2 of 2 \| 0:00:00 left",
        ),
        (["-train_speed", "-train_loss"], rf"training step 2 \| Hit@1: {NUMBER} PERR: {NUMBER} GAP: {NUMBER} .*"),
    ],
)
def test_parts_of_the_line(train: Callable, lines: Callable[[], list[str]], names: list[str], expected: str) -> None:
    train(names, max_steps=2, log_every_n_iter=2)
    assert any(re.fullmatch(expected, line) for line in lines())


def test_a_format_of_ones_own(train: Callable, lines: Callable[[], list[str]]) -> None:
    train(max_steps=2, log_every_n_iter=2, format_line=lambda values: f"step {values.step}, loss = {values.loss:.3f}")
    assert any(re.fullmatch(r"step 2, loss = \d\.\d{3}", line) for line in lines())


def events_of(run: pathlib.Path) -> list[Any]:
    return [event for path in run.glob("events.out.tfevents.*") for event in tf.train.summary_iterator(str(path))]


def tags_by_step(events: list[Any]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for event in events:
        if event.summary.value:
            found.setdefault(event.step, set()).update(value.tag for value in event.summary.value)
    return found


def test_event_files_hold_the_published_tags(train: Callable, data: str, tmp_path: pathlib.Path) -> None:
    """No batch is taken by a summary: 40 rows in batches of 8 are five steps, with and without."""
    outcome = train(inputter=TinyInputter(data, 8, epochs=1), save_summary_steps=2, log_every_n_iter=5, max_steps=99)
    assert outcome.global_step == 5
    events = events_of(tmp_path / "run")
    assert events[0].file_version == "brain.Event:2"
    assert tf.GraphDef.FromString(events[1].graph_def).node
    tags = tags_by_step(events)
    assert {1, 2, 4, 5} == set(tags)  # the summaries of the first step too
    assert {"model/Training_Hit@1", "model/Training_Perr", "model/Training_GAP"} <= tags[5]
    assert "global_step/Examples/Second" in tags[5]
    assert {"learning_rate", "label_loss", "reg_loss", "weights", "weights/gradient"} <= tags[2] & tags[1]


def test_names_of_summaries_may_stand_in_one_text() -> None:
    for given in (["loss,accuracy"], "loss, accuracy", ("loss", "accuracy")):
        assert RunnerConfig(model_dir="run", summary_names=given).summary_names == ("loss", "accuracy")  # type: ignore[arg-type]


def test_summaries_by_name(train: Callable, tmp_path: pathlib.Path) -> None:
    train(
        ["-train_speed", "-train_loss", "-train_accuracy"],
        max_steps=2,
        save_summary_steps=2,
        summary_names=("learn*", "label_loss"),
    )
    assert tags_by_step(events_of(tmp_path / "run"))[2] == {"learning_rate", "label_loss"}


def test_a_name_that_is_no_summary_is_refused_before_a_step(train: Callable, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"'los' matches none .*\(label_loss, learning_rate, .*weights/gradient\)"):
        train(max_steps=2, summary_names=("learn*", "los"))
    assert not list((tmp_path / "run").glob("model.ckpt-*"))


class Counting(TinyModeler):
    """Writes a summary of its own."""

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        tf.summary.scalar("rows", tf.shape(batch[1])[0])
        return super().build(batch, is_training)


def test_summaries_of_a_modelers_own_are_written_and_can_be_named(train: Callable, tmp_path: pathlib.Path) -> None:
    train(max_steps=1, save_summary_steps=1, modeler=Counting())
    train(max_steps=2, save_summary_steps=1, modeler=Counting(), summary_names=("rows",), log_every_n_iter=99)
    tags = tags_by_step(events_of(tmp_path / "run"))
    assert "rows" in tags[1]
    assert tags[2] == {"rows"}


def test_tensorboard_reads_the_event_file(train: Callable, tmp_path: pathlib.Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(max_steps=4, log_every_n_iter=2)
    events = accumulator.EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert [scalar.step for scalar in events.Scalars("model/Training_GAP")] == [2, 4]


def test_exports_every_n_and_at_the_end_each_with_a_checkpoint(train: Callable, tmp_path: pathlib.Path) -> None:
    exported = []

    def exporter(checkpoint: str, step: int, is_new: bool) -> None:
        assert pathlib.Path(checkpoint + ".index").exists()
        exported.append((pathlib.Path(checkpoint).name, step, is_new))

    config = CallbackConfig(options={"train_export": {"exporter": exporter}})
    train(config, max_steps=8, checkpoints={"export_model_steps": 4})
    train(config, max_steps=10, checkpoints={"export_model_steps": 4})
    train(config, max_steps=10, checkpoints={"export_model_steps": 4})
    names = [("model.ckpt-4", 4, True), ("model.ckpt-8", 8, True), ("model.ckpt-10", 10, True)]
    assert exported == [*names, ("model.ckpt-10", 10, False)]


def test_callbacks_of_a_users_own(train: Callable) -> None:
    train(["runner.tiny_hooks:Plain"], max_steps=2)
    step = ["before_run", "after_run"]
    assert tiny_hooks.Plain.calls == ["begin", "after_create_session", *step, *step, "end"]


def test_a_callback_that_fails_at_the_end_costs_no_step(train: Callable, tmp_path: pathlib.Path) -> None:
    outcome = train(["runner.tiny_hooks:FailsAtTheEnd"], max_steps=3)
    assert (outcome.status, outcome.message) == ("failed", "ConnectionError: no route to the server")
    assert (tmp_path / "run/model.ckpt-3.index").exists()


def test_which_callbacks_a_run_has() -> None:
    usual = list(callbacks.DEFAULTS["train"])
    assert callbacks.names_for("train", []) == usual
    assert callbacks.names_for("train", ["my.module:Mine"]) == [*usual, "my.module:Mine"]
    assert callbacks.names_for("train", ["train_loss", "my.module:Mine"]) == [*usual, "my.module:Mine"]
    assert callbacks.names_for("train", ["train_profile"]) == [*usual, "train_profile"]
    without = [name for name in usual if name != "train_speed"]
    assert callbacks.names_for("train", ["-train_speed", "my.module:Mine"]) == [*without, "my.module:Mine"]
    assert callbacks.names_for("train", [f"-{name}" for name in usual if name != "train_basic"]) == ["train_basic"]


@pytest.mark.parametrize("name", ["train_basic", "train_export", "train_sped", "my.module:Mine"])
def test_only_usual_callbacks_can_be_taken_away_and_never_the_basic_one(name: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}' cannot be removed.*train_guard, train_loss"):
        callbacks.names_for("train", [f"-{name}"])


def test_naming_a_callback_loses_no_other(
    train: Callable, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    """The log still has its lines, and the guard still stops a run whose gradients are NaN."""
    train(["train_summary"], max_steps=2, log_every_n_iter=2)
    pattern = rf"training step 2 \| Loss: {NUMBER} Examples/sec: {NUMBER} \| Hit@1: .*"
    assert any(re.fullmatch(pattern, line) for line in lines())


def test_evaluation(train: Callable, data: str, lines: Callable[[], list[str]]) -> None:
    train(max_steps=300)
    inputter = TinyInputter(data, 16, epochs=1)
    outcome = train(mode="eval", inputter=inputter, log_every_n_iter=2, batch_size_per_gpu=16)
    assert (outcome.status, outcome.global_step, outcome.exit_code) == ("out_of_data", 300, 0)
    assert outcome.results["examples"] == 40
    assert outcome.results["figures"]["rows"] == 40
    assert outcome.results["figures"]["accuracy"] > 0.8
    said = [line for line in lines() if line.startswith("examples_processed")]
    figures = r"global_step 300 \| Batch Hit@1: .* \| Batch Loss: \d+\.\d{{3}} \| Examples_per_sec: \d+\.\d{{3}}"
    published = rf"examples_processed: {{}} \| {figures}"
    assert re.fullmatch(published.format(32), said[0])
    assert re.fullmatch(published.format(40), said[1])  # the last batch has a line although none was due


@pytest.mark.heavy
def test_an_evaluation_of_few_batches_logs_its_last(train: Callable, data: str, lines: Callable[[], list[str]]) -> None:
    """With batches of 16 rows the last of three has 8; its figures are those of no other batch."""
    train(max_steps=300)
    inputter = TinyInputter(data, 16, epochs=1, shuffle=0)
    train(mode="eval", inputter=inputter, log_every_n_iter=10, batch_size_per_gpu=16)
    (line,) = (line for line in lines() if line.startswith("examples_processed"))
    train(mode="eval", inputter=inputter, log_every_n_iter=1, batch_size_per_gpu=16)
    each = [line for line in lines() if line.startswith("examples_processed")][1:]
    assert len(each) == 3
    figures, speed = line.split(" | Examples_per_sec: ")
    assert each[2].startswith(figures)
    assert float(speed) > 0


def test_inference_hands_on_every_row_in_order(train: Callable, data: str, lines: Callable[[], list[str]]) -> None:
    train(max_steps=2)
    got: list[np.ndarray] = []

    def consume(reports: Mapping[str, np.ndarray]) -> None:
        got.append(reports["labels"])

    outcome = train(
        CallbackConfig(options={"infer_writer": {"consumer": consume}}),
        mode="infer",
        gpu_count=2,  # inference takes one device all the same
        inputter=TinyInputter(data, 16, epochs=1, shuffle=0),
    )
    records = [np.frombuffer(record, np.float32) for record in tf.python_io.tf_record_iterator(data)]
    np.testing.assert_array_equal(np.concatenate(got), [int(record[-1]) for record in records])
    assert [len(batch) for batch in got] == [16, 16, 8]
    assert outcome.results["examples"] == 40
    said = [line for line in lines() if line.startswith("num examples")]
    assert len(said) == 1
    assert re.fullmatch(r"num examples processed: 40 elapsed seconds: \d+\.\d\d examples/sec: \d+\.\d\d", said[0])


@pytest.mark.promise("C7")
def test_evaluation_takes_the_next_checkpoint_where_one_is_deleted_meanwhile(
    train: Callable, data: str, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    run = tmp_path / "run"
    train(max_steps=2)

    class Inputter(TinyInputter):
        """While the graph is built, training goes on and the chosen checkpoint goes."""

        def dataset(self, files, batch_size):  # type: ignore[no-untyped-def]
            with tf.Graph().as_default():
                train(max_steps=4)
            for path in run.glob("model.ckpt-2.*"):
                path.unlink()
            return super().dataset(files, batch_size)

    outcome = train(mode="eval", inputter=Inputter(data, 8, epochs=1))
    assert (outcome.status, outcome.global_step) == ("out_of_data", 4)
    assert any("was deleted" in line for line in lines())


@pytest.mark.heavy
def test_averages_are_evaluated_where_they_were_kept(train: Callable, data: str) -> None:
    from yt8m.config.train_config import OptimizerConfig

    averaged = OptimizerConfig(moving_average_decay=0.99, base_learning_rate=0.3)
    train(max_steps=20, optimizer=averaged)
    once = {"mode": "eval", "inputter": TinyInputter(data, 8, epochs=1)}
    plain, smooth = train(**once), train(**once, optimizer=averaged)
    assert (plain.exit_code, smooth.exit_code) == (0, 0)
    train(max_steps=21)  # averages switched off: the weights alone are taken up
    assert train(**once, optimizer=averaged).exit_code == 0


def test_the_trace_of_chosen_steps(train: Callable, tmp_path: pathlib.Path) -> None:
    config = CallbackConfig(options={"train_profile": {"first": 3, "last": 4, "folder": str(tmp_path)}})
    assert train(config, max_steps=6).global_step == 6
    (trace,) = (tmp_path / "plugins" / "profile").glob("*/*.xplane.pb")
    space = trace.read_bytes()
    assert b"MatMul" in space
    assert b"/host:CPU" in space
