"""The tensors that cross devices in a training step: those of the small models here, at the size of a large batch."""

from __future__ import annotations

from typing import Any

import cases
import pytest
from contract.model_cases import CASES, quick

from benchmarks.copies import LARGE, SMALL_TENSOR, Copy, copies, floor, has_gpu_kernel, unsupported
from yt8m import models
from yt8m.lazy import tf

pytestmark = pytest.mark.long

ALLOWED = 1.05  # times the floor
MODELS: dict[str, dict[str, Any]] = {
    "DbofModel": {"dbof_cluster_size": 64, "dbof_hidden_size": 32},
    "NetVladModel": {"netvlad_cluster_size": 8, "netvlad_hidden_size": 16},
    "MoeModel": {"moe_num_mixtures": 2},
}


def total(crossing: list[Copy]) -> int:
    return sum(copy.bytes for copy in crossing if copy.bytes >= SMALL_TENSOR)


@pytest.mark.parametrize("name", cases.all_of(["MoeModel"], heavy=["DbofModel", "NetVladModel"]))
def test_two_towers_copy_nothing_twice(name: str) -> None:
    crossing, least = copies(name, 2, **MODELS[name]), floor(name, 2, **MODELS[name])
    assert least <= total(crossing) <= ALLOWED * least, crossing[:12]


@pytest.mark.heavy
def test_frames_of_which_few_are_picked_are_not_copied_ahead() -> None:
    settings = MODELS["DbofModel"]
    crossing, least = copies("DbofModel", 2, prefetch=True, **settings), floor("DbofModel", 2, **settings)
    assert least <= total(crossing) <= ALLOWED * least, crossing[:12]


@pytest.mark.heavy
def test_a_tower_picks_its_frames_on_its_own_device_where_they_are() -> None:
    """If many are picked, the batch is copied ahead: it goes there once, and no frame goes back to the host."""
    crossing = copies("DbofModel", 1, prefetch=True, **MODELS["DbofModel"], iterations=200)
    frames = [copy for copy in crossing if copy.dtype == "uint8"]
    assert {copy.target for copy in frames} == {1}
    assert [copy.shape for copy in frames] == [(*LARGE, 1024), (*LARGE, 128)]


def test_bytes_cannot_be_gathered_on_a_gpu_but_words_can() -> None:
    with tf.Graph().as_default():
        numbers = tf.zeros([2, 3], tf.int32)
        of_bytes, of_words = (
            tf.gather(tf.zeros([2, 5, 4], dtype), numbers, batch_dims=1) for dtype in (tf.uint8, tf.int32)
        )
        assert not has_gpu_kernel(of_bytes.op)
        assert has_gpu_kernel(of_words.op)
        assert has_gpu_kernel(tf.bitcast(of_words, tf.uint8).op)


@pytest.mark.parametrize("name", quick(["LogisticModel"], models.names()))
def test_every_op_of_a_tower_has_a_gpu_kernel(name: str) -> None:
    """Else its inputs would be copied to the host in every step, and its outputs back."""
    settings = {key: value for key, value in CASES[name].hyper_parameters.items() if key != "feature_sizes"}
    assert unsupported(name, **settings) == []
