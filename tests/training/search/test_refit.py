"""A choice that was trained on all videos is compared with what its candidate reached on those it had not seen."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from training.search.own_data import write_rings

import yt8m
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.training import checkpoint_import
from yt8m.training.search import candidates, plan
from yt8m.training.search.budget_clock import BudgetClock
from yt8m.training.search.candidates import Candidate

WRONG = "So that training went wrong, and the run has the candidate's weights"


@pytest.fixture(autouse=True, scope="module")
def few_candidates() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_CANDIDATES", (Candidate("GatedMlpModel", "standardize", 0.003, 0.01),))
        patch.setattr(BudgetClock, "spent", lambda _: 0.0)
        patch.setattr(plan, "_STEPS", 150)
        patch.setattr(plan, "_EPOCHS", 4)
        yield


class Trained:
    """A run on rings, with a split validate or without."""

    def __init__(self, folder: pathlib.Path, splits: str) -> None:
        self.data = write_rings(folder, splits=splits)
        self.folder, self.path = str(folder / "run"), folder / "run"

    def start(self, *words: str) -> None:
        assert cli.main(["train", f"--data={self.data}", f"--out={self.folder}", "--budget=20", *words]) == 0

    def spoil(self) -> None:
        """Puts weights that know nothing in the place of those of the training, as if these had gone wrong."""
        checkpoint_import.save_checkpoint(self.checkpoint, self.config, {}, self.step)

    @property
    def config(self) -> Any:
        saved = run_dir.read(self.folder)
        assert saved is not None
        return saved.config

    @property
    def undone(self) -> Mapping[str, Any]:
        return self.config.search.undone_refit

    @property
    def step(self) -> int:
        return checkpoints.steps_in(self.folder)[0]

    @property
    def checkpoint(self) -> str:
        return checkpoints.path_of(self.folder, self.step)

    def weights(self) -> dict[str, np.ndarray]:
        reader = tf.train.load_checkpoint(self.checkpoint)
        names = (name for name in reader.get_variable_to_shape_map() if "Adam" not in name and "power" not in name)
        return {name: reader.get_tensor(name) for name in names}

    def scores(self, model: str = "") -> np.ndarray:
        with yt8m.load(model or self.folder) as opened:
            videos = opened.predict(f"{self.folder}/../data/video/train/*.tfrecord", top_k=3)
            return np.array([[scored.score for scored in sorted(v.classes, key=lambda c: c.index)] for v in videos])


@pytest.fixture(scope="module", params=["train,validate,test", "train"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    run = Trained(tmp_path_factory.mktemp("refit"), request.param)
    run.start()
    assert not run.undone
    return run


@pytest.fixture
def run(trained: Trained, tmp_path: pathlib.Path) -> Trained:
    """A copy of the run whose weights know nothing."""
    copied = object.__new__(Trained)
    copied.data, copied.path, copied.folder = trained.data, tmp_path / "run", str(tmp_path / "run")
    shutil.copytree(trained.path, copied.path)
    shutil.copytree(trained.path.parent / "data", tmp_path / "data")
    copied.spoil()
    return copied


@pytest.mark.heavy
def test_weights_that_are_worse_than_promised_give_way_to_those_of_the_candidate(
    run: Trained, capfd: pytest.CaptureFixture[str]
) -> None:
    spoilt = run.scores()
    run.start()
    said = capfd.readouterr()
    assert said.out.count(WRONG) == 1
    assert WRONG in said.err
    assert "those that were held out for the choice are among them" not in said.out
    chosen = run.config.search.trials[0]
    promised = chosen.get("alone", chosen)["map"]
    assert run.undone["promised"] == promised > 0.8
    assert run.undone["reached"] < 0.7
    assert run.undone["step"] == run.step == chosen["steps"]
    with yt8m.load(run.folder) as model:
        assert model.evaluate(run.data)["map"] > 0.8  # the candidate was trained on most of these
    assert not np.array_equal(run.scores(), spoilt)
    np.testing.assert_array_equal(run.scores(f"{run.folder}/export/{run.step}"), run.scores())
    assert cli.main(["predict", f"--model={run.folder}", run.data]) == 0
    assert "trained without the videos" in capfd.readouterr().err


@pytest.mark.heavy
def test_a_further_start_and_one_after_a_kill_give_the_same_weights(
    run: Trained, capfd: pytest.CaptureFixture[str]
) -> None:
    run.start()
    first, note = run.weights(), dict(run.undone)
    run.start()
    assert run.undone == note
    assert WRONG in capfd.readouterr().out
    np.testing.assert_equal(run.weights(), first)
    run.spoil()  # killed after the note was written, before the weights were
    run.start()
    assert run.undone == note
    np.testing.assert_equal(run.weights(), first)


@pytest.mark.heavy
def test_a_training_as_good_as_promised_stays_as_it_is(trained: Trained) -> None:
    before = trained.weights()
    trained.start()
    np.testing.assert_equal(trained.weights(), before)
    assert not trained.undone


@pytest.mark.heavy
def test_a_length_of_the_users_is_not_compared(run: Trained, capfd: pytest.CaptureFixture[str]) -> None:
    run.start(f"--max_steps={run.step + 1}")
    assert WRONG not in capfd.readouterr().out
    assert not run.undone
