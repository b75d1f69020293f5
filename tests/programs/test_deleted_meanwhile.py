"""Training saves a checkpoint and deletes one that a program is about to read."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Callable

import cases
import pytest
from golden_data import golden
from small_run import run, train_words

from yt8m import eval as evaluation_program
from yt8m import inference, scoring, train
from yt8m.command_line import cli
from yt8m.config.programs import EvalConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.scoring import evaluation, evaluation_results, export_scorer
from yt8m.storage import copies

DATA = golden("checkpoint_logistic/test.tfrecord")


@pytest.mark.heavy
@pytest.mark.promise("C7")
def test_the_next_checkpoint_is_evaluated(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(folder, "--save_checkpoint_steps=6") == 0
    config = EvalConfig(
        train_dir=str(folder), eval_data_pattern=str(golden("checkpoint_logistic/test.tfrecord")), keep_best=True
    )
    write, seen = evaluation_results.write, []

    def write_and_delete(train_dir: str, events: object, result: evaluation.EvaluationResult, *others: str) -> None:
        write(train_dir, events, result, *others)
        seen.append(result.step)
        if result.step == 6:
            for path in folder.glob("model.ckpt-6.*"):
                shutil.move(path, tmp_path)

    monkeypatch.setattr(evaluation_results, "write", write_and_delete)
    paths = (checkpoints.path_of(str(folder), step) for step in (6, 12))
    assert evaluation.evaluate(config, paths) == 0
    assert seen == [6, 12]
    assert "model.ckpt-6 was deleted" in capfd.readouterr().err
    assert (folder / "best/model.ckpt-12.index").exists()
    assert (folder / "inference_model").is_dir()
    (events,) = (folder / "eval").glob("events.*")
    assert {event.step for event in tf.train.summary_iterator(str(events))} == {0, 6, 12}  # 0: the version


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run with checkpoints and exports of steps 0, 6 and 12."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run(folder, "--save_checkpoint_steps=6", "--export_model_steps=6") == 0
    return folder


class Training:
    """Goes on while a program reads: before its n-th reading of `goes`, saves step 12 and deletes `goes`.

    What the program then holds goes at once.
    """

    def __init__(
        self, trained: pathlib.Path, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, reading: int, goes: int
    ) -> None:
        shutil.copytree(trained, folder, ignore=shutil.ignore_patterns("*-12.*", "12"))
        for name in ("events.out*", "*-0.*") if goes else ("events.out*",):
            for path in folder.glob(name):
                path.unlink()
        self._trained, self._folder, self._goes = trained, folder, goes
        self._left, self._copy_of = reading, copies.copy_of
        monkeypatch.setattr(copies, "copy_of", self._read)

    def _read(self, prefix: str) -> str:
        self._left -= prefix == str(self._folder / f"model.ckpt-{self._goes}")
        if self._left == 0:
            self._left = -1000
            for path in self._trained.glob("*-12.*"):
                shutil.copy(path, self._folder)
            for path in sorted(self._folder.glob(f"*-{self._goes}.*"), reverse=True):
                path.unlink()
        if copies.is_held(prefix) and prefix.startswith(str(self._folder)):
            for path in self._folder.glob("*-12.*"):
                path.unlink()
        return self._copy_of(prefix)


@pytest.fixture
def trains(
    trained: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, int], pathlib.Path]:
    """Makes a folder in which training goes on before that reading, with that step going."""

    def start(reading: int, goes: int = 6) -> pathlib.Path:
        Training(trained, tmp_path / "run", monkeypatch, reading, goes)
        return tmp_path / "run"

    return start


@pytest.mark.parametrize("reading", cases.all_of([1], heavy=[2, 3, 4]))
@pytest.mark.promise("C7")
def test_one_evaluation(trains: Callable, reading: int) -> None:
    """Chosen, restored, written as an inference model, copied as the best: each time the newer one counts."""
    folder = trains(reading)
    words = [f"--train_dir={folder}", f"--eval_data_pattern={DATA}", "--run_once", "--keep_best"]
    assert evaluation_program.main(words) == 0
    assert json.loads((folder / "eval/report.json").read_text())["global_step"] == 12
    assert json.loads((folder / "best/best.json").read_text())["step"] == 12
    assert "step 12" in (folder / "inference_model/README.md").read_text()
    assert not (folder / "model.ckpt-6.index").exists()


@pytest.mark.promise("C7")
def test_without_a_newer_one_it_is_told_in_one_line(
    trained: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    usual = evaluation.run_evaluation

    def and_delete(*given: object) -> object:
        for path in (tmp_path / "run").glob("model.ckpt-12.*"):
            path.unlink()
        return usual(*given)

    monkeypatch.setattr(evaluation, "run_evaluation", and_delete)
    assert evaluation_program.main([f"--train_dir={tmp_path}/run", f"--eval_data_pattern={DATA}", "--run_once"]) == 1
    said = capfd.readouterr().err
    assert re.search(r"model\.ckpt-12 was deleted.*no newer checkpoint", said)
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def predicted(trained: pathlib.Path) -> bytes:
    """The predictions of step 12."""
    words = [f"--train_dir={trained}", f"--input_data_pattern={DATA}", f"--output_file={trained.parent}/12.csv"]
    assert inference.main(words) == 0
    return (trained.parent / "12.csv").read_bytes()


@pytest.mark.heavy
@pytest.mark.parametrize("reading", [1, 2, 3])
@pytest.mark.promise("C7")
def test_inference(trains: Callable, predicted: bytes, tmp_path: pathlib.Path, reading: int) -> None:
    words = [f"--input_data_pattern={DATA}", f"--output_model_tgz={tmp_path}/m.tgz", f"--train_dir={trains(reading)}"]
    assert inference.main([*words, f"--output_file={tmp_path}/out.csv"]) == 0
    assert (tmp_path / "out.csv").read_bytes() == predicted
    assert "step 12" in (tmp_path / "run/inference_model/README.md").read_text()
    assert not (tmp_path / "run/model.ckpt-6.index").exists()


@pytest.mark.parametrize("reading", [1, 2])
@pytest.mark.promise("C7")
def test_what_a_scorer_opens(trains: Callable, reading: int) -> None:
    """`predict`, `serve` and `yt8m.load` open it."""
    folder = trains(reading)
    with scoring.open(str(folder)) as model:
        assert (model.step, model.weights) == (12, f"{folder}/model.ckpt-12")
    assert not (folder / "model.ckpt-6.index").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("reading", [1, 2, 3, 4])
@pytest.mark.promise("C7")
def test_export(trains: Callable, tmp_path: pathlib.Path, reading: int) -> None:
    folder = trains(reading)
    assert cli.call("export", [f"--train_dir={folder}", f"--out={tmp_path}/model", f"--eval_data_pattern={DATA}"]) == 0
    assert "step 12" in (tmp_path / "model/README.md").read_text()
    assert not (folder / "model.ckpt-6.index").exists()


@pytest.mark.parametrize("reading", [1, 2])
@pytest.mark.promise("C7")
def test_the_mean_of_checkpoints(trains: Callable, tmp_path: pathlib.Path, reading: int) -> None:
    folder = trains(reading, goes=0)
    assert cli.call("average-checkpoints", [f"--train_dir={folder}", f"--out={tmp_path}/mean", "--last=2"]) == 0
    assert checkpoints.steps_in(str(tmp_path / "mean")) == [12]
    assert not (folder / "model.ckpt-0.index").exists()


@pytest.mark.promise("C7")
def test_an_ensemble(trains: Callable, trained: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = trains(2)
    assert cli.call("ensemble", [f"--runs={trained},{folder}", f"--export_dir={tmp_path}/both"]) == 0
    assert not (folder / "model.ckpt-6.index").exists()


@pytest.mark.heavy
@pytest.mark.promise("C7")
def test_a_run_that_begins_with_its_weights(
    trains: Callable, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = trains(2)
    assert train.main(train_words(tmp_path / "new", f"--init_from={folder}", "--max_steps=1")) == 0
    assert f"variables start from {folder}/model.ckpt-12" in capfd.readouterr().err


@pytest.mark.promise("C7")
def test_an_exported_model(trained: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands for a run without checkpoints: the newest export, and the next where that is deleted meanwhile."""
    shutil.copytree(trained / "export/6", tmp_path / "run/export/6")
    usual = copies.folder_copy

    def and_replace(folder: str) -> str:
        monkeypatch.setattr(copies, "folder_copy", usual)
        shutil.copytree(trained / "export/12", tmp_path / "run/export/12")
        shutil.rmtree(tmp_path / "run/export/6")
        return usual(folder)

    monkeypatch.setattr(copies, "folder_copy", and_replace)
    with export_scorer.open_export(str(tmp_path / "run")) as model:
        assert model.weights == f"{tmp_path}/run/export/12"
    monkeypatch.setattr(export_scorer, "find_export", lambda _: str(tmp_path / "gone"))
    with pytest.raises(RunError, match=r"cannot read .*/gone/saved_model.pb: there is no"):
        export_scorer.open_export(str(tmp_path / "run"))
