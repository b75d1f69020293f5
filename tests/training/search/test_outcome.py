"""What follows from a search for the training of the chosen candidate."""

from __future__ import annotations

import dataclasses
import math
import pathlib

import numpy as np
import pytest
from training.search.own_data import write_rings

from yt8m import deploy
from yt8m.command_line import flags
from yt8m.config import resume, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.run_options import ValidationConfig
from yt8m.config.search_config import BATCH, EPOCHS, METRIC, MODEL, PENALTY, RATE, STEPS, TRANSFORM, ModelSearchConfig
from yt8m.config.train_config import DeviceConfig, TrainConfig
from yt8m.training.search import choice, outcome
from yt8m.training.search.candidates import Candidate, candidates_for
from yt8m.training.search.outcome import SearchFacts, _planned, _steps, _values
from yt8m.training.search.plan import Plan, Rung
from yt8m.training.search.videos_in_memory import VideosInMemory

FIGURES = {"map": 0.9, "gap": 0.9, "hit_at_one": 0.9, "map_error": 0.1, "gap_error": 0.1}
ROW = {**FIGURES, "halves": [FIGURES, FIGURES], "number": 0, "steps": 75, "folds": 1, "seconds": 1.0}
RUNGS = Plan((), 32, (Rung(4, 300), Rung(1, 1000)), 1.0)


@pytest.mark.parametrize("compared", [100, 20_100])
def test_a_search_on_a_sample_trains_as_many_epochs_on_all(compared: int) -> None:
    """However many videos the candidates were compared on: those of folds are trained on too."""
    facts = SearchFacts(38_000, 20_000, True, "validate", compared, 60.0)
    planned = _planned({**ROW, "steps": 1000, "seconds": 4.0}, [{**ROW, "steps": 1000}], RUNGS)
    assert _steps(planned, facts, 1e-3) == 1900
    assert _steps(planned, facts._replace(is_sample=False), 1e-3) == 1000
    assert _steps(planned, facts, 1.0) == 1000, "the budget has no room for more"
    assert 1000 < _steps(planned, facts._replace(seconds_left=10.0), 1e-3) < 1900, "the clock has room for fewer"
    assert _steps(planned, facts._replace(seconds_left=1.0), 1e-3) == 1000


def test_a_choice_whose_longer_trial_the_clock_left_out_is_trained_as_long() -> None:
    facts = SearchFacts(1000, 1000, False, "validate", 100, 60.0, seconds_left=60.0)
    chosen = {**ROW, "steps": 300, "seconds": 1.2}
    planned = _planned(chosen, [chosen, {**ROW, "number": 1, "steps": 1000}], RUNGS)
    assert _steps(planned, facts, 1e-3) == 1000
    assert _steps(planned, facts._replace(seconds_left=4.0), 1e-3) == 600, "0.6 of 4 s, at 4 ms a step"
    assert _steps(planned, facts._replace(seconds_left=0.0), 1e-3) == 300
    sample = facts._replace(is_sample=True, total=3000, seconds_left=math.inf)
    assert _steps(planned, sample, 1e-3) == 3000
    both = _planned(chosen, [chosen, {**ROW, "steps": 1000}], RUNGS)
    assert _steps(both, facts, 1e-3) == 300, "its longer trial was worse"


@pytest.mark.parametrize(("gpus", "rows"), [(0, 16), (1, 64), (2, 32), (8, 16)])
def test_the_batch_of_the_choice_is_divided_among_the_towers_that_there_will_be(
    monkeypatch: pytest.MonkeyPatch, gpus: int, rows: int
) -> None:
    monkeypatch.setattr(deploy, "count_gpus", lambda: gpus)
    config = TrainConfig(devices=DeviceConfig(num_gpu=4), search=ModelSearchConfig(free=(BATCH,)))
    facts = SearchFacts(1000, 1000, False, "", 100, 60.0)
    candidate = Candidate("LogisticModel", "standardize", 0.01, 0.01)
    values = {name: value for name, value, _ in _values(config, candidate, 64, 100, facts, False)}
    assert values[BATCH] == rows


@pytest.mark.parametrize(
    ("free", "is_sample", "penalty"), [(True, True, 0.002), (True, False, 0.01), (False, True, 0.01)]
)
def test_a_penalty_that_was_chosen_on_a_sample_is_smaller_for_all_videos(
    free: bool, is_sample: bool, penalty: float
) -> None:
    candidate = Candidate("LogisticModel", "standardize", 0.01, 0.05)
    config = TrainConfig(search=ModelSearchConfig(free=(PENALTY, STEPS, EPOCHS) if free else (STEPS, EPOCHS)))
    facts = SearchFacts(100_000, 20_000, is_sample, "validate", 5_000, 400.0)
    made = Plan((candidate,), 1024, (Rung(1, 75),), 1.0)
    chosen = outcome.with_choice(config, made, [ROW], ROW, facts, 1e-3)
    assert chosen.model.hyper_parameters["l2_penalty"] == pytest.approx(penalty)
    of_origin = {origin["option"]: origin["value"] for origin in chosen.search.origins}
    assert of_origin.get("l2_penalty", penalty) == pytest.approx(penalty)


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rings(tmp_path_factory.mktemp("rings"))


def first_start(config: TrainConfig) -> TrainConfig:
    """The config of a run of 240 videos that chose its first candidate."""
    batch_size = 32 if BATCH in config.search.free else config.data.batch_size
    made = Plan(tuple(candidates_for(config)), batch_size, (Rung(1, 75),), 1.0)
    validation = config.validation.eval_data_pattern or "validate"
    return outcome.with_choice(config, made, [ROW], ROW, SearchFacts(240, 240, False, validation, 80, 60.0), 1e-3)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--base_learning_rate=0.02",
        "--base_learning_rate=0.02 --clip_gradient_norm=5",
        "--input_transform=l2_normalize",
        "--l2_penalty=0.1",
        "--l2_penalty=0.1 --model=MoeModel --moe_num_mixtures=3",
        "--label_loss=HingeLoss",
        "--batch_size=16",
        "--model=GatedMlpModel",
        "--best_metric=GAP",
        "--eval_data_pattern={validate}",
        "--eval_data_pattern={validate} --eval_every_n_steps=7 --patience=2",
        "--model=auto --max_steps=40",
        "--model=auto --num_epochs=5",
        "--model=auto --num_epochs=5 --batch_size=16",
        "--model=auto --num_epochs=5 --max_steps=9",
    ],
)
@pytest.mark.parametrize("refit", ["--refit", "--norefit"])
def test_the_same_command_again_goes_on_with_the_same_options(
    rings: str, tmp_path: pathlib.Path, words: str, refit: str
) -> None:
    """So a run that was killed ends as one that was not."""
    given = words.format(validate=rings.replace("train", "validate")).split()
    command = [f"--data={rings}", f"--out={tmp_path}/run", refit, "--num_gpu=1", *given]
    first = first_start(flags.training(command)[0])
    run_dir.write(str(tmp_path / "run"), first, flags.training(command)[1].vocabulary, is_own=True)
    saved = run_dir.read(str(tmp_path / "run"))
    again = outcome.resumed(flags.training(command)[0], saved.config)
    assert dataclasses.asdict(again) == dataclasses.asdict(saved.config)


def test_what_is_given_to_a_later_start_replaces_what_was_chosen(rings: str, tmp_path: pathlib.Path) -> None:
    command = [f"--data={rings}", f"--out={tmp_path}/run", "--norefit", "--num_gpu=1"]
    first = first_start(flags.training(command)[0])
    validated = f"--eval_data_pattern={rings.replace('train', 'validate')}"
    more = [
        validated,
        "--base_learning_rate=0.5",
        "--clip_gradient_norm=5",
        "--eval_every_n_steps=7",
        "--best_metric=GAP",
    ]
    again = outcome.resumed(flags.training([*command, *more])[0], first)
    assert again.optimizer == dataclasses.replace(first.optimizer, base_learning_rate=0.5, clip_gradient_norm=5.0)
    changed = {
        "eval_every_n_epochs": None,
        "eval_every_n_steps": 7,
        "eval_data_pattern": validated[20:],
        "best_metric": "GAP",
    }
    assert again.validation == dataclasses.replace(first.validation, **changed)
    longer = dataclasses.replace(flags.training(command)[0], max_steps=150)
    longer = dataclasses.replace(
        longer, search=dataclasses.replace(longer.search, free=tuple(set(longer.search.free) - {"max_steps"}))
    )
    again = outcome.resumed(longer, first)
    assert again.max_steps == 150
    assert again.optimizer.learning_rate_decay_examples == 2 * first.optimizer.learning_rate_decay_examples


@pytest.mark.parametrize(
    ("first_words", "more", "named"),
    [
        ("", "--l2_penalty=0.5", "l2_penalty"),
        ("", "--input_transform=l2_normalize", "input_transform"),
        ("--input_transform=l2_normalize", "--input_transform=standardize", "input_transform"),
        ("", "--label_loss=HingeLoss", "label_loss"),
        ("--l2_penalty=0.1", "--l2_penalty=0.2", "l2_penalty"),
        ("--model=MoeModel", "--moe_num_mixtures=5", "moe_num_mixtures"),
    ],
)
def test_what_makes_another_model_of_a_chosen_run_is_not_ignored(
    rings: str, tmp_path: pathlib.Path, first_words: str, more: str, named: str
) -> None:
    command = [f"--data={rings}", f"--out={tmp_path}/run", "--num_gpu=1", *first_words.split()]
    first = first_start(flags.training(command)[0])
    run_dir.write(str(tmp_path / "run"), first, flags.training(command)[1].vocabulary, is_own=True)
    saved = run_dir.read(str(tmp_path / "run"))
    assert not resume.list_changes(saved, outcome.resumed(flags.training(command)[0], saved.config))
    kept = [word for word in command if not word.startswith(more.partition("=")[0])]
    changes = resume.list_changes(saved, outcome.resumed(flags.training([*kept, more])[0], saved.config))
    assert [change.name.rpartition(".")[2] for change in changes] == [named]
    assert changes[0].matters_at_the_start


@pytest.mark.parametrize(("batch_size", "towers", "factor"), [(64, 1, 2), (None, 2, 2), (16, 1, 0.5)])
def test_the_rate_falls_to_0_at_the_last_step_whatever_the_batch_size_is_now(
    rings: str, tmp_path: pathlib.Path, batch_size: int | None, towers: int, factor: float
) -> None:
    command = [f"--data={rings}", f"--out={tmp_path}/run"]
    first = first_start(flags.training([*command, "--num_gpu=1"])[0])
    given = [f"--batch_size={batch_size}"] if batch_size else []
    again = outcome.resumed(flags.training([*command, f"--num_gpu={towers}", *given])[0], first)
    assert again.max_steps == first.max_steps
    examples = first.optimizer.learning_rate_decay_examples
    assert again.optimizer.learning_rate_decay_examples == factor * examples


@pytest.mark.parametrize(("is_of_cells", "metric", "noun"), [(False, "mAP", "videos"), (True, "GAP", "cells")])
def test_checkpoints_are_compared_as_the_candidates_were(is_of_cells: bool, metric: str, noun: str) -> None:
    data = DataConfig(frame_features=True, segment_labels=is_of_cells)
    search = ModelSearchConfig(free=(MODEL, TRANSFORM, PENALTY, RATE, BATCH, METRIC), refit=False)
    config = first_start(TrainConfig(data=data, search=search))
    assert config.validation.best_metric == metric
    (origin,) = (row for row in config.search.origins if row["option"] == BATCH)
    assert origin["reason"] == f"240 {noun}"


def test_the_table_of_a_later_start_says_what_its_flags_have_changed() -> None:
    origins = (
        {"option": BATCH, "value": 32, "reason": "246 videos"},
        {"option": RATE, "value": 0.01, "reason": "best"},
    )
    config = TrainConfig(data=DataConfig(batch_size=64), search=ModelSearchConfig(origins=origins))
    config = dataclasses.replace(config, optimizer=dataclasses.replace(config.optimizer, base_learning_rate=0.01))
    assert list(outcome.origin_lines(config)) == [
        "batch_size 32: 246 videos (64 in this start, by its flags)",
        "base_learning_rate 0.01: best",
    ]


@pytest.mark.parametrize(("validation", "is_said"), [("", True), ("data/validate*.tfrecord", False)])
def test_the_table_says_that_the_videos_held_out_are_trained_on(validation: str, is_said: bool) -> None:
    quoted = {"validation": validation, "training_videos": 5600, "videos": 560}
    config = TrainConfig(search=ModelSearchConfig(quoted=quoted))
    said = "trained on all 5600 videos: those that were held out for the choice are among them"
    assert (said in list(outcome.lines(config))) == is_said


def test_videos_that_are_held_out_of_the_training_choose_its_best_checkpoint() -> None:
    config = TrainConfig(
        data=DataConfig(data_pattern="data/train*.tfrecord"), search=ModelSearchConfig(free=(STEPS, EPOCHS))
    )
    made = Plan((Candidate("LogisticModel", "standardize", 0.01, 0.05),), 64, (Rung(1, 75),), 1.0)
    facts = SearchFacts(4500, 4500, False, "", 500, 60.0, held_out=(7, 3), apart=500)
    row = {**ROW, "candidate": "the only one"}
    chosen = outcome.with_choice(config, made, [row], row, facts, 1e-3)
    assert (chosen.data.held_out, chosen.checkpoint) == ((7, 3), "best")
    assert chosen.validates_on_held_out
    assert "500 of these 5000 videos are held out" in "\n".join(outcome.lines(chosen))
    of_sample = outcome.with_choice(config, made, [row], row, facts._replace(is_sample=True), 1e-3)
    assert ": 10% of these videos" in "\n".join(outcome.lines(of_sample))
    assert not chosen.search.is_refitted, "fewer than 5,000 videos are left to train on, but there were as many"
    assert not any("trained on all" in line for line in outcome.lines(chosen))
    own = dataclasses.replace(config, validation=ValidationConfig(eval_data_pattern="own*.tfrecord"))
    again = outcome.resumed(own, chosen)
    assert again.data.held_out == (7, 3)
    assert not again.validates_on_held_out, "the user names other videos to validate on"
    moved = dataclasses.replace(config, data=DataConfig(data_pattern="moved/train*.tfrecord"))
    assert outcome.resumed(moved, chosen).validates_on_held_out


@pytest.mark.parametrize(("videos", "refit", "spans", "holds_out"), [
    (4999, True, False, False), (5000, True, False, True), (4999, False, False, True), (5000, True, True, False),
])  # fmt: skip
def test_a_share_is_held_out_if_the_choice_is_not_trained_on_all(
    videos: int, refit: bool, spans: bool, holds_out: bool
) -> None:
    data = DataConfig(frame_features=spans, segment_labels=spans)
    config = TrainConfig(data=data, search=ModelSearchConfig(refit=refit))
    keys = np.arange(100, dtype=np.uint64)
    sample = VideosInMemory(np.zeros((100, 1), np.float32), np.ones(100, np.int32), np.ones((100, 1), bool), keys, keys)
    assert bool(choice._rule_for(config, sample, videos)) == holds_out
