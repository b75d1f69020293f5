from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.options import option
from yt8m.types import ModelOutput


class Published:
    """A model in the published style: no dataclass, a dict back."""

    def create_model(self, model_input: Any, vocab_size: int, **unused_params: Any) -> dict[str, Any]:
        return {"predictions": tf.zeros([tf.shape(model_input)[0], vocab_size])}


@dataclass(frozen=True)
class Own(models.BaseModel):
    sizes: tuple[int, ...] = option((), "sizes")
    width: float = option(1.0, "a width", maximum=2)
    deep: bool = option(False, "deep")


def test_names_and_get() -> None:
    assert {"LogisticModel", "MoeModel", "FrameLevelLogisticModel"} <= set(models.names())
    assert models.get("MoeModel").level == "video"
    assert models.get("FrameLevelLogisticModel").level == "frame"
    with pytest.raises(UsageError, match="did you mean LogisticModel"):
        models.get("logisticmodle")


def test_hyper_parameters_are_declared() -> None:
    declared = models.hyper_parameters(models.get("MoeModel"))
    assert list(declared) == ["moe_num_mixtures", "l2_penalty"]
    assert declared["moe_num_mixtures"][:2] == (int, 2)
    assert "experts" in declared["moe_num_mixtures"].help
    assert models.hyper_parameters(Published) == {}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("MoeModel", {"moe_num_mixture": 3}, "did you mean moe_num_mixtures"),
        ("MoeModel", {"moe_num_mixtures": 0}, "moe_num_mixtures must be at least 1; it is 0"),
        ("MoeModel", {"moe_num_mixtures": True}, "moe_num_mixtures must be an int"),
        ("MoeModel", {"moe_num_mixtures": 2.5}, "moe_num_mixtures must be an int"),
        ("MoeModel", {"l2_penalty": float("nan")}, "l2_penalty must be at least 0"),
        (f"{__name__}:Own", {"deep": 1}, "deep must be a bool"),
        (f"{__name__}:Own", {"width": 3}, "width must be at most 2"),
        (f"{__name__}:Own", {"sizes": ["a"]}, "sizes must be a tuple of int"),
        (f"{__name__}:Published", {"cells": 1}, "no hyper-parameter 'cells'. It has: none"),
    ],
)
def test_refusals(name: str, values: dict[str, Any], message: str) -> None:
    sys.modules.setdefault(__name__, sys.modules[Own.__module__])
    with pytest.raises(UsageError, match=message):
        models.create(name, values)


def test_lists_become_tuples_and_ints_serve_as_floats() -> None:
    own = models.create(f"{__name__}:Own", {"sizes": [3, 4], "width": 2})
    assert own == Own(sizes=(3, 4), width=2.0)


def test_a_published_model_works() -> None:
    with tf.Graph().as_default():
        output = models.create(f"{__name__}:Published").create_model(
            tf.ones([2, 3]), vocab_size=4, num_frames=None, is_training=True, labels=None
        )
        assert ModelOutput.of(output).predictions.shape.as_list() == [2, 4]


def test_hyper_parameters_cost_no_tensorflow() -> None:
    code = (
        "import sys; from yt8m import losses, models\n"
        "for n in models.names(): models.hyper_parameters(models.get(n)); models.create(n)\n"
        "for n in losses.names(): losses.create(n)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
