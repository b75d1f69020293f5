"""Our networks against vectors that the published code made with the same variables and inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from golden_data import published
from models.published_networks import Ran, files, rule, run

from yt8m.models.published import CANCELLED, SCOPE

pytestmark = pytest.mark.published

# Those whose code another file of vectors runs too: NetVLAD's in its variants, a mixture's gates, recurrent layers.
_SLOW = {
    *("n_nextvlad", "w_netvlad"),
    *("h_bilstm", "n_mix", "w_gatedmoe_diag", "w_gatedmoe_input", "w_gateddbof", "w_gru", "w_netfv"),
    *(
        "n_nextvlad",
        "w_netvlad",
        "w_netrvlad",
        "w_netvlad_diag",
        "w_netvlad_relu",
        "w_netvlagd",
        "w_softdbof",
        "w_softdbof_max",
        "h_lstmattmax",
    ),
}
FILES = [pytest.param(path.stem, marks=pytest.mark.heavy if path.stem in _SLOW else ()) for path in files()]

# Published networks that pool padded frames as if they were real, and by how much their predictions on padded videos
# may differ from ours, which ignore padding. In use, WILLOW's draw frames first and so see no padding; the mixture of
# MixNeXtVladModel takes the mean of all frames.
POOLS_PADDING = {
    "GatedDbofModelLF": 0.05,
    "MixNeXtVladModel": 0.01,
    "NetFVModelLF": 0.005,
    "NetVLADModelLF": 0.005,
    "SoftDbofModelLF": 0.05,
}


class Compared(NamedTuple):
    """A file of vectors, and what our network gives for it."""

    arrays: Any
    ours: Ran


@pytest.fixture(scope="module")
def compared(request: pytest.FixtureRequest) -> Iterator[Compared]:
    with np.load(published() / f"{request.param}.npz") as arrays:
        yield Compared(arrays, run(arrays))


every_file = pytest.mark.parametrize("compared", FILES, indirect=True)


@every_file
def test_the_variables_are_the_published_ones(compared: Compared) -> None:
    assert compared.ours.missing == set()
    assert compared.ours.unused <= {SCOPE + name for name in CANCELLED}
    told = {name[:-2] for name in compared.arrays["trainable"].tolist()}
    assert compared.ours.trainable == told - compared.ours.unused


@every_file
def test_predictions_in_evaluation(compared: Compared) -> None:
    arrays, ours = compared
    np.testing.assert_allclose(ours.evaluation["predictions"], arrays["eval/predictions"], rtol=1e-5)
    # A float32 sum of the squares of all weights, in an order that depends on the processor: 1.5e-5 apart on one.
    np.testing.assert_allclose(ours.regularization, penalties(arrays), rtol=3e-5)
    if "eval/support_predictions" in arrays:
        sides = np.concatenate(ours.evaluation["sides"], 1)
        np.testing.assert_allclose(sides, arrays["eval/support_predictions"], rtol=1e-5)
    if "eval/aux_predictions" in arrays:
        np.testing.assert_allclose(ours.evaluation["sides"], arrays["eval/aux_predictions"], rtol=1e-5)


def penalties(arrays: Any) -> float:
    """The published regularisation losses; the divergence of a mixture's branches is told apart from the others."""
    return float(arrays["eval/regularization"]) + float(arrays.get("eval/regularization_loss", 0.0))


@every_file
def test_predictions_on_padded_videos(compared: Compared) -> None:
    arrays, ours = compared
    if str(arrays["level"]) == "video":
        assert "padded/predictions" not in arrays
        return
    expected, predictions = arrays["padded/predictions"], ours.padded["predictions"]
    limit = POOLS_PADDING.get(str(arrays["class"]))
    differs = (arrays["num_frames"] < arrays["frames"]) & (limit is not None)
    np.testing.assert_allclose(predictions[~differs], expected[~differs], rtol=1e-5)
    if limit is not None:
        assert 1e-5 < np.abs(predictions - expected)[differs].max() < limit


@every_file
def test_predictions_in_training(compared: Compared) -> None:
    # Batch statistics of a few rows magnify the rounding, whose order depends on the processor.
    np.testing.assert_allclose(compared.ours.training["predictions"], compared.arrays["train/predictions"], rtol=3e-5)


@every_file
def test_gradients(compared: Compared) -> None:
    arrays, ours = compared
    told = {key.split("|")[1][:-2]: arrays[key] for key in arrays if key.startswith("eval/grad|")}
    assert set(told) == set(ours.gradients) | ours.unused
    assert all(np.abs(told[name]).max() < 1e-5 for name in ours.unused)
    for name, slope in ours.gradients.items():
        expected = told[name]
        if slope.size > 4000:
            slope = rule().projections(f"{name}:0", slope, int(arrays["seed"]))
        largest = np.abs(expected).max()
        # A gradient whose true value is 0 is rounding error, and so are the last digits of very small ones.
        allowed = 1e-4 * largest + 1e-7 if largest > 1e-5 else 1e-5
        np.testing.assert_allclose(slope, expected, rtol=0, atol=allowed, err_msg=name)


@every_file
def test_moving_averages_after_a_step(compared: Compared) -> None:
    arrays, ours = compared
    told = {key.split("|")[1][:-2]: arrays[key] for key in arrays if key.startswith("train/after|")}
    for name, expected in told.items():
        # The mean of values that cancel each other is rounding error, about 3e-7 of inputs of size 1.
        np.testing.assert_allclose(ours.after[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
