"""A recorded run of format 1: this version resumes, evaluates and serves it as the version did that recorded it."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from serving.test_server_attacks import served

from yt8m import eval as evaluation
from yt8m import inference, scoring, train
from yt8m.records.shards import read_shard

TRAIN, TEST = "checkpoint_logistic/train.tfrecord", "checkpoint_logistic/test.tfrecord"


@pytest.fixture
def run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A copy of the recorded run. The working folder is the one in which it was recorded, so that paths are right."""
    monkeypatch.chdir(golden("README.md").parent)
    shutil.copytree("run_format_1", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def expected(run: pathlib.Path) -> Any:
    return json.loads((run / "expected.json").read_text())


def test_the_run_is_resumed_with_its_own_graph_at_its_own_position(
    run: pathlib.Path, capfd: pytest.CaptureFixture
) -> None:
    assert json.loads((run / "config.json").read_text())["format"] == 1
    assert train.main([f"--config={run}", f"--train_dir={run}", "--max_steps=8"]) == 0
    log = capfd.readouterr().err
    assert "graph saved" in log
    assert "starts again" not in log
    assert (run / "model.ckpt-8.index").exists()


def test_the_run_is_evaluated(run: pathlib.Path, expected: Any) -> None:
    assert evaluation.main([f"--train_dir={run}", f"--eval_data_pattern={TEST}", "--run_once"]) == 0
    report = json.loads((run / "eval/report.json").read_text())
    assert report["num_examples"] == expected["num_examples"]
    assert report["gap"] == pytest.approx(expected["gap"], abs=1e-6)


@pytest.mark.parametrize("folder", [".", "export/6"])
def test_the_run_and_its_export_give_the_recorded_scores(run: pathlib.Path, expected: Any, folder: str) -> None:
    records = [(payload, TEST, number) for number, payload in enumerate(read_shard(TEST))][: len(expected["ids"])]
    with scoring.open(str(run / folder)) as scorer:
        ids, scores = scorer.scores(records)
    assert list(ids) == expected["ids"]
    np.testing.assert_allclose(scores, expected["scores"], atol=1e-6)


def test_inference_of_the_run_gives_the_recorded_classes(run: pathlib.Path, expected: Any) -> None:
    out = run / "predictions.csv"
    words = [f"--train_dir={run}", f"--input_data_pattern={TEST}", f"--output_file={out}", "--top_k=3"]
    assert inference.main(words) == 0
    best = {row.split(",")[0]: int(row.split(",")[1].split()[0]) for row in out.read_text().splitlines()[1:]}
    recorded = zip(expected["ids"], np.argmax(expected["scores"], axis=1).tolist(), strict=True)
    assert [best[video] for video in expected["ids"]] == [best_class for _, best_class in recorded]


@pytest.mark.heavy
def test_the_run_is_served(run: pathlib.Path, expected: Any) -> None:
    with served(sys.executable, "-m", "yt8m", "serve", f"--model={run}", "--port=0", "--timeout=60") as service:
        answer = service.post(next(iter(read_shard(TEST))))
    (video,) = answer.json()["videos"]
    assert video["id"] == expected["ids"][0]
    assert video["classes"][0]["score"] == pytest.approx(max(expected["scores"][0]), abs=1e-6)
