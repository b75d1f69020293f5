"""The classifier within scikit-learn, and its checks of estimators, with those that do not apply and why."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import yt8m

EXCEPTIONS = {
    "check_classifier_multioutput": "predict returns bool by the thresholds of the classes, not integers by 0.5",
    "check_classifiers_multilabel_output_format_predict": "predict returns bool, whatever the type of y",
}
# Checks that train nothing, or once. The others train 100 times, in minutes.
CHEAP = [
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_complex_data",
    "check_estimators_empty_data_messages",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
    "check_decision_proba_consistency",
    "check_parameters_default_constructible",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_set_params",
    "check_fit1d",
    "check_requires_y_none",
]
OPTIONS = {
    "max_steps": 60,
    "batch_size": 64,
    "base_learning_rate": 0.3,
    "learning_rate_decay": 1.0,
    "input_transform": "standardize",
}


@pytest.fixture(autouse=True)
def nothing_leaks() -> None:
    """Nothing is looked for: scikit-learn's checks leave files that it removes when Python ends.

    joblib keeps the last pipeline that it fitted, and so the folder of its run.
    """


def checks() -> Iterator[Any]:
    estimator = yt8m.Classifier(model="LogisticModel", options=OPTIONS)
    for given, check in estimator_checks_generator(estimator, mark=None):
        name = check.func.__name__ if isinstance(check, functools.partial) else check.__name__
        marks = [] if name in CHEAP else [pytest.mark.heavy]
        yield pytest.param(given, check, name, id=name, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check", "name"), list(checks()))
def test_check(estimator: Any, check: Callable[[Any], None], name: str) -> None:
    if name not in EXCEPTIONS:
        check(estimator)
        return
    with pytest.raises(AssertionError):
        check(estimator)


def test_every_exception_is_a_check() -> None:
    names = {parameters.id for parameters in checks()}
    assert set(EXCEPTIONS) <= names
    assert set(CHEAP) <= names
    assert len(names) > 40


QUICK = {"max_steps": 40, "batch_size": 64, "base_learning_rate": 0.1, "input_transform": "standardize"}


def make_videos() -> tuple[np.ndarray, np.ndarray]:
    """Videos of one or two of three classes: float32 [240, 6], and 0 or 1 [240, 3]."""
    draw, labels = np.random.default_rng(0), np.zeros((240, 3), int)
    labels[np.arange(240)[:, None], draw.integers(0, 3, (240, 2))] = 1
    return (labels @ draw.normal(size=(3, 6)) + 0.2 * draw.normal(size=(240, 6))).astype("f"), labels


@pytest.mark.heavy
@pytest.mark.long
def test_a_pipeline_is_cross_validated() -> None:
    x, y = make_videos()
    pipeline = make_pipeline(StandardScaler(), yt8m.Classifier(model="LogisticModel", options=QUICK))
    scores = cross_val_predict(pipeline, x, y, cv=2, method="predict_proba")
    assert scores.shape == (240, 3)
    assert average_precision_score(y, scores) > 0.95


@pytest.mark.heavy
def test_a_grid_search_finds_the_better_options() -> None:
    x, y = make_videos()
    candidates = [QUICK, {**QUICK, "base_learning_rate": 1e-6}]
    search = GridSearchCV(yt8m.Classifier(model="LogisticModel"), {"options": candidates}, cv=2).fit(x, y)
    assert search.best_params_ == {"options": QUICK}
    assert search.best_estimator_.score(x, y) > 0.95
