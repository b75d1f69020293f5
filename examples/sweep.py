"""A sweep: Optuna chooses options, `yt8m.fit` trains with them in a process, and the validation ends hopeless trials.

python -m examples.sweep runs/sweep 20 --train_data_pattern='data/train*' --eval_data_pattern='data/validate*'
"""

import json
import multiprocessing
import pathlib
import sys

from optuna import Trial, create_study
from optuna.trial import TrialState as State

import yt8m


def options_of(trial: Trial) -> dict[str, object]:
    """The options that a trial tries: change this function."""
    rate = trial.suggest_float("base_learning_rate", 1e-3, 1.0, log=True)
    return {"base_learning_rate": rate, "model": trial.suggest_categorical("model", ["LogisticModel", "MoeModel"])}


def run(trial: Trial, folder: str, words: tuple[str, ...]) -> tuple[Trial, float | None, State]:
    """Trains with the options of a trial; returns the trial, its best GAP, and how it ended."""
    options = {**dict(word.removeprefix("--").split("=", 1) for word in words), **options_of(trial)}
    train_dir = pathlib.Path(folder, "-".join(map(str, trial.params.values())))
    history, told, is_alive = train_dir / "validation.json", list[dict[str, float]](), True
    process = multiprocessing.get_context("spawn").Process(target=yt8m.fit, kwargs={**options, "train_dir": train_dir})
    process.start()
    while is_alive:
        process.join(1.0)
        is_alive = process.exitcode is None
        rows = json.loads(history.read_text())["validations"] if history.exists() else []
        rows = [row for row in rows if row["GAP"] is not None]  # undefined without a label
        for row in rows[len(told) :]:
            trial.report(row["GAP"], row["step"])
        told = rows
        if is_alive and trial.should_prune():
            process.terminate()  # the run saves its last step and ends
            process.join()
            return trial, None, State.PRUNED
    assert not process.exitcode, f"{train_dir} failed, see the log above; the next start of the sweep resumes it"
    assert told, f"{train_dir} has no validation with a GAP: do the videos of --eval_data_pattern have labels?"
    return trial, max(row["GAP"] for row in told), State.COMPLETE


def main(folder: str, trials: str, *words: str) -> None:
    """Runs trials until so many have ended. Start it again if it was ended: it resumes the run that was training."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    where = f"sqlite:///{folder}/study.db"  # only this process opens it
    study = create_study(storage=where, study_name="sweep", direction="maximize", load_if_exists=True)
    for left in study.get_trials(states=[State.RUNNING]):
        study.tell(left.number, state=State.FAIL)
        study.enqueue_trial(left.params)
    while len(study.get_trials(states=[State.COMPLETE, State.PRUNED])) < int(trials):
        study.tell(*run(study.ask(), folder, words))
    print(*(f"the best GAP is {best.value:.4f}, with {best.params}" for best in study.best_trials), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
