"""The rows of X and y: tables whose index differs are refused, masks are not lost, and ids come from the index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import yt8m
from yt8m.python_api.data_errors import DataError

FEW_STEPS = {"max_steps": 5, "batch_size": 32, "base_learning_rate": 0.1, "export_model_steps": 0}
QUICK: dict[str, Any] = dict(model="LogisticModel", options=FEW_STEPS)
DRAW = np.random.default_rng(0)
IDS = [f"clip{row}" for row in range(80)]
X = pd.DataFrame(DRAW.normal(size=(80, 3)).astype("f"), columns=list("abc"), index=IDS)
Y = pd.DataFrame({"cat": X["a"] > 0, "dog": X["b"] > 0})
MASKED = np.ma.masked_array(X.to_numpy(), np.arange(240).reshape(80, 3) == 7)


@pytest.fixture(scope="module")
def fitted() -> yt8m.Classifier:
    return yt8m.Classifier(**QUICK).fit(X, Y)


def test_tables_in_another_order_are_refused(fitted: yt8m.Classifier) -> None:
    turned = Y.iloc[::-1]
    calls = {
        "y": [
            lambda: yt8m.Classifier(**QUICK).fit(X, turned),
            lambda: yt8m.Classifier(**QUICK).fit({"one": X}, turned["cat"]),
            lambda: yt8m.Classifier(**QUICK).fit(X["a"].map(lambda value: np.array([[value]])), turned),
            lambda: fitted.score(X, turned),
            lambda: fitted.evaluate(X, turned),
        ],
        "groups": [lambda: yt8m.Classifier(**QUICK).fit(X, Y, groups=turned["cat"])],
        "y_val": [lambda: yt8m.Classifier(**QUICK).fit(X, Y, X_val=X, y_val=turned)],
    }
    for name, listed in calls.items():
        for call in listed:
            with pytest.raises(DataError, match=rf"row 0 is 'clip0' in X\w* and 'clip79' in {name}.*{name}\.loc\[X"):
                call()
    for call in (yt8m.Classifier(**QUICK).fit, lambda tables, _: fitted.predict_proba(tables)):
        with pytest.raises(DataError, match=r"the indices of X\['one'\] and X\['two'\] differ: row 0 is 'clip0'"):
            call({"one": X, "two": X.iloc[::-1]}, Y)
    reset = Y.reset_index(drop=True)
    with pytest.raises(DataError, match="row 0 is 'clip0' in X and 0 in y"):
        yt8m.Classifier(**QUICK).fit(X, reset)
    same_order = fitted.score(X, reset.to_numpy())
    assert same_order == fitted.score(X, turned.loc[X.index]) == fitted.score(X.to_numpy(), Y)


def test_ids_come_from_the_index(fitted: yt8m.Classifier, tmp_path: Any) -> None:
    fitted.save(tmp_path / "run")
    with yt8m.load(tmp_path / "run") as model:
        assert [video.id for video in model.predict(X)] == IDS
        assert [video.id for video in model.predict({"features": X})] == IDS
        assert [video.id for video in model.predict(X.reset_index(drop=True).iloc[2:])][:2] == ["0", "1"]
        many = pd.concat([X] * 30, ignore_index=True).rename(index="n{}".format)
        assert [video.id for video in model.predict(many)] == [f"n{row}" for row in range(2400)]
        labelled = Y.rename(columns=str)
        assert model.evaluate(X, labelled)["num_examples"] == 80
        with pytest.raises(yt8m.UsageError, match=r"row 0 is 'clip0' in data and 'clip79' in labels"):
            model.evaluate(X, labelled.iloc[::-1])


def test_masks_are_not_lost(fitted: yt8m.Classifier, tmp_path: Any) -> None:
    frames = [np.ma.masked_array(np.ones((2, 3)), np.eye(2, 3)) for _ in range(80)]
    mask_of_y = np.ma.masked_array(Y.to_numpy(), np.eye(80, 2))
    calls = [
        lambda: yt8m.Classifier(**QUICK).fit(MASKED, Y.to_numpy()),
        lambda: yt8m.Classifier(**QUICK).fit(list(MASKED), Y.to_numpy()),
        lambda: yt8m.Classifier(**QUICK).fit({"f": frames}, Y.to_numpy()),
        lambda: yt8m.Classifier(**QUICK).fit(X.to_numpy(), mask_of_y),
        lambda: yt8m.Classifier(**QUICK).fit(X.to_numpy(), Y.to_numpy(), groups=mask_of_y[:, 0]),
        lambda: fitted.predict_proba(MASKED),
        lambda: fitted.score(X.to_numpy(), mask_of_y),
        lambda: yt8m.make_records(pd.DataFrame({"id": IDS, "labels": "cat"}), tmp_path / "out", MASKED),
    ]
    fitted.save(tmp_path / "run")
    with yt8m.load(tmp_path / "run") as model:
        batch = yt8m.NumpyBatch(IDS, {"features": MASKED}, np.ones(80, "i4"), np.zeros((80, 0), bool))
        calls += [
            lambda: model.predict(MASKED),
            lambda: model.predict({"features": MASKED}),
            lambda: model.predict(list(MASKED)),
            lambda: model.predict(batch),
            lambda: model.evaluate(X.to_numpy(), mask_of_y),
        ]
        for call in calls:
            with pytest.raises(yt8m.UsageError, match="masked"):
                call()
        unmasked = np.ma.masked_array(X.to_numpy())
        assert model.predict_proba(unmasked).tolist() == fitted.predict_proba(unmasked).tolist()
    assert not (tmp_path / "out").exists()


def test_nothing_and_weights_of_videos_are_refused_by_name(fitted: yt8m.Classifier) -> None:
    with pytest.raises(DataError, match=r"^X is None: give"):
        fitted.predict_proba(None)
    with pytest.raises(DataError, match=r"fit takes no sample_weight: .*class_weights"):
        yt8m.Classifier(**QUICK).fit(X, Y, sample_weight=np.ones(80))
    with pytest.raises(DataError, match=r"fit takes no eval_set: its arguments are X, y"):
        yt8m.Classifier(**QUICK).fit(X, Y, eval_set=[(X, Y)])
    with pytest.raises(DataError, match=r"yt8m\.load\('runs/mine'\).*predict_proba"):
        yt8m.Classifier.load("runs/mine")


@pytest.mark.heavy
def test_the_index_says_nothing_of_lists() -> None:
    rows = X.to_numpy().tolist()
    assert yt8m.Classifier(**QUICK).fit(rows, Y).predict(rows).shape == (80, 2)
