"""Clones share variables, sit on their devices, and know what they added."""

from __future__ import annotations

import pytest

from yt8m.deploy import Clone, DeploymentConfig, create_clones, regularization_terms
from yt8m.lazy import tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as opened:
        yield opened


def linear(units=2):
    weights = tf.get_variable("w", [3, units], regularizer=tf.nn.l2_loss)
    return tf.matmul(tf.ones([1, 3], name="x"), weights, name="z")


def test_clones_share_variables_made_by_the_first():
    clones = create_clones(DeploymentConfig(3, spread_on_cpu=True), linear, [4], {})
    assert [variable.op.name for variable in tf.global_variables()] == ["w"]
    assert [clone.outputs.op.name for clone in clones] == ["clone_0/z", "clone_1/z", "clone_2/z"]
    assert [clone.scope for clone in clones] == ["clone_0/", "clone_1/", "clone_2/"]
    assert [clone.device for clone in clones] == [f"/device:CPU:{i}" for i in range(3)]
    assert [clone.outputs.device for clone in clones] == [f"/device:CPU:{i}" for i in range(3)]
    assert clones[0].outputs.shape == [1, 4]


def test_arguments_are_passed_on():
    clones = create_clones(DeploymentConfig(), lambda *args, **kwargs: (args, kwargs), (1, 2), {"k": 3})
    assert clones[0].outputs == ((1, 2), {"k": 3})


def test_one_clone_opens_no_scope():
    (clone,) = create_clones(DeploymentConfig(clone_on_cpu=True), linear)
    assert clone.scope == ""
    assert clone.outputs.op.name == "z"


def test_within_scopes():
    with tf.name_scope("outer"), tf.variable_scope("tower", auxiliary_name_scope=False):
        first = create_clones(DeploymentConfig(2), linear)
    with tf.name_scope("one"), tf.variable_scope("tower", reuse=True, auxiliary_name_scope=False):
        (second,) = create_clones(DeploymentConfig(), linear)
    assert [variable.op.name for variable in tf.global_variables()] == ["tower/w"]
    assert [clone.scope for clone in first] == ["outer/clone_0/", "outer/clone_1/"]
    assert (second.scope, second.outputs.op.name) == ("one/", "one/z")


def test_default_names_are_the_same_in_every_clone():
    def two_layers():
        for _ in range(2):
            with tf.variable_scope(None, "fully_connected"):
                linear()

    create_clones(DeploymentConfig(2), two_layers)
    names = [variable.op.name for variable in tf.global_variables()]
    assert names == ["fully_connected/w", "fully_connected_1/w"]


def test_a_variable_that_the_first_clone_did_not_make_is_refused():
    names = iter(["a", "b"])
    with pytest.raises(ValueError, match="b does not exist"):
        create_clones(DeploymentConfig(2), lambda: tf.get_variable(next(names), []))


@pytest.mark.parametrize(
    ("config", "device"),
    [
        (DeploymentConfig(2), "/device:CPU:0"),
        (DeploymentConfig(2, spread_on_cpu=True), "/device:CPU:0"),
        (DeploymentConfig(variables_on_clone=True), "/device:GPU:0"),
        (DeploymentConfig(clone_on_cpu=True, variables_on_clone=True), "/device:CPU:0"),
    ],
)
def test_variables_sit_on_the_variables_device(config, device):
    def model():
        made = tf.get_variable("a", []), tf.Variable(0.0), tf.get_variable("b", [], use_resource=False)
        return tf.add_n([tf.identity(variable) for variable in made])

    clones = create_clones(config, model)
    assert {variable.op.device for variable in tf.global_variables()} == {device}
    # The clone's device must not have reached the initial values, which sit with their variables.
    for op in tf.get_default_graph().get_operations():
        if "Initializer" in op.name:
            assert op.device in ("", device)
    assert clones[-1].outputs.device == clones[-1].device


def test_variables_go_round_the_servers_once_for_all_clones():
    def model():
        return [tf.identity(tf.get_variable(name, [])) for name in "abc"]

    config = DeploymentConfig(2, num_ps_tasks=2)
    clones = create_clones(config, model)
    placed = [variable.op.device for variable in tf.global_variables()]
    assert placed == [f"/job:ps/task:{i}/device:CPU:0" for i in (0, 1, 0)]
    for index, clone in enumerate(clones):
        assert {read.device for read in clone.outputs} == {f"/job:worker/device:GPU:{index}"}


def test_the_caching_device_is_that_of_the_scope():
    def model():
        return tf.get_variable("v", []).value()

    config = DeploymentConfig(2, num_ps_tasks=1)
    with tf.variable_scope("cached", caching_device=config.caching_device()):
        first, second = create_clones(config, model)
    assert first.outputs is second.outputs
    assert first.outputs.device == ""
    with tf.variable_scope("plain"):
        read, again = create_clones(config, model)
    assert read.outputs is not again.outputs


def regularized():
    output = linear()
    tf.losses.add_loss(tf.reduce_sum(output))
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.no_op("update"))
    tf.summary.scalar("mean", tf.reduce_mean(output))


@pytest.mark.parametrize("count", [1, 2])
def test_clones_know_what_they_added(count):
    tf.losses.add_loss(tf.constant(5.0))
    first = create_clones(DeploymentConfig(count, clone_on_cpu=True), regularized)
    with tf.variable_scope("other"):
        second = create_clones(DeploymentConfig(count, clone_on_cpu=True), regularized)
    for key in (tf.GraphKeys.LOSSES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES):
        found = [clone.collected(key) for clone in (*first, *second)]
        assert [len(items) for items in found] == [1] * (2 * count)
        assert len({item.name for items in found for item in items}) == 2 * count


def test_a_clone_is_a_tuple_of_three():
    (clone,) = create_clones(DeploymentConfig(clone_on_cpu=True), linear)
    outputs, scope, device = clone
    assert (outputs.op.name, scope, device) == ("z", "", "/device:CPU:0")
    assert Clone._fields == ("outputs", "scope", "device")
    assert Clone(outputs, scope=scope, device=device) == clone


def test_terms_that_every_clone_adds_are_its_own_and_all_others_count_once():
    terms = tf.GraphKeys.REGULARIZATION_LOSSES
    before = tf.constant(1.0, name="before")
    for _ in range(2):
        tf.add_to_collection(terms, before)

    def model():
        tf.add_to_collection(terms, tf.reduce_mean(linear(), name="activity"))

    once, own = regularization_terms(create_clones(DeploymentConfig(2, clone_on_cpu=True), model))
    assert [term.op.name for term in once] == ["before", "w/Regularizer/L2Loss"]
    assert [[term.op.name for term in of_one] for of_one in own] == [["clone_0/activity"], ["clone_1/activity"]]
    with tf.variable_scope("lone"):
        once, own = regularization_terms(create_clones(DeploymentConfig(clone_on_cpu=True), model))
    assert len(once) == 6
    assert own == [[]]


def test_a_clone_made_by_hand_is_searched_by_scope():
    with tf.name_scope("mine") as scope:
        mine = tf.constant(1.0)
    tf.losses.add_loss(mine)
    tf.losses.add_loss(tf.constant(2.0))
    assert Clone(None, scope, "").collected(tf.GraphKeys.LOSSES) == [mine]
    assert len(Clone(None, "", "").collected(tf.GraphKeys.LOSSES)) == 2
