"""A run that means its best checkpoint, which the training has deleted since: its readers give the scores of best/."""

from __future__ import annotations

import csv
import dataclasses
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from golden_data import golden
from small_run import ROOT, WITHOUT_EXPORT, run, train_words

import yt8m
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.errors import UsageError
from yt8m.runs.best_checkpoint import replace_best
from yt8m.runs.opened_run import open_run

BEST = 4
DATA = str(golden("checkpoint_logistic/test.tfrecord"))
INFER = ["inference", f"--input_data_pattern={DATA}", "--top_k=10"]


def mean_best(folder: pathlib.Path, step: int) -> None:
    """Makes `step` the best one of the run, moves it to best/, and makes the run mean it."""
    replace_best(str(folder), str(folder / f"model.ckpt-{step}"), step, {"gap": 0.9})
    for path in folder.glob(f"model.ckpt-{step}.*"):
        path.unlink()
    saved = run_dir.read(str(folder))
    assert saved is not None
    run_dir.write(str(folder), dataclasses.replace(saved.config, checkpoint="best"))


def scores_in(path: pathlib.Path) -> dict[str, dict[str, float]]:
    """{id of the video: {class: score}} of a file of predictions."""
    with path.open(newline="") as lines:
        rows = [(row["VideoId"], row["LabelConfidencePairs"].split()) for row in csv.DictReader(lines)]
    return {video: dict(zip(pairs[::2], map(float, pairs[1::2]), strict=True)) for video, pairs in rows}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run with the checkpoints 0, 8 and 12, whose best one is that of step 4."""
    folder = tmp_path_factory.mktemp("best") / "run"
    assert run(folder, "--save_checkpoint_steps=4", "--keep_checkpoints=9") == 0
    mean_best(folder, BEST)
    return folder


@pytest.fixture(scope="module")
def expected(folder: pathlib.Path) -> dict[str, dict[str, float]]:
    """The scores of a plain run of which best/ holds the only checkpoint."""
    plain = folder.parent / "plain"
    saved = run_dir.read(str(folder))
    assert saved is not None
    shutil.copytree(folder / "best", plain)
    run_dir.write(str(plain), dataclasses.replace(saved.config, checkpoint="last"))
    scores = {}
    for name, words in (("best", [f"--train_dir={plain}"]), ("last", [f"--train_dir={folder}", "--checkpoint=last"])):
        assert cli.main([*INFER, *words, f"--output_file={folder.parent}/{name}.csv"]) == 0
        scores[name] = scores_in(folder.parent / f"{name}.csv")
    assert scores["best"] != scores["last"]
    return scores["best"]


def scores_of(model: object) -> dict[str, dict[str, float]]:
    """The scores that a model gives from Python."""
    with yt8m.load(str(model)) as loaded:
        return {
            video.id: {str(one.index): one.score for one in video.classes} for video in loaded.predict(DATA, top_k=10)
        }


# {reader: its commands}, in which RUN stands for the run, and OUT for a new path. OUT.csv has the predictions; if it is
# not written, OUT is a model, or a folder of predictions.
READERS = {
    "Python": [],
    "inference": [[*INFER, "--train_dir=RUN", "--output_file=OUT.csv"]],
    "--checkpoint=STEP": [[*INFER, "--train_dir=RUN", f"--checkpoint={BEST}", "--output_file=OUT.csv"]],
    "archive": [
        [*INFER, "--train_dir=RUN", "--output_file=OUT.first.csv", "--output_model_tgz=OUT.tgz"],
        [*INFER, "--input_model_tgz=OUT.tgz", "--untar_model_dir=OUT.files", "--output_file=OUT.csv"],
    ],
    "export": [["export", "--train_dir=RUN", "--out=OUT"]],
    "ensemble": [["ensemble", "--model=RUN,RUN", "--out=OUT"]],
    "--init_from": [["train", *train_words(pathlib.Path("OUT"), "--init_from=RUN", "--max_steps=0", *WITHOUT_EXPORT)]],
    "bulk": [["bulk", "infer", "--model=RUN", f"--data={DATA}", "--top_k=10", "--out=OUT"]],
}


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_scores_with_the_best_weights(
    folder: pathlib.Path, expected: dict[str, dict[str, float]], tmp_path: pathlib.Path, reader: str
) -> None:
    for command in READERS[reader]:
        words = [word.replace("RUN", str(folder)).replace("OUT", f"{tmp_path}/out") for word in command]
        if reader == "bulk":  # Beam leaves threads behind
            subprocess.run([sys.executable, "-m", "yt8m", *words], check=True, cwd=ROOT)
        else:
            assert cli.main(words) == 0
    out = tmp_path / "out"
    files = [tmp_path / "out.csv"] if (tmp_path / "out.csv").exists() else [*out.glob("test*.csv")]
    scores = scores_in(files[0]) if files else scores_of(out if READERS[reader] else folder)
    assert scores.keys() == expected.keys()
    for video, of_classes in expected.items():
        assert scores[video] == pytest.approx(of_classes, abs=2e-6), video


def test_a_step_that_is_nowhere_is_refused_with_all_that_there_are(folder: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=rf"step 5; it has: 12, 8, 0, {BEST} \(the best\)"):
        open_run(str(folder)).checkpoint("5")


def write_arrays(folder: pathlib.Path, count: int, frames: int) -> str:
    """Writes frame-level records of `count` videos of two classes; returns the pattern of their shards."""
    (folder / "arrays").mkdir(parents=True)
    noise = np.random.default_rng(0).normal(size=(count, frames, 4)).astype(np.float32)
    rows = [f"v{n},arrays/{n}.npy,{'ab'[n % 2]},train" for n in range(count)]
    for number, array in enumerate(noise):
        np.save(folder / f"arrays/{number}.npy", array + 3 * (number % 2))
    (folder / "table.csv").write_text("\n".join(["id,path,labels,split", *rows]))
    assert cli.main(["make-records", f"--table={folder}/table.csv", "--level=frame", f"--out={folder}/records"]) == 0
    return f"{folder}/records/frame/train/*.tfrecord"


@pytest.mark.heavy
@pytest.mark.long
def test_thresholds_of_films_are_chosen_on_the_scores_of_the_best_weights(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clips, films = write_arrays(tmp_path / "clips", 16, 4), write_arrays(tmp_path / "films", 8, 20)
    words = ["--model=FrameLevelLogisticModel", "--batch_size=8", "--max_steps=3", "--save_checkpoint_steps=1"]
    run_of_clips = tmp_path / "run"
    assert cli.main(["train", f"--data={clips}", f"--out={run_of_clips}", *words, *WITHOUT_EXPORT]) == 0
    mean_best(run_of_clips, step=1)
    capfd.readouterr()
    assert cli.main(["eval", f"--model={run_of_clips}", f"--data={films}", "--report", "--run_once"]) == 0
    said = capfd.readouterr().err
    assert "thresholds are chosen on 8 films" in said
    assert "best/model.ckpt-1" in said
