"""N clones equal one, no gradient waits for what it does not need, regularisation counts once."""

from __future__ import annotations

import cases
import numpy as np
import pytest
from linear_model import WEIGHTS, objective, optimized, reference

from yt8m.deploy import Clone, DeploymentConfig, Objective, create_clones, gradients_after, local, optimize_clones
from yt8m.lazy import tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as opened:
        yield opened


def sgd():
    return tf.train.GradientDescentOptimizer(1.0)


def ran(config, fetches):
    settings = config.session_config()
    settings.allow_soft_placement = False  # every op can run where it was put
    with tf.Session(config=settings) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


@pytest.mark.parametrize("closed_form", [False, True])
@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize(
    ("rows", "clones"), cases.all_of([(7, 3)], heavy=[(1, 2), (16, 2), (7, 1), (7, 2), (1, 3), (2, 3)])
)
def test_clones_equal_one_clone_on_the_same_rows(rows, clones, as_tensors, closed_form):
    config, loss, pairs = optimized(rows, clones, sgd(), as_tensors=as_tensors, closed_form=closed_form)
    assert [variable.op.name for _, variable in pairs] == ["w"]
    found_loss, found = ran(config, [loss, pairs[0][0]])
    expected_loss, expected = reference(rows)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found_loss, expected_loss, rtol=1e-6)


@pytest.mark.parametrize("clones", [1, 2])
def test_the_trajectory_of_adam_is_the_same(clones):
    optimizer = tf.train.AdamOptimizer(0.1)
    config, _, pairs = optimized(7, clones, optimizer)
    step = optimizer.apply_gradients(pairs)
    weights = tf.global_variables()[0]
    with tf.Session(config=config.session_config()) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(step)
        found = session.run(weights)
    np.testing.assert_allclose(found, adam(WEIGHTS, 7, 5, 0.1), atol=2e-6)


def adam(weights, rows, steps, rate):
    """Adam in NumPy (Kingma and Ba 2015, with TensorFlow's epsilon)."""
    first = second = 0.0
    for step in range(1, steps + 1):
        gradient = reference(rows, weights)[1]
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        size = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weights = weights - size * first / (np.sqrt(second) + 1e-8)
    return weights


def ancestors(tensor):
    seen, todo = set(), [tensor.op]
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [parent.op for parent in op.inputs] + list(op.control_inputs)
    return seen


@pytest.mark.parametrize("closed_form", [False, True])
def test_a_gradient_waits_for_no_loss_and_runs_no_update_op(closed_form):
    config, _ = local(1, 0)
    (clone,) = create_clones(config, lambda: objective(tf.ones([2, 4]), tf.ones([2, 3]), closed_form))
    share = tf.constant(0.5)
    loss, pairs = optimize_clones([clone], sgd(), weights=[share], objectives=[clone.outputs])
    upstream = ancestors(pairs[0][0])
    assert clone.outputs.loss.op not in upstream
    assert clone.outputs.regularization.op not in upstream
    (update,) = clone.collected(tf.GraphKeys.UPDATE_OPS)
    assert update not in upstream | ancestors(loss)
    ((gradient, _),) = gradients_after([update], pairs)
    assert update in ancestors(gradient)


def one_loss(factor=1.0):
    weights = tf.get_variable("w", initializer=[2.0, 4.0], regularizer=tf.nn.l2_loss)
    tf.losses.add_loss(factor * tf.reduce_sum(weights))
    tf.losses.add_loss(tf.reduce_sum(weights * weights))


@pytest.mark.parametrize("clones", [1, 2, 4])
def test_by_default_losses_are_averaged_and_regularisation_counted_once(clones):
    config, _ = local(clones, 0)
    loss, pairs = optimize_clones(create_clones(config, one_loss), sgd())
    assert loss.op.name == "total_loss"
    found_loss, found = ran(config, [loss, pairs[0][0]])
    np.testing.assert_allclose(found_loss, 6 + 20 + 10, rtol=1e-6)
    np.testing.assert_allclose(found, [1 + 4 + 2, 1 + 8 + 4], rtol=1e-6)


def test_given_regularisation_is_counted_once_whatever_the_weights():
    config, _ = local(2, 0)
    clones = create_clones(config, one_loss)
    extra = [3.0 * tf.reduce_sum(tf.trainable_variables()[0])]
    loss, pairs = optimize_clones(clones, sgd(), extra, weights=[0.25, 0.25])
    found_loss, found = ran(config, [loss, pairs[0][0]])
    np.testing.assert_allclose(found_loss, 0.5 * 26 + 18, rtol=1e-6)
    np.testing.assert_allclose(found, [0.5 * 5 + 3, 0.5 * 9 + 3], rtol=1e-6)
    loss, pairs = optimize_clones(clones, sgd(), [])
    assert ran(config, loss) == pytest.approx(26)


def test_weights_of_one_sum_the_clones():
    config, loss, pairs = optimized(8, 2, sgd(), weights=[1.0, 1.0])
    found_loss, found = ran(config, [loss, pairs[0][0]])
    expected_loss, expected = reference(8)  # two equal halves: twice their mean
    np.testing.assert_allclose(found_loss, 2 * expected_loss, rtol=1e-6)
    np.testing.assert_allclose(found, 2 * expected, atol=2e-6)


@pytest.mark.parametrize("weight", [0.0, "tensor"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_clone_of_weight_zero_adds_nothing_not_even_a_nan(weight, sparse):
    config, _ = local(2, 0)
    factors = iter([1.0, float("nan")])

    def model():
        weights = tf.get_variable("w", initializer=[[2.0], [4.0]])
        bias = tf.get_variable("b", initializer=1.0)
        rows = tf.gather(weights, [1]) if sparse else weights
        return Objective(next(factors) * (tf.reduce_sum(rows) + bias))

    clones = create_clones(config, model)
    weights = [1.0, tf.constant(0.0) if weight == "tensor" else weight]
    loss, pairs = optimize_clones(clones, sgd(), weights=weights, objectives=[c.outputs for c in clones])
    found_loss, found, bias = ran(config, [loss, *(tf.convert_to_tensor(g) for g, _ in pairs)])
    assert found_loss == (5.0 if sparse else 7.0)
    np.testing.assert_array_equal(found, [[0.0], [1.0]] if sparse else [[1.0], [1.0]])
    assert bias == 1.0


@pytest.mark.heavy
def test_embeddings_stay_sparse_and_equal_one_clone():
    ids = np.array([0, 2, 2, 1, 2, 0, 3], np.int32)
    found = []
    for count in (1, 3):
        with tf.Graph().as_default():
            config, _ = local(count, 0)
            parts = iter(np.array_split(ids, count))

            def model(parts=parts):
                part = next(parts)
                rows = tf.gather(tf.get_variable("e", initializer=np.eye(5, 2, dtype=np.float32)), part)
                return Objective(tf.reduce_mean(tf.reduce_sum(rows * rows + rows, 1)))

            clones = create_clones(config, model)
            weights = [tf.constant(len(part) / 7, tf.float32) for part in np.array_split(ids, count)]
            objectives = [clone.outputs for clone in clones]
            _, ((gradient, _),) = optimize_clones(clones, sgd(), weights=weights, objectives=objectives)
            assert isinstance(gradient, tf.IndexedSlices)
            found.append(ran(config, tf.convert_to_tensor(gradient)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_options_of_compute_gradients_are_taken():
    config, _ = local(1, 0)
    clones = create_clones(config, one_loss)
    tf.get_variable("unused", [])
    weights = tf.trainable_variables()[0]
    options = {"colocate_gradients_with_ops": True, "gate_gradients": tf.train.Optimizer.GATE_NONE}
    for named in ({"variables": [weights]}, {"var_list": [weights]}, {}):
        _, pairs = optimize_clones(clones, sgd(), **named, **options)
        assert [variable.op.name for _, variable in pairs] == ["w"]
    with pytest.raises(TypeError, match="no_such_option"):
        optimize_clones(clones, sgd(), no_such_option=1)


def test_clones_without_a_loss_give_nothing():
    clones = create_clones(DeploymentConfig(2, clone_on_cpu=True), lambda: tf.constant(1.0))
    assert optimize_clones(clones, sgd()) == (None, [])


def test_gradients_sit_on_their_clones_and_the_sum_where_asked():
    config = DeploymentConfig(2)
    clones = create_clones(config, one_loss)
    with tf.device(config.optimizer_device()):
        _, ((total, _),) = optimize_clones(clones, sgd())
    assert total.device == "/device:CPU:0"
    assert [gradient.device for gradient in total.op.inputs] == ["/device:GPU:0", "/device:GPU:1"]


def test_a_gradient_that_some_clones_have_is_summed_over_those(caplog):
    parts = iter([2.0, None, 3.0])

    def model():
        shared, unused = tf.get_variable("shared", []), tf.get_variable("unused", [])
        part = next(parts)
        return Objective(tf.identity(unused.shape.rank * 1.0) if part is None else shared * part)

    clones = create_clones(DeploymentConfig(3, clone_on_cpu=True), model)
    _, pairs = optimize_clones(clones, sgd(), objectives=[clone.outputs for clone in clones])
    assert [variable.op.name for _, variable in pairs] == ["shared"]
    assert ran(local(1, 0)[0], pairs[0][0]) == pytest.approx((2 + 3) / 3)
    (line,) = [record.getMessage() for record in caplog.records if "gradient" in record.getMessage()]
    assert "gradient for unused: not trained" in line


def test_refusals():
    clones = create_clones(DeploymentConfig(2, clone_on_cpu=True), lambda: tf.get_variable("shared", []))
    with pytest.raises(ValueError, match=r"weights has 1\b.*\b2 clones"):
        optimize_clones(clones, sgd(), weights=[1.0])
    with pytest.raises(ValueError, match=r"objectives has 3\b.*\b2 clones"):
        optimize_clones(clones, sgd(), objectives=[Objective()] * 3)
    with pytest.raises(ValueError, match="clones is empty"):
        optimize_clones([], sgd())


def test_clones_made_by_hand_are_gathered_by_scope():
    with tf.name_scope("mine") as scope:
        one_loss()
    loss, pairs = optimize_clones([Clone(None, scope, "/device:CPU:0")], sgd())
    found_loss, found = ran(local(1, 0)[0], [loss, pairs[0][0]])
    assert found_loss == pytest.approx(36)
    np.testing.assert_allclose(found, [7, 13], rtol=1e-6)
