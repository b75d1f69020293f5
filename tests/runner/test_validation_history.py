"""Which of a run's validations is the best, and which are compared after the data or the metric changed."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import RunError
from yt8m.runner.lines import StepValues
from yt8m.runner.validation_history import Best, History, forgotten_in


def history(
    folder: pathlib.Path, metric: str, *, data: str = "a", files: str = "", gone: bool = False, step: int = 3
) -> History:
    """The history of a start that resumes at a step; the file `kept` names the checkpoint that it copies to best/."""
    kept = folder / "kept"

    def keep(checkpoint: str, values: StepValues) -> None:
        kept.write_text(f"{checkpoint} {values.step} {values.loss} {values.figures}")

    best = Best(metric, metric != "loss", keep, lambda step: None if gone else f"model.ckpt-{step}", patience=1)
    made = History(str(folder), best, {"pattern": data, "max_videos": None, "fingerprint": data + files})
    made.read(step)
    return made


@pytest.fixture
def three(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> pathlib.Path:
    """A run with three validations; the best by GAP is the second one."""
    caplog.set_level("INFO", logger="absl")  # else it depends on the tests before whether these lines are logged
    former = history(tmp_path, "GAP")
    for step, loss, figures in (
        (1, 3.0, {"GAP": 0.4}),
        (2, 2.0, {"GAP": 0.5, "mine": 0.1}),
        (3, 1.0, {"GAP": 0.3, "mine": float("nan")}),
    ):
        former.begin(step, 0)
        former.add(StepValues(step, loss=loss, figures=figures), 0)
    assert former.since_best() == (1, former.rows[1])
    return tmp_path


def test_a_start_with_the_same_data_and_metric_goes_on(three: pathlib.Path) -> None:
    again = history(three, "GAP")
    assert again.since_best() == (1, {"step": 2, "loss": 2.0, "GAP": 0.5, "mine": 0.1})
    assert [again.is_better(StepValues(4, figures={"GAP": gap})) for gap in (0.45, 0.5, 0.55)] == [False, False, True]
    assert history(three, "GAP", step=1).since_best() == (0, {"step": 1, "loss": 3.0, "GAP": 0.4})
    assert not (three / "kept").exists()


def test_after_a_change_of_the_data_only_new_validations_are_compared(
    three: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = history(three, "GAP", data="b")
    assert caplog.messages == [
        "the earlier validations (3) no longer count for best/ and --patience: they validated on "
        "--eval_data_pattern=a, not on --eval_data_pattern=b"
    ]
    assert (other.since_best(), len(other.rows)) == ((0, {}), 3)
    worse = StepValues(4, figures={"GAP": 0.2})
    assert other.is_better(worse)
    other.begin(4, 0)
    other.add(worse, 0)
    assert history(three, "GAP", data="b", step=4).since_best() == (0, {"step": 4, "GAP": 0.2})
    assert len(caplog.messages) == 1
    assert history(three, "GAP", data="b", files="rewritten", step=4).since_best() == (0, {})
    assert caplog.messages[1:] == [
        "the earlier validations (1) no longer count for best/ and --patience: the files of --eval_data_pattern=b "
        "changed"
    ]


def test_validations_that_a_resumed_run_repeats_on_the_new_data_are_compared(three: pathlib.Path) -> None:
    assert history(three, "GAP", data="b").forgotten_steps == {1, 2, 3}
    again = history(three, "GAP", data="b", step=1)  # the checkpoints of steps 2 and 3 are gone
    assert again.forgotten_steps == {1}
    for step, gap in ((2, 0.2), (3, 0.1)):
        assert again.is_better(StepValues(step, figures={"GAP": gap})) == (step == 2)
        again.begin(step, 0)
        again.add(StepValues(step, figures={"GAP": gap}), 0)
    assert again.since_best() == (1, {"step": 2, "GAP": 0.2})
    assert forgotten_in(str(three)) == {1}
    assert forgotten_in(str(three / "none")) == set()


def test_another_metric_ranks_the_earlier_validations_again(
    three: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert history(three, "loss").since_best()[1]["step"] == 3
    assert (three / "kept").read_text() == "model.ckpt-3 3 1.0 {'GAP': 0.3}"
    assert history(three, "mine").since_best() == (1, {"step": 2, "loss": 2.0, "GAP": 0.5, "mine": 0.1})
    assert (three / "kept").read_text() == "model.ckpt-2 2 2.0 {'GAP': 0.5, 'mine': 0.1}"
    assert caplog.messages == [
        "--best_metric is now loss, and was GAP: the best of the earlier validations is chosen again",
        "--best_metric is now mine, and was loss: the best of the earlier validations is chosen again",
    ]


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("loss", ", and the checkpoint that is best by it, of step 3, is gone"),
        ("other", ", and they did not compute it"),
    ],
)
def test_another_metric_forgets_the_earlier_validations_if_none_can_be_the_best(
    three: pathlib.Path, caplog: pytest.LogCaptureFixture, metric: str, why: str
) -> None:
    forgotten = history(three, metric, gone=True)
    assert forgotten.since_best() == (0, {})
    assert forgotten.is_better(StepValues(4, loss=9.0, figures={"other": 0.0}))
    assert caplog.messages == [
        "the earlier validations (3) no longer count for best/ and --patience: "
        f"--best_metric is now {metric}, and was GAP{why}"
    ]


def test_a_damaged_file_is_refused(three: pathlib.Path) -> None:
    (three / "validation.json").write_text('{"validations": [')
    with pytest.raises(RunError, match=r"validation\.json is damaged .*copy.*delete"):
        history(three, "GAP")
