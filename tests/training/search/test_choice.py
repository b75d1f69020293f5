"""A training on one's own data without a flag: what it chooses, saves, says and repeats."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from reader_records import video_record, write_shard
from training.search.own_data import write_rings

import yt8m
from yt8m.command_line import cli, flags
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, OptimizerConfig, TrainConfig
from yt8m.storage import state_files
from yt8m.training import training_run
from yt8m.training.search import candidates, choice, plan, trials
from yt8m.training.search.budget_clock import BudgetClock
from yt8m.training.search.candidates import Candidate

PLAN = plan.Plan((), 8, (), 1.0)
NO_EXPORT = "--export_model_steps=0"
QUICK = ("--budget=20", NO_EXPORT)


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rings(tmp_path_factory.mktemp("rings"))


@pytest.fixture(autouse=True, scope="module")
def few_candidates() -> Iterator[None]:
    """Three candidates, one of which is right, and few steps; the clock of a busy machine cuts no plan short."""
    few = (
        Candidate("LogisticModel", "standardize", 0.01, 0.01),
        Candidate("GatedMlpModel", "standardize", 0.003, 0.01),
        Candidate("LogisticModel", "l2_normalize", 1e-5, 0.1),
        Candidate("FrameLevelLogisticModel", "standardize", 0.01, 0.01),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_CANDIDATES", few)
        patch.setattr(BudgetClock, "spent", lambda _: 0.0)
        patch.setattr(plan, "_STEPS", 100)
        patch.setattr(plan, "_EPOCHS", 4)
        yield


@pytest.fixture(scope="module")
def run(rings: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that chose its model; `said.txt` beside it is what the program printed."""
    folder = tmp_path_factory.mktemp("run")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert cli.main(["train", f"--data={rings}", f"--out={folder}/auto", *QUICK]) == 0
    (folder / "said.txt").write_text(said.getvalue())
    return f"{folder}/auto"


def scores_of(folder: str, rings: str) -> np.ndarray:
    with yt8m.load(folder) as model:
        videos = model.predict(rings.replace("train", "test"), top_k=3)
        return np.array([[scored.score for scored in sorted(v.classes, key=lambda c: c.index)] for v in videos])


@pytest.mark.long
def test_the_best_model_is_chosen_and_trained(run: str, rings: str) -> None:
    saved = run_dir.read(run)
    assert saved is not None
    config, search = saved.config, saved.config.search
    assert config.model.model == "GatedMlpModel"
    assert config.model.hyper_parameters["input_transform"] == "standardize"
    with yt8m.load(run) as model:
        assert model.evaluate(rings.replace("train", "test"))["map"] > 0.95
    assert search.is_refitted
    assert config.data.data_pattern == f"{rings},{rings.replace('train', 'validate')}"
    assert config.checkpoint == "last"
    origins = {origin["option"]: origin for origin in search.origins}
    assert origins["model"]["value"] == "GatedMlpModel"
    assert origins["batch_size"]["value"] == config.data.batch_size == 32
    assert "320 videos" in origins["l2_penalty"]["reason"]  # of train and validate, in folds
    assert [row["folds"] for row in search.trials] == [4, 1, 1, 1]
    assert [row["is_chosen"] for row in search.trials] == [True] + [False] * (len(search.trials) - 1)


@pytest.mark.long
def test_what_was_chosen_is_said_and_the_figure_is_that_of_the_test_split(run: str, rings: str) -> None:
    said = pathlib.Path(run).with_name("said.txt").read_text()
    assert "GatedMlpModel" in said
    assert "<- chosen" in said
    assert f"on 80 videos of {rings.replace('train', 'test')}, " in said
    assert "<= validate" not in said


def test_a_second_start_searches_nothing(run: str, rings: str, capfd: pytest.CaptureFixture[str]) -> None:
    first = scores_of(run, rings)
    capfd.readouterr()
    assert cli.main(["train", f"--data={rings}", "--budget=20", f"--out={run}"]) == 0
    assert "choosing a model" not in capfd.readouterr().err
    np.testing.assert_array_equal(scores_of(run, rings), first)


@pytest.mark.heavy
def test_a_new_model_is_chosen_and_the_former_run_or_search_is_moved(
    run: str, rings: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = pathlib.Path(shutil.copytree(run, tmp_path / "r"))
    words = ["train", f"--data={rings}", f"--out={folder}", *QUICK, "--start_new_model"]
    state = {"search.json", "search_thresholds.csv"}
    assert cli.main(words) == 0
    (former,) = tmp_path.glob("r.old-*")
    assert {*state, "config.json"} <= {path.name for path in former.iterdir()}
    assert {*state, "config.json"} <= {path.name for path in folder.iterdir()}
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / "search.json").write_text("{}")
    words[2] = f"--out={killed}"
    assert cli.main(words) == 0
    (former,) = tmp_path.glob("killed.old-*")
    assert [path.name for path in former.iterdir()] == ["search.json"]
    capfd.readouterr()
    assert cli.main([*words[:2], f"--out={tmp_path}/fresh", *words[3:], "--json"]) == 0
    assert not [*tmp_path.glob("fresh.old-*")]
    printed = json.loads(capfd.readouterr().out)
    with yt8m.load(tmp_path / "fresh") as model:
        evaluated = model.evaluate(rings.replace("train", "test"))
    assert printed["test"]["data"] == rings.replace("train", "test")
    assert printed["test"]["num_examples"] == 80
    assert json.loads(pathlib.Path(printed["train_dir"], "test.json").read_text()) == printed["test"]
    assert printed["test"]["map"] == pytest.approx(evaluated["map"], abs=1e-6)
    assert printed["meant"]["step"] == printed["test"]["global_step"] == printed["step"]


@pytest.mark.heavy
def test_the_same_seed_gives_the_same_weights(run: str, rings: str, tmp_path: pathlib.Path) -> None:
    assert cli.main(["train", f"--data={rings}", "--budget=20", f"--out={tmp_path}/again", NO_EXPORT]) == 0
    np.testing.assert_array_equal(scores_of(f"{tmp_path}/again", rings), scores_of(run, rings))


@pytest.mark.heavy
@pytest.mark.long
def test_a_search_that_was_killed_goes_on(
    run: str, rings: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The trials of the first start are not repeated, and the result is that of an unbroken search of the same seed.

    Only the chosen one is trained again, for its thresholds.
    """
    saved = json.loads(pathlib.Path(run, "search.json").read_text())
    kept = {key: saved["rows"][key] for key in reversed(saved["rows"]) if "l2_normalize" not in key}
    (tmp_path / "killed").mkdir()
    state_files.write(f"{tmp_path}/killed/search.json", {"fingerprint": saved["fingerprint"], "rows": kept})
    trained = []
    plain = trials.Trainer.scores
    monkeypatch.setattr(trials.Trainer, "scores", lambda *of: trained.append(str(of[1].candidate)) or plain(*of))
    assert cli.main(["train", f"--data={rings}", f"--out={tmp_path}/killed", *QUICK]) == 0
    assert f"{len(kept)} of its trainings" in capfd.readouterr().err
    assert len(kept) == len(saved["rows"]) - 1
    assert ["l2_normalize" in name for name in trained] == [True] + 4 * [False]
    np.testing.assert_array_equal(scores_of(f"{tmp_path}/killed", rings), scores_of(run, rings))
    thresholds = [pathlib.Path(folder, "search_thresholds.csv").read_text() for folder in (run, f"{tmp_path}/killed")]
    assert thresholds[0] == thresholds[1]


def test_equal_candidates_are_ordered_by_the_plan_and_not_by_the_threads() -> None:
    figures = {"map": 1.0, "gap": 1.0, "hit_at_one": 1.0, "folds": 1}
    rows = [{**figures, "steps": steps, "number": number} for steps in (300, 100) for number in range(3)]
    worse = {**rows[0], "map": 0.9, "steps": 900}
    for order in itertools.permutations([*rows[1:5], worse]):
        assert choice._best_first(order) == [*rows[1:5], worse]


@pytest.mark.heavy
@pytest.mark.long
def test_a_run_that_was_chosen_is_trained_on_for_more_steps_and_on_other_data(
    run: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "more").mkdir()
    pattern = write_rings(tmp_path / "more", 100)
    assert cli.main(["train", f"--data={pattern}", f"--out={tmp_path}/run", "--max_steps=310", NO_EXPORT]) == 0
    assert "step 310" in capfd.readouterr().err
    first, config = (run_dir.read(folder).config for folder in (run, f"{tmp_path}/run"))
    assert config.data.data_pattern == f"{pattern},{pattern.replace('train', 'validate')}"
    assert (config.model, config.data.batch_size) == (first.model, 32)
    assert config.optimizer.learning_rate_decay_examples == pytest.approx(310 * 32)
    assert config.search.trials == first.search.trials


@pytest.mark.heavy
@pytest.mark.long
def test_ctrl_c_keeps_the_best_so_far(
    rings: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = choice.trial_figures.row_of
    calls = []

    def row_of(*arguments):
        calls.append(arguments)
        return plain(*arguments)

    class Interrupted(choice.ThreadPoolExecutor):
        def submit(self, *arguments):
            if len(calls) >= 1:
                raise KeyboardInterrupt
            future = super().submit(*arguments)
            future.exception()  # waits
            return future

    monkeypatch.setattr(choice.trial_figures, "row_of", row_of)
    monkeypatch.setattr(choice, "ThreadPoolExecutor", Interrupted)
    assert cli.main(["train", f"--data={rings}", f"--out={tmp_path}/stopped", *QUICK]) == 0
    assert "best candidate so far" in capfd.readouterr().err
    saved = run_dir.read(f"{tmp_path}/stopped")
    assert saved is not None
    assert len(saved.config.search.trials) == 1


@pytest.mark.heavy
@pytest.mark.long
def test_validation_videos_that_are_kept_apart_choose_the_best_checkpoint(
    rings: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["train", f"--data={rings}", f"--out={tmp_path}/best", "--budget=8", "--norefit", "--num_gpu=2"]
    assert cli.main([*words, "--model=LogisticModel"]) == 0
    saved = run_dir.read(f"{tmp_path}/best")
    assert saved is not None
    config = saved.config
    assert (config.checkpoint, config.model.model) == ("best", "LogisticModel")
    assert config.validation.best_metric == "mAP"  # by which the candidates were compared
    assert config.data.batch_size == 16  # of each of two towers
    assert config.validation.eval_data_pattern == rings.replace("train", "validate")
    step = json.loads((tmp_path / "best/best/best.json").read_text())["step"]
    assert [path.name for path in (tmp_path / "best/export").iterdir()] == [str(step)]
    test = rings.replace("train", "test")
    capfd.readouterr()
    assert cli.main(["predict", f"--model={tmp_path}/best", test]) == 0
    assert f"step {step}, the best by validation" in capfd.readouterr().err
    assert cli.main(["export", f"--train_dir={tmp_path}/best", f"--out={tmp_path}/export"]) == 0
    assert f"step {step}, the best by validation" in capfd.readouterr().err
    assert (tmp_path / "export/thresholds.csv").exists()
    assert cli.main(["eval", f"--train_dir={tmp_path}/best", f"--eval_data_pattern={test}"]) == 0  # and ends
    assert f"model.ckpt-{step}" in capfd.readouterr().err
    more = [
        "train",
        f"--data={rings}",
        f"--init_from={tmp_path}/best",
        "--input_transform=standardize",
        "--max_steps=0",
    ]
    assert cli.main([*more, "--model=LogisticModel", f"--out={tmp_path}/more"]) == 0
    np.testing.assert_array_equal(scores_of(f"{tmp_path}/more", rings), scores_of(f"{tmp_path}/best", rings))


@pytest.mark.heavy
@pytest.mark.long
def test_without_a_split_validate_a_share_is_held_out_and_the_figure_says_so(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pattern = write_rings(tmp_path, splits="train")
    words = ["train", f"--data={pattern}", f"--out={tmp_path}/run", "--budget=8", NO_EXPORT]
    assert cli.main(words) == 0
    said = capfd.readouterr()
    assert "trained on 360 videos, compared on 40" in said.err
    assert "chosen on these 400 videos (in 4 folds" in said.out
    saved = run_dir.read(f"{tmp_path}/run")
    assert saved is not None
    assert not saved.config.validation.eval_data_pattern
    assert cli.main(["predict", f"--model={tmp_path}/run", pattern]) == 0
    assert "held out to choose it" in capfd.readouterr().err


@pytest.mark.parametrize("changed", ["train", "validate"])
def test_trials_of_other_labels_in_files_of_the_same_size_are_not_taken(tmp_path: pathlib.Path, changed: str) -> None:
    """Whichever files have the new labels: a candidate was trained on the one, and compared on the other."""

    def write(name: str, last: int) -> list[str]:
        rows = [video_record(id=[b"v%d" % row], labels=[last if row == 39 else 1], mean_rgb=[0.5]) for row in range(40)]
        return [str(write_shard(tmp_path / f"{name}.tfrecord", rows))]

    files, validation, config = write("train", 2), write("validate", 2), TrainConfig()
    before = choice._fingerprint(PLAN, config, files, validation[0])
    assert choice._fingerprint(PLAN, config, write("train", 2), validation[0]) == before
    write(changed, 3)
    assert choice._fingerprint(PLAN, config, files, validation[0]) != before


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"model": ModelConfig("LogisticModel", {"l2_penalty": 0.5})},
        {"model": ModelConfig("LogisticModel", label_loss="HingeLoss")},
        {"optimizer": OptimizerConfig(optimizer="AdamOptimizer", clip_gradient_norm=0.5)},
        {"data": DataConfig(nan_policy="zero")},
    ],
    ids=str,
)
def test_trials_of_other_options_are_not_taken(tmp_path: pathlib.Path, changed: dict[str, Any]) -> None:
    files = [str(write_shard(tmp_path / "a.tfrecord", [video_record(id=[b"v"], labels=[1], mean_rgb=[0.5])]))]
    config = TrainConfig()
    other = dataclasses.replace(config, **changed)
    assert choice._fingerprint(PLAN, other, files, "") != choice._fingerprint(PLAN, config, files, "")


def test_the_plan_holds_no_second_that_was_measured(
    rings: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However busy the machine is, the plan is the same, so a later start finds the trials of an earlier one."""
    plans, seconds = [], itertools.count()
    for speed in (0, 7):
        monkeypatch.setattr(BudgetClock, "spent", lambda _, speed=speed: float(speed * next(seconds)))
        config, data = flags.training([f"--data={rings}", f"--out={tmp_path}/{speed}", *QUICK])
        search = choice._Search(*training_run.complete(config, data))
        plans.append((search._plan, search._rows._fingerprint))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("value", ["l2_normalize", "standardize"])
def test_all_candidates_have_the_transform_that_is_given(rings: str, tmp_path: pathlib.Path, value: str) -> None:
    """The usual one too, which the hyper-parameters of a config do not name."""
    config, _ = flags.training([f"--data={rings}", f"--out={tmp_path}/run", f"--input_transform={value}", *QUICK])
    compared = candidates.candidates_for(config)
    assert {candidate.model for candidate in compared} == {"LogisticModel", "GatedMlpModel"}
    assert {candidates.created(candidate, config.data).input_transform for candidate in compared} == {value}
