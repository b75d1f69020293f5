"""A batch that was put in place a step ahead is the one that would have been read, at every step."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from graph.staged_toy import BATCH, EPOCHS, Training, until_error
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from laws import examples

from yt8m import graph
from yt8m.lazy import tf
from yt8m.runner.runner import explain, is_of_input


def names_of(rows: int) -> list[str]:
    return [str(row) for row in range(rows)]


@pytest.fixture
def training() -> Iterator[Callable[..., Training]]:
    """Made once for each kind; each run starts it anew."""
    made: dict[Any, Training] = {}

    def make(*kind: Any) -> Training:
        if kind not in made:
            made[kind] = Training(*kind)
        return made[kind]

    yield make
    for one in made.values():
        one.session.close()


@pytest.mark.parametrize(
    ("towers", "split", "numbered"),
    [
        (2, False, True),
        *(
            pytest.param(*kind, marks=pytest.mark.heavy)
            for kind in ((1, True, True), (2, True, False), (3, True, True))
        ),
    ],
)
@given(rows=st.integers(0, 14))
@example(rows=0)  # no step at all
@example(rows=1)  # fewer rows than towers
@example(rows=7)  # a last batch that is not full
@examples(3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_step_is_the_one_without(
    training: Callable[..., Training], towers: int, split: bool, numbered: bool, rows: int
) -> None:
    names = names_of(rows)
    found = training(towers, True, split, numbered).steps(names)
    assert found == training(towers, False, split, numbered).steps(names)
    if not split:
        return
    step = BATCH * towers
    rest = names * EPOCHS
    batches = [rest[at : at + step] for at in range(0, len(rest), step)]
    assert [[name.decode() for name in one[3]] for one in found[:-1]] == batches
    assert [one[6] for one in found[:-1]] == [one[3] for one in found[:-1]]
    if numbered:
        assert [one[7] for one in found[:-1]] == [max(map(int, batch)) for batch in batches]


def test_what_is_fetched_apart_takes_one_batch_each(training: Callable[..., Training]) -> None:
    """Whoever asks for a part of a step takes all of it, on every device."""
    run = training(2, True)
    run.start(names_of(40))
    ops = run.ops
    fetched: list[Any] = [ops.reports["ids"], ops.train_op, ops.predict.labels, ops.total_loss]
    fetched += [ops.input.last_shard, ops.train_op, ops.train_op, ops.examples, ops.reports["ids"]]
    found = [run.session.run(one) for one in fetched]
    assert found[0].tolist() == [b"0", b"1", b"2", b"3"]
    assert found[4] == 4 * 4 + 3
    assert found[8].tolist() == [b"32", b"33", b"34", b"35"]


@pytest.mark.heavy
def test_the_input_begins_anew_without_what_was_put_in_place(training: Callable[..., Training]) -> None:
    run = training(2, True)
    run.start(names_of(12))
    run.step()
    run.session.run(run.ops.input.initializer, {run.ops.input.files: ["7", "8"]})
    assert run.step()[3] == [b"7", b"8", b"7", b"8"]


@pytest.mark.heavy
@pytest.mark.parametrize("towers", [1, 2])
def test_what_the_input_refuses_is_told_in_the_same_words(training: Callable[..., Training], towers: int) -> None:
    told, steps = [], []
    for ahead in (False, True):
        run, found = training(towers, ahead), []
        run.start([*names_of(5 * towers), "bad"])
        error = until_error(lambda run=run, found=found: found.append(run.step()))
        assert is_of_input(error)
        told.append(explain(error))
        steps.append(len(found))
    assert "could not correctly convert string: bad" in told[0]
    assert told[0] == told[1]
    assert steps == [2, 1]  # read a step ahead, it is found a step ahead


@pytest.mark.heavy
@pytest.mark.parametrize("towers", [1, 2])
def test_a_meta_graph_goes_on_as_the_graph_that_was_saved(
    training: Callable[..., Training], tmp_path: pathlib.Path, towers: int
) -> None:
    first, again = training(towers, True), training(towers, False)
    first.start(names_of(6))
    first.step()
    with first.graph.as_default():
        path = first.saver.save(first.session, str(tmp_path / "model.ckpt"))
    again.session.close()
    with tf.Graph().as_default() as imported:
        again.ops = graph.restore_train(f"{path}.meta")
        again.saver = tf.train.Saver(tf.global_variables())
        again.session = tf.Session(graph=imported, config=again.config)
    # The new session has nothing in place: a step waits for no other session's.
    found = []
    for run in (first, again):
        with run.session.graph.as_default():
            run.saver.restore(run.session, path)
        run.session.run(run.ops.input.initializer, {run.ops.input.files: names_of(5)})
        found.append([run.step() for _ in range(2)])
    assert found[0] == found[1]
    assert found[0][0][3] == [b"%d" % n for n in range(BATCH * towers)]


def test_the_gradients_wait_for_no_copy(training: Callable[..., Training]) -> None:
    """Of the next batch: it is the step that ends behind both."""
    run = training(2, True)
    puts = {op for op in run.graph.get_operations() if op.type == "Stage" and "/next/" in op.name}
    assert len(puts) == 3
    assert puts <= _behind(run.ops.train_op)
    assert puts <= _behind(run.ops.step.op)
    assert puts.isdisjoint(_behind(run.ops.gradient_norms.op))
    assert puts.isdisjoint(_behind(run.ops.total_loss.op))


def _behind(op: tf.Operation) -> set[tf.Operation]:
    """All ops that `op` waits for."""
    found: set[tf.Operation] = set()
    left = [op]
    while left:
        one = left.pop()
        new = {tensor.op for tensor in one.inputs}.union(one.control_inputs) - found
        found |= new
        left += new
    return found
