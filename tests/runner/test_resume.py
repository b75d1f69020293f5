"""A resumed run goes on as if it had never stopped, in fresh processes, bit for bit."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import cases
import pytest
from tiny_workload import TinyInputter, TinyModeler, write_rows

from yt8m import deploy
from yt8m.config.train_config import OptimizerConfig
from yt8m.runner import CallbackConfig, RunnerConfig, creation


@pytest.mark.parametrize("towers", cases.all_of([2], heavy=[1]))
@pytest.mark.promise("C1")
@pytest.mark.promise("C2")
def test_next_twenty_steps_from_meta_graph_and_from_code(
    train: Callable, start: Callable, tmp_path: pathlib.Path, towers: int
) -> None:
    """40 rows in batches of 8 a tower: the twenty steps cross epochs; noise is drawn at each step."""

    def losses(name: str) -> dict[str, Any]:
        return {"runner.tiny_hooks:Losses": {"path": str(tmp_path / name)}}

    same = {"gpu_count": towers, "exact_resume": True}
    for folder, steps in (("a", 33), ("b", 13)):
        config = CallbackConfig(options=losses(folder + ".txt"))
        train(config, modeler=TinyModeler(0.3), model_dir=str(tmp_path / folder), max_steps=steps, **same)
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    (tmp_path / "c" / "model.ckpt-13.meta").unlink()
    same |= {"noise": 0.3, "max_steps": 33}
    processes = {
        said: start(model_dir=str(tmp_path / folder), callbacks=losses(said), **same)
        for folder, said in (("b", "with the graph saved there"), ("c", "it has no .meta"))
    }
    expected = (tmp_path / "a.txt").read_text().splitlines()
    assert len(expected) == 33
    assert (tmp_path / "b.txt").read_text().splitlines() == expected[:13]
    for said, process in processes.items():
        _, log = process.communicate()
        assert process.returncode == 0, log
        assert log.count(said) == 1
        assert (tmp_path / said).read_text().splitlines() == expected[13:]


def test_changed_flags_take_effect_and_are_named_in_one_line(train: Callable, lines: Callable[[], list[str]]) -> None:
    train(max_steps=5)
    changed = OptimizerConfig(base_learning_rate=0.5)
    outcome = train(max_steps=8, optimizer=changed, batch_size_per_gpu=4, signature={"epochs": 3})
    assert outcome.global_step == 8
    said = [line for line in lines() if "rebuilt" in line]
    assert len(said) == 1
    assert "batch_size_per_gpu was 8 and is 4" in said[0]
    assert "base_learning_rate was 0.01 and is 0.5" in said[0]
    assert "epochs was None and is 3" in said[0]


@pytest.mark.heavy
def test_a_graph_for_gpus_is_rebuilt_where_there_are_none(
    train: Callable, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = creation.graph_signature
    with monkeypatch.context() as patch:
        patch.setattr(creation, "graph_signature", lambda config: {**signature(config), "devices": "GPU"})
        train(max_steps=2)
    assert train(max_steps=4).global_step == 4
    said = [line for line in lines() if "rebuilt" in line]
    assert len(said) == 1
    assert said[0].endswith(": devices was 'GPU' and is None")


@pytest.mark.parametrize(("gpus", "expected"), [(0, None), (1, "GPU"), (2, "GPU"), (3, "GPU")])
def test_two_towers_are_on_gpus_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch, gpus: int, expected: str | None
) -> None:
    monkeypatch.setattr(deploy, "count_gpus", lambda: gpus)
    config = RunnerConfig("train", "run", gpu_count=2)
    assert creation.graph_signature(config).get("devices") == expected


@pytest.mark.heavy
def test_resuming_in_its_own_graph_adds_nothing_to_it(train: Callable, tmp_path: pathlib.Path) -> None:
    from yt8m.lazy import tf

    counts = []
    for steps in (3, 4, 5):
        train(max_steps=steps)
        meta = (tmp_path / "run" / f"model.ckpt-{steps}.meta").read_bytes()
        counts.append(len(tf.MetaGraphDef.FromString(meta).graph_def.node))
    assert counts[0] == counts[1] == counts[2]


def test_a_finished_run_does_nothing_more(train: Callable, tmp_path: pathlib.Path) -> None:
    train(max_steps=5)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("model.ckpt*")}
    outcome = train(max_steps=5)
    assert (outcome.status, outcome.global_step, outcome.exit_code) == ("finished", 5, 0)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("model.ckpt*")} == before


def test_exact_resume_at_the_end_of_the_data_reads_nothing_twice(train: Callable, data: str) -> None:
    inputter = TinyInputter(data, 8, epochs=2)
    assert train(inputter=inputter, exact_resume=True).global_step == 10
    again = train(inputter=inputter, exact_resume=True)
    assert (again.status, again.global_step) == ("out_of_data", 10)


def test_moved_data_start_the_pass_anew_with_one_warning(
    train: Callable, data: str, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    train(max_steps=3, exact_resume=True)
    moved = shutil.move(data, tmp_path / "moved.tfrecord")
    once = {"inputter": TinyInputter(str(moved), 8, epochs=1), "signature": {"epochs": 1}}
    assert train(exact_resume=True, max_steps=5, **once).global_step == 5
    outcome = train(exact_resume=True, **once)
    assert (outcome.status, outcome.global_step) == ("out_of_data", 8)
    assert sum("from their beginning" in line for line in lines()) == 1
    firsts = {step: json.loads((tmp_path / f"run/input-{step}.json").read_text())["first_step"] for step in (3, 5, 8)}
    assert firsts == {3: 0, 5: 3, 8: 3}


@pytest.mark.parametrize("name", cases.all_of(["input-3.json"], heavy=["input-3.index", "input-3.data-00000-of-00001"]))
def test_a_position_that_cannot_be_read_starts_the_pass_anew(
    train: Callable, data: str, tmp_path: pathlib.Path, lines: Callable[[], list[str]], name: str
) -> None:
    train(max_steps=3, exact_resume=True, inputter=TinyInputter(data, 8, epochs=1))
    (tmp_path / "run" / name).write_bytes(b"\x00garbage")
    outcome = train(exact_resume=True, inputter=TinyInputter(data, 8, epochs=1))
    assert (outcome.status, outcome.global_step) == ("out_of_data", 8)
    assert sum("from their beginning" in line for line in lines()) == 1


@pytest.mark.promise("C5")
def test_another_models_checkpoint_is_refused(train: Callable, tmp_path: pathlib.Path) -> None:
    class Other(TinyModeler):
        def build(self, batch, is_training):  # type: ignore[no-untyped-def]
            from yt8m.lazy import tf

            with tf.variable_scope("other"):
                return super().build(batch, is_training)

    train(max_steps=2)
    outcome = train(max_steps=4, modeler=Other(), signature={"model": "Other"})
    assert outcome.exit_code == 1
    assert "other/weights" in outcome.message
    assert "model was None and is 'Other'" in outcome.message


@pytest.mark.heavy
def test_other_files_of_the_same_run(train: Callable, tmp_path: pathlib.Path) -> None:
    train(max_steps=2)
    other = write_rows(tmp_path / "other.tfrecord", rows=16)
    outcome = train(inputter=TinyInputter(other, 8, epochs=1), signature={"epochs": 1})
    assert outcome.global_step == 4
