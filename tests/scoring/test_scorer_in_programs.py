"""Every program that runs a trained model uses the same weights of a run, whatever state its folder is in."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import bulk_jobs
import numpy as np
import pytest
import requests
import small_run
from golden_data import golden

import yt8m
from yt8m import scoring
from yt8m.bulk import shard_work
from yt8m.bulk.bulk_config import InferBulk, ShardTask
from yt8m.command_line import cli
from yt8m.records import shards
from yt8m.runs.best_checkpoint import keep_best
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Answer, Service

CLASSES, VIDEOS = 10, 21
DATA = str(golden("checkpoint_logistic/test.tfrecord"))
Scores = dict[str, list[float]]  # of each video, by class


class State(NamedTuple):
    """A folder, and the step and the averages that its newest checkpoint has."""

    folder: pathlib.Path
    step: int
    is_averaged: bool = False


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, State]:
    folder = tmp_path_factory.mktemp("states")
    assert small_run.run(folder / "trained", "--max_steps=4", "--export_model_steps=4") == 0
    # Step 8 was saved, and the process killed before it was exported.
    shutil.copytree(folder / "trained", folder / "resumed")
    assert small_run.run(folder / "resumed", "--max_steps=8", "--export_model_steps=8") == 0
    shutil.rmtree(folder / "resumed/export/8")
    shutil.copytree(folder / "resumed", folder / "renamed")
    keep_best(str(folder / "resumed"), str(folder / "trained/model.ckpt-4"), 4, 0.5)
    assert small_run.run(folder / "averaged", "--max_steps=4", "--moving_average_decay=0.9") == 0
    made = {name: State(folder / name, 8 if name[:2] == "re" else 4) for name in ("trained", "resumed", "renamed")}
    return {**made, "averaged": State(folder / "averaged", 4, is_averaged=True)}


def computed(folder: pathlib.Path, step: int) -> Scores:
    """The scores of a logistic model in NumPy, from the weights of a checkpoint, or from their averages."""
    values = small_run.weights(folder, step)
    names = (f"tower/fully_connected/{name}" for name in ("weights", "biases"))
    weights, biases = (values.get(f"{name}/ExponentialMovingAverage", values[name]).astype(float) for name in names)
    scores = {}
    for payload in shards.read_shard(DATA):
        record = shards.parse(payload)
        features = np.concatenate([record.values(name) for name in ("mean_rgb", "mean_audio")]).astype(float)
        features /= np.linalg.norm(features)
        scores[shards.id_text(record.id())] = (1 / (1 + np.exp(-(features @ weights + biases)))).tolist()
    return scores


def by_load(folder: pathlib.Path, choice: str) -> Scores:
    with yt8m.load(folder, checkpoint=choice) as model:
        found = {video.id: {one.index: one.score for one in video.classes} for video in model.predict(DATA, CLASSES)}
    return {video: [scores[index] for index in range(CLASSES)] for video, scores in found.items()}


def by_inference(folder: pathlib.Path, choice: str) -> dict[str, dict[int, str]]:
    out = folder.parent / "predictions.csv"
    words = [f"--train_dir={folder}", f"--input_data_pattern={DATA}", f"--output_file={out}", f"--top_k={CLASSES}"]
    assert cli.main(["inference", *words, f"--checkpoint={choice}"]) == 0
    return of_csv(out)


def of_csv(path: pathlib.Path) -> dict[str, dict[int, str]]:
    with path.open() as file:
        rows = {row["VideoId"]: row["LabelConfidencePairs"].split() for row in csv.DictReader(file)}
    return {video: dict(zip(map(int, words[::2]), words[1::2], strict=True)) for video, words in rows.items()}


def by_bulk(folder: pathlib.Path, choice: str) -> dict[str, dict[int, str]]:
    """The work of one worker process, in this process; products of other sizes may differ in the last bits."""
    out = folder.parent / "bulk"
    shutil.rmtree(out, ignore_errors=True)
    sizes = {"batch_size": VIDEOS, "top_k": CLASSES}
    config = InferBulk(model=str(folder), data=DATA, out=str(out), checkpoint=choice, **sizes)
    try:
        shard_work.predict(config, ShardTask(0, DATA, str(out / "test.csv")))
    finally:
        shard_work.close_models()
    return of_csv(out / "test.csv")


def of_tables(text: str) -> dict[str, dict[int, str]]:
    """What `yt8m predict` printed."""
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return {title.split()[0]: {int(line.split()[-1]): line.split()[0] for line in lines} for title, *lines in blocks}


def by_serve(folder: pathlib.Path, choice: str) -> Scores:
    with (
        scoring.open(str(folder), choice) as scorer,
        contextlib.closing(Service(scorer, ServeConfig(train_dir=str(folder)))) as service,
    ):
        body = pathlib.Path(DATA).read_bytes()

        async def answers() -> list[Answer]:
            return await service.begin("application/octet-stream", body)

        return of_answer(service.content_of(asyncio.run(answers()), CLASSES))


def of_answer(answer: dict) -> Scores:
    found = {video["id"]: {one["index"]: one["score"] for one in video["classes"]} for video in answer["videos"]}
    return {video: [scores[index] for index in range(CLASSES)] for video, scores in found.items()}


def check(printed: dict[str, dict[int, str]], form: Callable[[float], str], expected: Scores) -> None:
    """What a program printed is, to its last digit, what `yt8m.load` gives."""
    assert printed == {video: {index: form(one) for index, one in enumerate(row)} for video, row in expected.items()}


QUICK = [("resumed", "best")]
SLOW = [
    ("averaged", "last"),
    ("trained", "last"),
    ("resumed", "last"),
    ("trained", "best"),
    ("trained", "4"),
    ("resumed", "4"),
    ("averaged", "best"),
    ("averaged", "4"),
]
SLOW += [("renamed", choice) for choice in ("last", "best", "4")]


@pytest.mark.parametrize(
    ("name", "choice"), [*QUICK, *(pytest.param(*case, marks=[pytest.mark.long, pytest.mark.heavy]) for case in SLOW)]
)
def test_all_programs_use_the_same_weights(
    states: dict[str, State], name: str, choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, newest, is_averaged = states[name]
    if choice == "best" and not (folder / "best").exists():
        with pytest.raises(yt8m.UsageError, match=rf"{folder} .*no best checkpoint.*--keep_best"):
            yt8m.load(folder, checkpoint=choice)
        return
    step = newest if choice == "last" else 4
    expected, reference = by_load(folder, choice), computed(folder, step)
    assert list(expected) == list(reference)
    assert len(expected) == VIDEOS
    for video, scores in expected.items():
        assert scores == pytest.approx(reference[video], rel=1e-5)
    check(by_inference(folder, choice), "{:g}".format, expected)
    check(by_bulk(folder, choice), "{:g}".format, expected)
    assert by_serve(folder, choice) == expected
    capsys.readouterr()
    words = [f"--model={folder}", f"--checkpoint={choice}", "--count=100", f"--top_k={CLASSES}", DATA]
    assert cli.main(["predict", *words]) == 0
    shown = capsys.readouterr()
    check(of_tables(shown.out), "{:.3f}".format, expected)
    path = f"{folder}/best/model.ckpt-4" if choice == "best" else f"{folder}/model.ckpt-{step}"
    which = f"step {step}" + (", the best by validation" if choice == "best" else "")
    which += ", averaged weights" if is_averaged else ""
    assert re.findall(r"the model is .*", shown.err) == [f"the model is LogisticModel, {which}, from {path}"]
    assert "is a program" not in shown.err


@pytest.mark.heavy
@pytest.mark.parametrize("choice", ["best", "last"])
def test_evaluations_are_of_the_same_checkpoint(states: dict[str, State], choice: str) -> None:
    folder = states["resumed"].folder
    words = [f"--train_dir={folder}", f"--eval_data_pattern={DATA}", "--run_once", f"--checkpoint={choice}"]
    assert cli.main(["eval", *words]) == 0
    report = json.loads((folder / "eval/report.json").read_text())
    with yt8m.load(folder, checkpoint=choice) as model:
        assert model.evaluate(DATA) == report
    assert report["global_step"] == (4 if choice == "best" else 8)


def test_an_export_is_used_where_its_own_folder_is_named(states: dict[str, State]) -> None:
    folder = states["resumed"].folder
    with scoring.open(f"{folder}/export/4") as model:
        assert (model.model, model.step, model.weights) == ("LogisticModel", 4, f"{folder}/export/4")
    exported, reference = by_load(folder / "export/4", "last"), computed(folder, 4)
    for video, scores in exported.items():
        assert scores == pytest.approx(reference[video], rel=1e-5)


def test_evaluation_and_inference_take_an_export(states: dict[str, State], tmp_path: pathlib.Path) -> None:
    path = states["resumed"].folder / "export/4"
    check(by_inference(path, "last"), "{:g}".format, by_load(path, "last"))
    words = [f"--train_dir={path}", f"--eval_data_pattern={DATA}", f"--eval_dir={tmp_path}"]
    assert cli.main(["eval", *words]) == 0
    with yt8m.load(path) as model:
        assert model.evaluate(DATA) == json.loads((tmp_path / "eval/report.json").read_text())


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--model=MoeModel", "--model=MoeModel: .* has LogisticModel"),
        ("--frame_features", "--frame_features=true: .* has false"),
        ("--feature_names=rgb,audio", "--feature_names=rgb,audio: .* has mean_rgb"),
        ("--num_classes=9", "--num_classes=9: the model in .*export/4 has"),
    ],
)
@pytest.mark.parametrize("program", ["eval", "inference"])
def test_flags_of_a_training_are_compared_with_an_export(
    states: dict[str, State],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    program: str,
    word: str,
    expected: str,
) -> None:
    words = [f"--train_dir={states['resumed'].folder}/export/4", f"--data={DATA}", f"--out={tmp_path}/p"]
    assert cli.main([program, *words, word]) == 2
    assert re.search(expected, capsys.readouterr().err)


def test_flags_of_a_training_that_fit_an_export_change_nothing(
    states: dict[str, State], tmp_path: pathlib.Path
) -> None:
    words = [f"--train_dir={states['resumed'].folder}/export/4", f"--data={DATA}", f"--out={tmp_path}/p.csv"]
    assert cli.main(["inference", *words]) == 0
    expected = (tmp_path / "p.csv").read_bytes()
    stated = ["--model=LogisticModel", "--noframe_features", "--base_learning_rate=3", "--max_steps=2"]
    assert cli.main(["inference", *words, *stated]) == 0
    assert (tmp_path / "p.csv").read_bytes() == expected


@pytest.mark.heavy
def test_evaluation_takes_what_the_command_export_writes(states: dict[str, State], tmp_path: pathlib.Path) -> None:
    """The folder has the config of the run, but its model alone."""
    assert cli.main(["export", f"--run={states['trained'].folder}", f"--out={tmp_path}/out"]) == 0
    assert cli.main(["eval", f"--train_dir={tmp_path}/out", f"--eval_data_pattern={DATA}"]) == 0
    report = json.loads((tmp_path / "out/eval/report.json").read_text())
    with yt8m.load(states["trained"].folder) as model:
        expected = model.evaluate(DATA)
    for name in ("gap", "map", "hit_at_one", "loss"):
        assert report[name] == pytest.approx(expected[name], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["eval", f"--eval_data_pattern={DATA}", "--report"], "--report needs a run, and .* is an export"),
        (["eval"], "--eval_data_pattern is missing"),
        (["eval", f"--eval_data_pattern={DATA}", "--checkpoint=best"], "--checkpoint=best chooses among the check"),
        (["inference", f"--input_data_pattern={DATA}"], "--output_file is missing"),
        (["inference", f"--input_data_pattern={DATA}", "--output_model_tgz=m.tgz"], "--output_model_tgz needs a run"),
        (["predict", DATA, "--checkpoint=4"], "--checkpoint=4 chooses among the checkpoints of a run"),
    ],
)
def test_what_only_runs_can_do_is_refused_for_an_export(
    states: dict[str, State], words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, f"--train_dir={states['resumed'].folder}/export/4"]) == 2
    assert re.search(what, capsys.readouterr().err)


@pytest.mark.parametrize("choice", ["newest", "1.5", "-4"])
def test_a_choice_that_names_no_checkpoint_is_refused(states: dict[str, State], choice: str) -> None:
    with pytest.raises(yt8m.UsageError, match=rf"^checkpoint=.?{re.escape(choice)}.?: .* last, best\b"):
        yt8m.load(states["trained"].folder, checkpoint=choice)


@contextlib.contextmanager
def served(folder: pathlib.Path, choice: str) -> Iterator[str]:
    words = [sys.executable, "-m", "yt8m", "serve", f"--model={folder}", "--port=0", f"--checkpoint={choice}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.mark.heavy
@pytest.mark.parametrize("choice", ["last", "best"])
def test_processes_and_files_made_of_a_run_agree(states: dict[str, State], tmp_path: pathlib.Path, choice: str) -> None:
    """The service itself, an archive, an export, and an ensemble of a run with itself."""
    folder = states["resumed"].folder
    expected = by_load(folder, choice)
    with served(folder, choice) as url:
        body, headers = pathlib.Path(DATA).read_bytes(), {"Content-Type": "application/octet-stream"}
        answer = requests.post(f"{url}/predict?top_k={CLASSES}", body, headers=headers, timeout=60)
        assert of_answer(answer.json()) == expected
    packed = ["inference", f"--train_dir={folder}", f"--input_data_pattern={DATA}", f"--output_file={tmp_path}/p.csv"]
    assert cli.main([*packed, f"--checkpoint={choice}", f"--output_model_tgz={tmp_path}/model.tgz"]) == 0
    assert cli.main(["export", f"--run={folder}", f"--checkpoint={choice}", f"--out={tmp_path}/out"]) == 0
    twice = ["ensemble", f"--runs={folder},{folder}", f"--checkpoint={choice}", f"--export_dir={tmp_path}/twice"]
    assert cli.main(twice) == 0
    for path in ("model.tgz", "out", "out/saved_model", "twice"):
        for video, scores in by_load(tmp_path / path, "last").items():
            assert scores == pytest.approx(expected[video], rel=1e-5)


@pytest.mark.heavy
def test_a_job_of_beam_agrees(states: dict[str, State], tmp_path: pathlib.Path) -> None:
    pytest.importorskip("apache_beam")
    folder = states["resumed"].folder
    settings = ["--workers=1", "--checkpoint=best", f"--top_k={CLASSES}", f"--batch_size={VIDEOS}"]
    bulk_jobs.finish(bulk_jobs.start("infer", str(folder), str(DATA), tmp_path / "bulk", *settings))
    check(of_csv(tmp_path / "bulk/test.csv"), "{:g}".format, by_load(folder, "best"))
