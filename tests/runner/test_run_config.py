"""RunnerConfig has the sections of a training's config, and takes their options as keywords."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re

import pytest

from yt8m import options
from yt8m.config.run_options import CheckpointConfig, DistributedConfig
from yt8m.config.train_config import DeviceConfig, EngineConfig, OptimizerConfig, TrainConfig
from yt8m.deploy import ClusterConfig
from yt8m.errors import UsageError
from yt8m.runner import RunnerConfig, creation

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "yt8m" / "runner"


def test_the_keywords_of_the_design_reach_the_sections() -> None:
    config = RunnerConfig(
        mode="eval", model_dir="run", gpu_count=2, batch_size_per_gpu=8, log_every_n_iter=5, summary_names="loss, gap"
    )
    assert (config.mode, config.model_dir, config.batch_size_per_gpu) == ("eval", "run", 8)
    assert (config.devices, config.towers, config.log_every_n_steps) == (DeviceConfig(num_gpu=2), 2, 5)
    assert config.summary_names == ("loss", "gap")


def test_every_option_of_a_section_is_a_keyword() -> None:
    sections = options.sections_of(EngineConfig)
    names = {
        section: [field.name for field in dataclasses.fields(kind) if field.name not in sections]
        for section, kind in sections.items()
    }
    assert set(names) == {"optimizer", "devices", "checkpoints", "distributed"}
    for section, kind in sections.items():
        for name in names[section]:
            usual = getattr(kind(), name)
            config = RunnerConfig("train", "run", **{name: usual})
            assert getattr(getattr(config, section), name) == usual
    config = RunnerConfig("train", "run", sync_batch_norm=True, stall_timeout=3.0, keep_checkpoints=2, clip_by="global")
    assert config.devices.sync_batch_norm
    assert (config.distributed.stall_timeout, config.checkpoints.keep_checkpoints) == (3.0, 2)
    assert config.optimizer.clip_by == "global"


def test_a_keyword_changes_the_section_that_is_given() -> None:
    devices = DeviceConfig(num_gpu=3, precision="bfloat16")
    config = RunnerConfig("train", "run", devices=devices, gpu_count=2)
    assert config.devices == DeviceConfig(num_gpu=2, precision="bfloat16")
    again = dataclasses.replace(config, batch_size_per_gpu=4, precision="float32")
    assert (again.devices, again.batch_size_per_gpu) == (DeviceConfig(num_gpu=2), 4)


def test_another_keyword_and_a_bad_value_are_refused() -> None:
    with pytest.raises(TypeError, match=r"RunnerConfig has no keyword 'gpu_counts'"):
        RunnerConfig("train", "run", gpu_counts=2)
    with pytest.raises(UsageError, match=r"num_gpu .*at least 1\b.*\b0$"):
        RunnerConfig("train", "run", gpu_count=0)
    with pytest.raises(UsageError, match=r"mode .*train, eval, infer"):
        RunnerConfig("trial", "run")


def test_a_run_gives_its_sections_unless_others_are_named() -> None:
    run = TrainConfig(
        optimizer=OptimizerConfig(moving_average_decay=0.9),
        devices=DeviceConfig(num_gpu=2),
        checkpoints=CheckpointConfig(exact_resume=True),
        distributed=DistributedConfig(stall_timeout=5.0),
        seed=7,
        max_steps=3,
    )
    trained = RunnerConfig.for_run(run, "train", "folder")
    assert {name: getattr(trained, name) for name in vars(EngineConfig())} == {
        name: getattr(run, name) for name in vars(EngineConfig())
    }
    evaluated = RunnerConfig.for_run(run, "eval", "folder", devices=DeviceConfig(), log_every_n_steps=4)
    assert (evaluated.devices, evaluated.log_every_n_steps) == (DeviceConfig(), 4)
    assert (evaluated.optimizer, evaluated.seed) == (run.optimizer, 7)


def test_the_signature_is_what_the_declarations_say() -> None:
    config = RunnerConfig("train", "run", signature={"model": "line"}, split_batch=False, stall_timeout=7.0)
    expected = {**dataclasses.asdict(OptimizerConfig()), "seed": 0, "split_batch": False, "batch_size_per_gpu": None}
    expected |= {"num_gpu": 1, "precision": "float32", "sync_batch_norm": False, "prefetch_to_device": False}
    assert creation.graph_signature(config) == expected | {"model": "line", "cluster": None}


@pytest.mark.parametrize(
    ("replicas", "expected"), [(("a:1",), None), (("a:1", "b:1"), [2, 1]), (("a:1", "b:1", "c:1"), [3, 1])]
)
def test_a_cluster_shapes_the_graph_by_the_numbers_of_its_processes(
    replicas: tuple[str, ...], expected: list[int] | None
) -> None:
    cluster = ClusterConfig(replicas, ("s:1",) if expected else ())
    assert creation.graph_signature(RunnerConfig("train", "run", cluster=cluster))["cluster"] == expected


def test_at_most_eight_fields_of_the_context_change() -> None:
    """The fields that a module of the runner assigns."""
    changed: set[str] = set()
    for path in RUNNER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                texts = [ast.unparse(target) for target in targets]
                changed |= {found[1] for text in texts if (found := re.search(r"\b_?(?:context|shared)\.(\w+)$", text))}
    assert changed == {
        *("step", "global_step", "is_resumed", "has_read_all"),
        *("save_planned", "stop_planned", "ending", "results"),
    }
