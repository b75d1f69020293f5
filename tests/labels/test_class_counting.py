"""`yt8m count`: the file against the scores of the model, and what is refused."""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import pytest
import small_run
from golden_data import golden

from yt8m import scoring
from yt8m.command_line import cli
from yt8m.eval_util.prediction_powered import ScoreSums, class_shares

DATA, LABELLED = (golden(f"checkpoint_logistic/{name}.tfrecord") for name in ("test", "train"))


def test_the_file_has_the_shares_of_the_scores(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert small_run.run(tmp_path / "run") == 0
    words = [f"--model={tmp_path}/run", f"--data={DATA}", f"--labelled={LABELLED}", f"--out={tmp_path}/count.csv"]
    assert cli.main(["count", *words]) == 0
    sums = {}
    with scoring.open(f"{tmp_path}/run") as scorer:
        for path in (DATA, LABELLED):
            sums[path] = ScoreSums(10)
            for batch in scorer.records(str(path)):
                _, scores = scorer.scores(scorer.takes.arranged(batch))
                sums[path].add(scores, batch.labels if path == LABELLED else None)
    shares = class_shares(sums[LABELLED], sums[DATA])
    rows = list(csv.DictReader((tmp_path / "count.csv").open()))
    assert [row["index"] for row in rows] == [str(number) for number in range(10)]
    for name, values in {
        "share": shares.shares,
        "share_low": shares.low,
        "share_high": shares.high,
        "videos": shares.shares * sums[DATA].videos,
        "videos_low": shares.count_low,
        "videos_high": shares.count_high,
    }.items():
        np.testing.assert_allclose([float(row[name]) for row in rows], values, rtol=1e-4, atol=0.06)
    assert [row["basis"] == "corrected" for row in rows] == shares.is_corrected.tolist()
    assert [int(row["labelled"]) for row in rows] == shares.positives.tolist()
    capsys.readouterr()
    assert cli.main(["count", *words[:2], f"--labelled={tmp_path}/none"]) == 2
    assert "no file matches" in capsys.readouterr().err
    assert cli.main(["count", *words[:2], f"--labelled={DATA}", f"--out={tmp_path}/own.csv"]) == 1
    assert "is in --labelled too" in capsys.readouterr().err
    assert not (tmp_path / "own.csv").exists()


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["count", "--model=run", "--data=a"]) == 2
    assert "--labelled is missing" in capsys.readouterr().err
