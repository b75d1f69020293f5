"""The config of a run as the start of another: flags win, what they replace goes, code needs trust."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from golden_data import golden
from training.search.own_data import write_rings

from yt8m.command_line import flags
from yt8m.config import run_dir
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import RunError, UsageError


def pattern(name: str) -> str:
    return f"--train_data_pattern={golden(name + '.tfrecord')}"


def first() -> list[str]:
    """The flags of the run that the others start from; the last three do not count for them."""
    return [
        pattern("tiny_video"),
        "--feature_names=mean_rgb,mean_audio",
        "--feature_sizes=16,8",
        "--num_classes=20",
        "--model=MoeModel",
        "--moe_num_mixtures=4",
        "--label_loss=FocalLoss",
        "--seed=7",
        "--num_epochs=2",
        "--noexact_resume",
        "--export_dir=out",
        "--log_dir=log",
        "--start_new_model",
    ]


def write(folder: pathlib.Path, config: TrainConfig, *, is_own: bool = True) -> str:
    run_dir.write(str(folder), dataclasses.replace(config, train_dir=str(folder)), is_own=is_own)
    return f"--config={folder}/config.json"


@pytest.fixture
def start(tmp_path: pathlib.Path) -> str:
    return write(tmp_path / "a", flags.train_config(first()))


def own_of_one_run(config: TrainConfig) -> TrainConfig:
    checkpoints = dataclasses.replace(config.checkpoints, start_new_model=False)
    return dataclasses.replace(config, train_dir="", export_dir="", log_dir="", checkpoints=checkpoints)


def test_without_flags_all_options_are_the_runs_but_its_folders_and_orders(start: str) -> None:
    assert flags.train_config([start]) == own_of_one_run(flags.train_config(first()))
    assert flags.train_config([start.removesuffix("/config.json")]) == flags.train_config([start])


@pytest.mark.parametrize(
    "more",
    [
        ["--base_learning_rate=0.02", "--train_dir=b", "--export_dir=mine"],
        ["--moe_num_mixtures=2"],
        ["--num_epochs=5", "--seed=0", "--label_loss=CrossEntropyLoss"],
        ["--model=LogisticModel"],
    ],
)
def test_flags_win_even_with_usual_values(start: str, more: list[str]) -> None:
    replaced = [word.partition("=")[0] for word in more]
    replaced += ["--moe_num_mixtures"] if "--model" in replaced else []
    kept = [word for word in first()[:-3] if word.partition("=")[0] not in replaced]
    assert flags.train_config([start, *more]) == flags.train_config([*kept, *more])


def test_the_log_says_what_the_flags_changed(start: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        flags.train_config([start, "--base_learning_rate=0.02", "--train_dir=b"])
    (line,) = [line for line in caplog.messages if "the options are those of" in line]
    path = start.removeprefix("--config=")
    assert line.startswith(f"the options are those of {path}, except: ")
    assert "base_learning_rate: 0.01 -> 0.02" in line
    assert "train_dir" not in line


def test_how_the_run_chose_its_model_is_no_change(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    config = flags.train_config(first())
    search = dataclasses.replace(config.search, free=("model",), trials=({"map": 0.5},), is_refitted=True)
    start = write(tmp_path / "chosen", dataclasses.replace(config, search=search))
    with caplog.at_level("INFO"):
        flags.train_config([start, "--num_epochs=6"])
        flags.audit_config([start, f"--data={config.data.data_pattern}", f"--out={tmp_path}", "--num_epochs=7"])
    of_training, of_audit = (line.partition(", except: ")[2] for line in caplog.messages if "options are" in line)
    assert of_training.startswith("num_epochs: 2 -> 6; ")
    assert {change.partition(":")[0] for change in of_training.split("; ")}.isdisjoint(
        ["free", "trials", "is_refitted"]
    )
    assert "epochs" not in of_audit, "an audit sets the length of its trainings by itself"


def test_what_describes_replaced_options_is_not_taken(start: str, tmp_path: pathlib.Path) -> None:
    adam = write(tmp_path / "w", flags.train_config([*first(), "--optimizer=AdamWOptimizer", "--weight_decay=0.1"]))
    found = flags.train_config([adam, "--optimizer=AdamOptimizer"])
    assert (found.optimizer.optimizer, found.optimizer.weight_decay) == ("AdamOptimizer", None)
    found = flags.train_config([start, "--feature_names=mean_rgb", "--feature_sizes=16"])
    assert (found.data.feature_names, found.data.feature_sizes) == (("mean_rgb",), (16,))
    frames = [
        "--frame_features",
        "--feature_names=rgb",
        "--feature_sizes=16",
        pattern("tiny_frame"),
        "--model=DbofModel",
    ]
    assert flags.train_config([start, *frames]).data.frame_features
    # Other data: as many classes as the run has, since these data do not say.
    assert flags.train_config([start, *frames]).data.num_classes == 20


def test_hyper_parameters_of_parts_are_kept(tmp_path: pathlib.Path) -> None:
    frames = [
        "--frame_features",
        "--feature_names=rgb",
        "--feature_sizes=16",
        pattern("tiny_frame"),
        "--num_classes=20",
    ]
    words = [*frames, "--model=DbofModel", "--moe_num_mixtures=5", "--dbof_cluster_size=16"]
    start = write(tmp_path / "d", flags.train_config(words))
    assert flags.train_config([start, "--dbof_hidden_size=8"]) == flags.train_config([*words, "--dbof_hidden_size=8"])
    found = flags.train_config([start, "--moe_num_mixtures=3"])
    assert found == flags.train_config([word for word in words if "mixtures" not in word] + ["--moe_num_mixtures=3"])


def test_a_missing_file_is_a_wrong_flag_and_a_damaged_one_an_error(start: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"--config=.*none: .*no such file.*config\.json"):
        flags.train_config([f"--config={tmp_path}/none"])
    (tmp_path / "a/config.json").write_text("{")
    with pytest.raises(RunError, match=r"a/config\.json .*damaged"):
        flags.train_config([start])


def test_code_that_the_config_of_a_stranger_names_needs_trust(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strange_model.py").write_text(
        "import pathlib\nfrom yt8m.models.video_level import LogisticModel\n"
        f"pathlib.Path({str(tmp_path / 'imported')!r}).touch()\nclass Mine(LogisticModel):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    usual = flags.train_config([*first()[:4], "--seed=3"])
    model = dataclasses.replace(usual.model, model="strange_model:Mine")
    start = write(tmp_path / "s", dataclasses.replace(usual, model=model), is_own=False)
    with pytest.raises(UsageError, match=r"s/config\.json .*'strange_model:Mine'.*--trust_code"):
        flags.train_config([start, "--train_dir=b"])
    assert not (tmp_path / "imported").exists()
    assert flags.train_config([start, "--trust_code"]).model.model == "strange_model:Mine"
    assert (tmp_path / "imported").exists()
    assert flags.train_config([start, "--model=strange_model:Mine"]).data == usual.data


def test_a_run_that_chose_its_model_starts_others_that_choose_none_unless_they_are_told_to(
    tmp_path: pathlib.Path,
) -> None:
    data = f"--data={write_rings(tmp_path)}"
    config = flags.train_config([data])
    optimizer = dataclasses.replace(
        config.optimizer, learning_rate_schedule="cosine", learning_rate_decay_examples=9600.0, base_learning_rate=0.003
    )
    chosen = {"model": "GatedMlpModel", "base_learning_rate": 0.003, "max_steps": 300}
    search = dataclasses.replace(
        config.search,
        budget=40.0,
        origins=tuple({"option": name, "value": value, "reason": "best"} for name, value in chosen.items()),
        trials=({"candidate": "GatedMlpModel"},),
    )
    model = ModelConfig("GatedMlpModel", {"l2_penalty": 0.01, "input_transform": "standardize"})
    run = dataclasses.replace(config, optimizer=optimizer, model=model, max_steps=300, search=search, seed=3)
    start = write(tmp_path / "a", run)
    again = flags.train_config([start, data])
    assert again.model.hyper_parameters.items() >= model.hyper_parameters.items()
    assert (again.model.model, again.optimizer, again.max_steps, again.seed) == (model.model, optimizer, 300, 3)
    assert again.search.free == again.search.trials == ()
    anew = flags.train_config([start, data, "--model=auto", "--budget=9"])
    assert set(anew.search.free) == set(config.search.free)
    assert (anew.optimizer, anew.max_steps) == (config.optimizer, config.max_steps)
    assert (anew.search.budget, anew.seed) == (9, 3)
