"""Our networks against vectors that the published code made with the same variables and inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from golden_data import published
from models.published_networks import Ran, files, is_exact, rule, run

pytestmark = pytest.mark.published

FILES = [path.stem for path in files() if is_exact(path)]


class Compared(NamedTuple):
    """A file of vectors, and what our network gives for it."""

    arrays: Any
    ours: Ran


@pytest.fixture(scope="module")
def compared(request: pytest.FixtureRequest) -> Iterator[Compared]:
    with np.load(published() / f"{request.param}.npz") as arrays:
        yield Compared(arrays, run(arrays))


every_file = pytest.mark.parametrize(
    "compared",
    FILES or [pytest.param("none", marks=pytest.mark.skip("../shared/golden/published/ is not here"))],
    indirect=True,
)


@every_file
def test_the_variables_are_the_published_ones(compared: Compared) -> None:
    assert compared.ours.missing == set()
    assert compared.ours.unused == set()
    assert compared.ours.trainable == {name[:-2] for name in compared.arrays["trainable"].tolist()}


@every_file
def test_predictions_in_evaluation(compared: Compared) -> None:
    arrays, ours = compared
    np.testing.assert_allclose(ours.evaluation["predictions"], arrays["eval/predictions"], rtol=1e-5)
    np.testing.assert_allclose(ours.regularization, float(arrays["eval/regularization"]), rtol=1e-5)
    if "eval/support_predictions" in arrays:
        sides = np.concatenate(ours.evaluation["sides"], 1)
        np.testing.assert_allclose(sides, arrays["eval/support_predictions"], rtol=1e-5)


@every_file
def test_predictions_in_training(compared: Compared) -> None:
    np.testing.assert_allclose(compared.ours.training["predictions"], compared.arrays["train/predictions"], rtol=1e-5)


@every_file
def test_gradients(compared: Compared) -> None:
    arrays, ours = compared
    told = {key.split("|")[1][:-2]: arrays[key] for key in arrays if key.startswith("eval/grad|")}
    assert set(told) == set(ours.gradients)
    for name, expected in told.items():
        slope = ours.gradients[name]
        if slope.size > 4000:
            slope = rule().projections(f"{name}:0", slope, int(arrays["seed"]))
        largest = np.abs(expected).max()
        # A gradient whose true value is 0 is rounding error.
        np.testing.assert_allclose(
            slope, expected, rtol=0, atol=1e-4 * largest if largest > 1e-5 else 1e-5, err_msg=name
        )


@every_file
def test_moving_averages_after_a_step(compared: Compared) -> None:
    arrays, ours = compared
    told = {key.split("|")[1][:-2]: arrays[key] for key in arrays if key.startswith("train/after|")}
    for name, expected in told.items():
        np.testing.assert_allclose(ours.after[name], expected, rtol=1e-5, atol=1e-7, err_msg=name)
