"""The tensors that cross devices in a training step: those of the small models here, at the size of a large batch."""

from __future__ import annotations

from typing import Any

import cases
import pytest
from contract.model_cases import CASES, quick

from benchmarks.copies import LARGE, SMALL, STEPS, Crossing, copies, floor, has_gpu_kernel, unsupported, without_device
from yt8m import models
from yt8m.lazy import tf

pytestmark = pytest.mark.long

ALLOWED = 1.05  # times the floor
MOST_SMALL = 12  # tensors of less than 4 kB that a tower may copy
DBOF = {"dbof_cluster_size": 64, "dbof_hidden_size": 32}
# (model, whether batches are copied ahead, towers): two of each model, and all of some that differ most
TRAININGS = [
    (name, is_ahead, towers)
    for name in models.built_in_names()
    for is_ahead in (False, True)
    for towers in (1, 2, 4)
    if (is_ahead, towers) in ((False, 1), (True, 2))
    or name in ("LogisticModel", "DbofModel", "GatedMoeModel", "LstmModel", "TransformerModel")
]


def sizes(name: str) -> dict[str, Any]:
    return {key: value for key, value in CASES[name].hyper_parameters.items() if key != "feature_sizes"}


@pytest.mark.parametrize(("name", "is_ahead", "towers"), cases.only(TRAININGS, [("LogisticModel", True, 2)]))
def test_a_step_copies_nothing_twice_and_few_small_tensors(name: str, is_ahead: bool, towers: int) -> None:
    crossing, least = copies(name, towers, is_ahead, **sizes(name)), floor(name, towers, **sizes(name))
    copied = Crossing.of(crossing)
    assert least <= copied.bytes <= ALLOWED * least, crossing[:12]
    assert copied.small <= MOST_SMALL * towers, [copy.name for copy in crossing]
    # In the large batch a weight that is read twice hides behind all the frames.
    copied, least = Crossing.of(crossing, SMALL), floor(name, towers, SMALL, **sizes(name))
    assert copied.bytes <= ALLOWED * least, sorted(crossing, key=lambda copy: -copy.bytes(SMALL))


@pytest.mark.parametrize("name", cases.only(["GatedMoeModel", "MixNeXtVladModel"], ["GatedMoeModel"]))
def test_few_small_tensors_are_copied_if_towers_exchange_statistics(name: str) -> None:
    """At the sizes of YouTube-8M. What a normalisation exchanges is needed by the next, so it is not joined."""
    crossing = copies(name, 2, sync_batch_norm=True)
    assert Crossing.of(crossing).small <= 2 * MOST_SMALL, [copy.name for copy in crossing]


@pytest.mark.heavy
def test_a_tower_picks_its_frames_on_its_own_device_where_they_are() -> None:
    """If many are picked, the batch is copied ahead: it goes there once, and no frame goes back to the host."""
    crossing = copies("DbofModel", 1, prefetch=True, **DBOF, iterations=200)
    frames = [copy for copy in crossing if copy.dtype == "uint8"]
    assert {copy.target for copy in frames} == {1}
    assert [copy.shape() for copy in frames] == [(*LARGE, 1024), (*LARGE, 128)]


@pytest.mark.parametrize("name", quick(["DbofModel"], models.built_in_names()))
def test_every_op_of_a_step_has_a_device(name: str) -> None:
    assert without_device(name, **sizes(name)) == []


def test_bytes_cannot_be_gathered_on_a_gpu_but_words_can() -> None:
    with tf.Graph().as_default():
        numbers = tf.zeros([2, 3], tf.int32)
        of_bytes, of_words = (
            tf.gather(tf.zeros([2, 5, 4], dtype), numbers, batch_dims=1) for dtype in (tf.uint8, tf.int32)
        )
        assert not has_gpu_kernel(of_bytes.op.node_def)
        assert has_gpu_kernel(of_words.op.node_def)
        assert has_gpu_kernel(tf.bitcast(of_words, tf.uint8).op.node_def)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", quick(["LogisticModel"], models.built_in_names()))
def test_every_op_of_a_tower_has_a_gpu_kernel(name: str, step: str) -> None:
    """Else its inputs would be copied to the host in every step, and its outputs back."""
    assert unsupported(name, step, **sizes(name)) == []


@pytest.mark.heavy
def test_an_op_without_a_gpu_kernel_is_found_in_a_branch_of_a_tower(monkeypatch: pytest.MonkeyPatch) -> None:
    logistic = models.get("LogisticModel")
    forward = logistic.forward

    def forward_with_bytes(model: Any, net: Any, inputs: Any, *others: Any) -> Any:
        def gather_bytes() -> Any:
            return tf.cast(tf.gather(tf.zeros([5], tf.uint8), [0])[0], tf.float32)

        added = tf.cond(tf.size(inputs) > 0, gather_bytes, lambda: 0.0)
        return forward(model, net, inputs + added, *others)

    monkeypatch.setattr(logistic, "forward", forward_with_bytes)
    assert {line.partition(":")[0] for line in unsupported("LogisticModel")} == {"GatherV2"}
