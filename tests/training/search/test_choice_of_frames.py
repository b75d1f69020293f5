"""A training on one's own frames without a flag, and with the name of a model whose hyper-parameters are nested."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from training.search.own_data import write_frames

from yt8m.command_line import cli
from yt8m.command_line.flags import training
from yt8m.config import run_dir
from yt8m.training.search import candidates, plan, trials
from yt8m.training.search.budget_clock import BudgetClock
from yt8m.training.search.candidates import Candidate

BAG = {"dbof_cluster_size": 8, "dbof_hidden_size": 8, "video_level_classifier_model": "LogisticModel"}


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_frames(tmp_path_factory.mktemp("frames"))


@pytest.fixture(autouse=True, scope="module")
def one_candidate() -> Iterator[None]:
    """A bag of frames, and few steps; the clock of a busy machine cuts no plan short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_CANDIDATES", (Candidate("SoftDbowModel", "standardize", 1e-5, 0.02, BAG),))
        patch.setattr(BudgetClock, "spent", lambda _: 0.0)
        patch.setattr(plan, "_STEPS", 40)
        patch.setattr(plan, "_EPOCHS", 4)
        yield


@pytest.mark.parametrize(
    "flags",
    [(), pytest.param(("--model=DbofModel", "--dbof_cluster_size=8", "--dbof_hidden_size=8"), marks=pytest.mark.heavy)],
)
def test_bags_of_frames_are_chosen_trained_on_all_videos_and_compared(
    flags: tuple[str, ...], frames: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["train", f"--data={frames}", f"--out={tmp_path}/run", "--budget=20", "--export_model_steps=0", "--json"]
    assert cli.main([*words, *flags]) == 0
    out, said = capfd.readouterr()
    printed = json.loads(out)
    assert "the split validate too" in said
    assert "longer than the budget" not in said
    assert printed["model"] == ("DbofModel" if flags else "SoftDbowModel")
    assert printed["test"]["num_examples"] == 24
    assert printed["test"]["map"] > 0.9
    assert run_dir.read(f"{tmp_path}/run").config.model.hyper_parameters["batch_norm_decay"] == (
        0.9 if flags else 0.999
    )


def test_a_named_model_has_averages_that_follow_few_steps_unless_a_flag_says_otherwise(
    frames: str, tmp_path: pathlib.Path
) -> None:
    words = [f"--data={frames}", f"--out={tmp_path}/run", "--model=DbofModel"]
    for flags, expected in (((), 0.9), (("--batch_norm_decay=0.97",), 0.97)):
        config, _ = training([*words, *flags])
        assert {each.options["batch_norm_decay"] for each in candidates.candidates_for(config)} == {expected}


@pytest.mark.heavy
def test_a_model_that_is_too_large_for_the_budget_is_named_with_what_to_do(
    frames: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "train",
        f"--data={frames}",
        "--model=DbofModel",
        *(f"--dbof_{name}_size=8" for name in ("cluster", "hidden")),
    ]
    words += ["--export_model_steps=0", "--max_frames=2"]
    monkeypatch.setattr(trials, "_SECONDS_OF_STEP", 0.2)
    assert cli.main([*words, f"--out={tmp_path}/run", "--budget=2", "--norefit"]) == 0
    assert re.search("DbofModel .* 3 s .*budget", capfd.readouterr().err)


@pytest.mark.heavy
def test_a_machine_without_a_gpu_is_no_error(frames: str, tmp_path: pathlib.Path) -> None:
    """In a process of its own, because TensorFlow looks for GPUs once."""
    words = [f"--data={frames}", "--model=FrameLevelLogisticModel", f"--out={tmp_path}/run", "--budget=1"]
    command = [sys.executable, "-m", "yt8m", "train", *words, "--export_model_steps=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    logged = re.compile(r"\d{4}-\d\d-\d\d [\d:]{8} (INFO|WARNING) ")
    assert [line for line in done.stderr.splitlines() if not logged.match(line)] == []


def test_candidates_of_one_graph_have_one_family() -> None:
    nested = {"classifier_hyper_parameters": {"l2_penalty": 0.1}, "feature_sizes": [8], "iterations": 3}
    first = Candidate("DbofModel", "raw", 0.1, 0.01, nested)
    assert first.family == Candidate("DbofModel", "raw", 0.2, 0.03, dict(reversed(nested.items()))).family
    others = [("LstmModel", "raw", nested), ("DbofModel", "standardize", nested)]
    others.append(("DbofModel", "raw", {**nested, "classifier_hyper_parameters": {"l2_penalty": 0.2}}))
    families = {Candidate(model, transform, 0.1, 0.01, options).family for model, transform, options in others}
    assert len({first.family, *families}) == 4
