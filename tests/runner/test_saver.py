"""How the variables are checked before they are saved, and in which order the files of a save are sent."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
from collections.abc import Iterator

import pytest

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import saver

_SIZES = {"a": 10, "b": 20, "c": 5, "d": 30, "e": 1}  # floats of four bytes


@pytest.fixture
def variables() -> Iterator[dict[str, tf.Variable]]:
    with tf.Graph().as_default():
        tf.get_variable("count", [], tf.int64, trainable=False, initializer=tf.zeros_initializer())
        yield {name: tf.get_variable(name, [size]) for name, size in _SIZES.items()}


def test_variables_are_read_in_groups_as_large_as_may_be_and_each_once(variables: dict[str, tf.Variable]) -> None:
    groups = [[one.op.name for one in group] for group in saver._split_into_groups(list(variables.values()), 100)]
    assert groups == [["a"], ["b", "c"], ["d"], ["e"]]


@pytest.mark.promise("N1")
@pytest.mark.parametrize("name", _SIZES)
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_the_variable_that_is_not_finite_is_named_in_any_group(
    variables: dict[str, tf.Variable], name: str, value: float
) -> None:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        saver._check_finite(session, tf.global_variables(), 100)
        variables[name].load([0.0] * (_SIZES[name] - 1) + [value], session)
        with pytest.raises(RunError, match=f"the variable {name} is not finite"):
            saver._check_finite(session, tf.global_variables(), 100)


@pytest.mark.promise("N1")
@pytest.mark.parametrize(("name", "step", "is_refused"), [("a", 0, True), ("a/Adam", 0, False), ("a/Adam", 5, True)])
def test_only_what_the_start_of_a_run_cannot_have_damaged_goes_unchecked_then(
    variables: dict[str, tf.Variable], tmp_path: pathlib.Path, name: str, step: int, is_refused: bool
) -> None:
    slot = tf.get_variable("a/Adam", [10], trainable=False, initializer=tf.zeros_initializer())
    run_saver = saver.RunSaver(str(tmp_path), tf.train.Saver(max_to_keep=None), 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        {**variables, "a/Adam": slot}[name].load([float("nan")] * 10, session)
        refusal = pytest.raises(RunError, match=f"the variable {name} is not finite")
        with refusal if is_refused else contextlib.nullcontext():
            run_saver.save(session, step)
    assert (tmp_path / f"model.ckpt-{step}.index").exists() != is_refused


def test_a_bucket_gets_position_data_index_and_meta_graph_in_this_order() -> None:
    """A checkpoint counts from its index on, so all that it needs is sent before."""
    sent = ["input-7.json", "input-7.index", "model.ckpt-7.data-0-of-1", "model.ckpt-7.index", "model.ckpt-7.meta"]
    for names in itertools.permutations(sent):
        assert sorted(names, key=saver._upload_order) == sent


def test_the_meta_graph_is_made_again_only_for_a_graph_that_has_changed(
    variables: dict[str, tf.Variable], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = tf.train.Saver(max_to_keep=None)
    export, made = wrapped.export_meta_graph, []
    monkeypatch.setattr(wrapped, "export_meta_graph", lambda: made.append(export()) or made[-1])
    run_saver = saver.RunSaver(str(tmp_path), wrapped, 3, is_own=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in (1, 2, 3, 4):
            if step == 3:
                tf.add_to_collection("mine", variables["a"].name)
            if step == 4:
                tf.zeros([], name="added")
            run_saver.save(session, step)
    files = [(tmp_path / f"model.ckpt-{step}.meta").read_bytes() for step in (2, 3, 4)]
    assert len(made) == 3
    assert files == [meta_graph.SerializeToString() for meta_graph in made]
    last = tf.MetaGraphDef.FromString(files[-1])
    assert list(last.collection_def["mine"].bytes_list.value) or list(last.collection_def["mine"].node_list.value)
    assert "added" in {node.name for node in last.graph_def.node}
