"""The forward passes of the published models."""

from __future__ import annotations

import pytest
from models.golden_models import assert_matches, run_golden

from yt8m import models

CASES = {
    "logistic": ("LogisticModel", {}),
    "moe": ("MoeModel", {"moe_num_mixtures": 2}),
    "moe_mix4_l2": ("MoeModel", {"moe_num_mixtures": 4, "l2_penalty": 1e-3}),
    "framelogistic": ("FrameLevelLogisticModel", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_forward_pass(case: str) -> None:
    name, hyper_parameters = CASES[case]
    assert_matches(*run_golden(case, models.create(name, hyper_parameters)))
