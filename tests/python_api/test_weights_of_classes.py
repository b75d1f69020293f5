"""`class_weights` from Python: a dict, a Series or a DataFrame counts as a table with the same rows does."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

import yt8m
from yt8m.config import run_dir

WEIGHTS = {"cat": 3.0, "dog": 0.5}
X = np.random.default_rng(0).normal(size=(80, 3)).astype("f")
Y = [["cat"] * bool(row[0] > 0) + ["dog"] * bool(row[1] > 0) + ["owl"] for row in X]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data") / "own"
    yt8m.make_records(pd.DataFrame({"id": [f"v{row}" for row in range(80)], "labels": Y}), folder, X)
    return f"{folder}/video/train/*.tfrecord"


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS,
        *(
            pytest.param(weights, marks=pytest.mark.heavy)
            for weights in (
                pd.Series(WEIGHTS),
                pd.DataFrame({"class": list(WEIGHTS), "weight": list(WEIGHTS.values())}),
                {1: 3, 2: np.float32(0.5)},
            )
        ),
        "a table",
    ],
    ids=["dict", "series", "frame", "numbers", "table"],
)
def test_weights_in_memory_count_as_a_table(weights: Any, data: str, tmp_path: pathlib.Path) -> None:
    if isinstance(weights, str):
        weights = tmp_path / "weights.csv"
        weights.write_text("class,weight\ncat,3\ndog,0.5\n")
    options = {"model": "LogisticModel", "max_steps": 2, "batch_size": 16, "export_model_steps": 0}
    run = yt8m.fit(data=data, train_dir=tmp_path / "run", class_weights=weights, **options)
    saved = run_dir.read(run.folder)
    assert saved is not None
    assert saved.config.model.weight_of_class == (1.0, 3.0, 0.5)  # owl, cat, dog
    assert saved.config.model.class_weights == ("" if not isinstance(weights, pathlib.Path) else str(weights))


@pytest.mark.heavy
def test_a_classifier_takes_them_too() -> None:
    options = {"max_steps": 2, "class_weights": {"owl": 2}}
    run = yt8m.Classifier(model="LogisticModel", options=options).fit(X, Y)._run
    assert run.config().model.weight_of_class == (1.0, 1.0, 2.0)


def test_a_wrong_one_is_named_without_a_file(data: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(yt8m.UsageError, match=r"^class_weights, line 2: .*'cot'.*did you mean cat"):
        yt8m.fit(data=data, train_dir=tmp_path / "run", model="LogisticModel", class_weights={"cot": 1})
    with pytest.raises(yt8m.UsageError, match=r"^class_weights .*\ba, b\b.*class and weight"):
        yt8m.fit(data=data, train_dir=tmp_path / "run", class_weights=pd.DataFrame({"a": [1], "b": [2]}))


def test_make_records_names_the_argument(tmp_path: pathlib.Path) -> None:
    made = yt8m.make_records(pd.DataFrame({"id": ["a", "b"], "labels": ["cat", "dog"]}), tmp_path / "out", X[:2])
    assert made["understood"].startswith("table: ")
    assert "jsonl" not in made["understood"]
