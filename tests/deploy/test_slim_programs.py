"""Programs written for slim's model_deploy run unchanged, with variables of either generation."""

from __future__ import annotations

import cases
import numpy as np
import pytest

from yt8m.deploy import DeploymentConfig, create_clones, deploy, optimize_clones
from yt8m.lazy import tf

LABELS = np.array([[0], [1], [1], [0], [1], [1], [1], [1], [1], [1], [1], [0], [0], [1], [0], [0]], np.float32)
COLUMNS = np.array([0, 2, 3, 1, 2, 3, 2, 2, 3, 2, 2, 0, 1, 3, 1, 1])
ROWS = np.eye(4, dtype=np.float32)[COLUMNS]  # each label has two columns of its own


@pytest.fixture(autouse=True, params=cases.all_of([False], heavy=[True]), ids=["reference", "resource"])
def use_resource(request):
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=request.param):
        tf.set_random_seed(0)
        yield request.param


def normalised(inputs):
    """Batch norm whose update ops are in the collection; the averages decay by 0.1."""
    with tf.variable_scope("BatchNorm"):
        offset = tf.get_variable("beta", [4], initializer=tf.zeros_initializer())
        mean = tf.get_variable("moving_mean", [4], initializer=tf.zeros_initializer(), trainable=False)
        variance = tf.get_variable("moving_variance", [4], initializer=tf.ones_initializer(), trainable=False)
        of_batch = tf.nn.moments(inputs, [0])
        for average, value in zip((mean, variance), of_batch, strict=True):
            update = tf.assign_sub(average, 0.9 * (average - value))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return tf.nn.batch_normalization(inputs, *of_batch, offset, None, 1e-3)


def classifier(inputs, labels):
    with tf.variable_scope(None, "Classifier"):
        hidden = normalised(inputs)
        weights = tf.get_variable("weights", [4, 1], initializer=tf.zeros_initializer())
        bias = tf.get_variable("biases", [1], initializer=tf.zeros_initializer())
        predictions = tf.sigmoid(tf.matmul(hidden, weights) + bias, name="predictions")
        tf.losses.log_loss(labels, predictions)
        return predictions


def cloned(config):
    return create_clones(config, classifier, [tf.constant(ROWS), tf.constant(LABELS)])


def read_from(variable):
    """Where a variable is read; TensorFlow reads a resource on the device of its handle."""
    return variable.handle.device if hasattr(variable, "handle") else variable.value().device


SERVERS = DeploymentConfig(2, num_ps_tasks=2)


@pytest.mark.parametrize(
    ("config", "prefixes", "clones", "variables"),
    [
        (DeploymentConfig(), [""], ["/device:GPU:0"], ["/device:CPU:0"]),
        (
            DeploymentConfig(4),
            [f"clone_{i}/" for i in range(4)],
            [f"/device:GPU:{i}" for i in range(4)],
            ["/device:CPU:0"],
        ),
        (DeploymentConfig(num_ps_tasks=1), [""], ["/job:worker/device:GPU:0"], ["/job:ps/task:0/device:CPU:0"]),
        (
            SERVERS,
            ["clone_0/", "clone_1/"],
            ["/job:worker/device:GPU:0", "/job:worker/device:GPU:1"],
            [f"/job:ps/task:{i}/device:CPU:0" for i in range(2)],
        ),
    ],
)
def test_names_and_devices_of_clones(config, prefixes, clones, variables):
    made = cloned(config)
    assert [clone.outputs.op.name for clone in made] == [f"{p}Classifier/predictions" for p in prefixes]
    assert [clone.scope for clone in made] == prefixes
    assert [clone.device for clone in made] == clones
    assert [clone.outputs.device for clone in made] == clones
    placed = tf.global_variables()
    assert len(placed) == 5
    assert {variable.device for variable in placed} == set(variables)
    assert [read_from(variable) for variable in placed] == [variable.device for variable in placed]
    assert len(tf.losses.get_losses()) == len(made)
    for clone in made:
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS, clone.scope)) == 2


@pytest.mark.parametrize(
    ("config", "gradients"),
    [
        (DeploymentConfig(), "/device:GPU:0"),
        (DeploymentConfig(4), ""),
        (DeploymentConfig(4, clone_on_cpu=True), ""),
        (DeploymentConfig(num_ps_tasks=1), "/job:worker/device:GPU:0"),
    ],
)
def test_a_gradient_stays_on_a_lone_clone_and_a_sum_goes_where_the_caller_says(config, gradients):
    loss, pairs = optimize_clones(cloned(config), tf.train.GradientDescentOptimizer(1.0))
    assert loss.op.name == "total_loss"
    assert {variable for _, variable in pairs} == set(tf.trainable_variables())
    assert {gradient.device for gradient, _ in pairs} == {gradients}
    names = {gradient.op.name for gradient, _ in pairs}
    summed = {f"{variable.op.name}/sum_grads" for variable in tf.trainable_variables()}
    assert names == summed if config.num_clones > 1 else not names & summed


@pytest.mark.parametrize("clones", [1, 2])
def test_a_loss_or_a_summary_alone_changes_no_variable_and_train_op_alone_the_averages(clones):
    model = deploy(
        DeploymentConfig(clones, clone_on_cpu=True),
        classifier,
        [ROWS, LABELS],
        optimizer=tf.train.GradientDescentOptimizer(1.0),
        summarize_gradients=True,
    )
    names = [tensor.op.name for tensor in (model.train_op, model.total_loss, model.summary_op)]
    assert names == ["train_op", "total_loss", "summary_op/summary_op"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        before = session.run(variables)
        first, _ = session.run(model.total_loss), session.run(model.summary_op)
        for name, value in session.run(variables).items():
            np.testing.assert_array_equal(value, before[name], err_msg=name)
        for _ in range(10):
            session.run(model.train_op)
        assert session.run(model.total_loss) < first / 5
        after = session.run(variables)
    np.testing.assert_allclose(after["Classifier/BatchNorm/moving_mean"], ROWS.mean(0), rtol=1e-5)
    np.testing.assert_allclose(after["Classifier/BatchNorm/moving_variance"], ROWS.var(0), rtol=1e-5)
    assert after["global_step"] == 10


@pytest.mark.parametrize("train", [False, True])
def test_no_gpu_computes_a_summary(train):
    def model():
        weights = tf.get_variable("weights", [20, 30], regularizer=tf.nn.l2_loss)
        return tf.matmul(tf.ones([10, 20]), weights)

    optimizer = tf.train.GradientDescentOptimizer(1.0) if train else None
    inputs = deploy(DeploymentConfig(2), model, optimizer=optimizer).summary_op.op.inputs
    assert [tensor.op.type for tensor in inputs] == ["ScalarSummary"] * 2
    assert [tensor.device for tensor in inputs] == ["/device:CPU:0"] * 2


@pytest.mark.parametrize("clones", [1, 2, 3])
@pytest.mark.parametrize("train", [False, True])
def test_all_regularisation_counts_once(clones, train):
    penalty = lambda weights: 5.0 * tf.reduce_sum(weights)  # noqa: E731
    outside = tf.get_variable("outside", initializer=[2.0], regularizer=penalty)
    by_hand = 100.0 * tf.reduce_sum(outside)
    for _ in range(2):
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, by_hand)

    def model():
        inside = tf.get_variable("inside", initializer=[3.0], regularizer=penalty)
        tf.losses.add_loss(2.0 * tf.reduce_sum(inside) + 3.0 * tf.reduce_sum(outside))
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, 1000.0 * tf.reduce_sum(inside))

    rate = 2.0**-10
    optimizer = tf.train.GradientDescentOptimizer(rate) if train else None
    built = deploy(DeploymentConfig(clones, clone_on_cpu=True), model, optimizer=optimizer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        total, summary = session.run([built.total_loss, built.summary_op])
        assert total == pytest.approx(6 + 6 + 10 + 200 + 15 + 3000)
        values = {value.tag: value.simple_value for value in tf.Summary.FromString(summary).value}
        scope = "clone_0/" if clones > 1 else ""
        assert values[f"{scope}Losses/regularization_loss"] == pytest.approx(10 + 200 + 15 + 3000)
        if train:
            assert session.run(built.train_op) == total
            inside = next(variable for variable in tf.global_variables() if variable.op.name == "inside")
            found = session.run([outside, inside])
            np.testing.assert_allclose(found[0], [2 - rate * (3 + 5 + 100)], rtol=1e-6)
            np.testing.assert_allclose(found[1], [3 - rate * (2 + 5 + 1000)], rtol=1e-6)


def test_a_weight_in_the_penalty_alone_is_trained_by_two_clones(caplog):
    def model():
        loss = tf.get_variable("in_loss", initializer=[1.0])
        tf.get_variable("in_penalty", initializer=[4.0], regularizer=tf.nn.l2_loss)
        tf.get_variable("in_neither", initializer=[7.0])
        tf.losses.add_loss(tf.reduce_sum(loss))

    config = DeploymentConfig(2, clone_on_cpu=True)
    built = deploy(config, model, optimizer=tf.train.GradientDescentOptimizer(0.5))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(built.train_op)
        found = session.run({variable.op.name: variable for variable in tf.trainable_variables()})
    assert found == {"in_loss": [0.5], "in_penalty": [2.0], "in_neither": [7.0]}
    assert "The loss has no gradient for in_neither: not trained." in caplog.messages


@pytest.mark.parametrize("clones", [1, 2])
def test_the_summary_covers_the_input_every_clone_and_the_total(clones):
    tf.summary.scalar("queue", tf.constant(0.25))
    losses = iter([2.0, 6.0])

    def model():
        weights = tf.get_variable("w", initializer=[3.0], regularizer=tf.nn.l2_loss)
        tf.losses.add_loss(next(losses) * tf.reduce_sum(weights))
        tf.summary.scalar("weight", weights[0])

    built = deploy(DeploymentConfig(clones, clone_on_cpu=True), model)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        summary = session.run(built.summary_op)
    expected = {
        1: {"weight": 3, "Losses/clone_loss": 6, "Losses/regularization_loss": 4.5, "total_loss_1": 10.5},
        2: {
            "clone_0/weight": 3,
            "clone_0/Losses/clone_0//clone_loss": 3,
            "clone_1/Losses/clone_1//clone_loss": 9,
            "clone_0/Losses/regularization_loss": 4.5,
            "total_loss_1": 16.5,
        },
    }
    found = {value.tag: value.simple_value for value in tf.Summary.FromString(summary).value}
    assert found == {"queue": 0.25, **expected[clones]}


@pytest.mark.parametrize("clones", [1, 2])
def test_a_session_without_a_configuration_runs_clones_whose_gpus_do_not_exist(clones, caplog):
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("there is a GPU")
    model = deploy(DeploymentConfig(clones), classifier, [ROWS, LABELS], optimizer=tf.train.AdamOptimizer(0.1))
    lines = [line for line in caplog.messages if "GPUs" in line]
    (line,) = lines
    assert line.startswith(f"{clones} of {clones} clones are placed on GPUs that TensorFlow does not see")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run(model.train_op) for _ in range(5)]
    assert losses[-1] < losses[0]


def test_a_clone_with_another_output_keeps_what_it_added():
    def of(value):
        return create_clones(DeploymentConfig(clone_on_cpu=True), lambda: tf.losses.add_loss(tf.constant(value)))[0]

    of(2.0)
    clone = of(3.0)._replace(outputs="logits")
    assert tuple(clone) == ("logits", "", "/device:CPU:0")
    total, _ = optimize_clones([clone], tf.train.GradientDescentOptimizer(1.0))
    with tf.Session() as session:
        assert session.run(total) == 3.0
