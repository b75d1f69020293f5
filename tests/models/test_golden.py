"""The forward passes of the published models."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden
from models.golden_models import assert_matches, load_variables, run_golden

from yt8m import models
from yt8m.lazy import tf
from yt8m.models.layers import Net

DBOF = {"dbof_cluster_size": 16, "dbof_hidden_size": 12, "iterations": 6}
IN_ORDER = {**DBOF, "iterations": 12, "sample_random_frames": False}
LOGISTIC = {"video_level_classifier_model": "LogisticModel"}
PLAIN = {"dbof_pooling_method": "average", "dbof_activation": "relu6", "dbof_add_batch_norm": False, **LOGISTIC}

CASES = {
    "logistic": ("LogisticModel", {}),
    "moe": ("MoeModel", {"moe_num_mixtures": 2}),
    "moe_mix4_l2": ("MoeModel", {"moe_num_mixtures": 4, "l2_penalty": 1e-3}),
    "framelogistic": ("FrameLevelLogisticModel", {}),
    "lstm": ("LstmModel", {"lstm_cells": 8, "lstm_layers": 2}),
    "lstm1_logistic": ("LstmModel", {"lstm_cells": 8, "lstm_layers": 1, **LOGISTIC}),
    "dbof_const": ("DbofModel", DBOF),
    "dbof_sequence": ("DbofModel", IN_ORDER),
    "dbof_avg_relu6_nobn": ("DbofModel", {**IN_ORDER, **PLAIN}),
}


@pytest.mark.parametrize("case", CASES)
def test_forward_pass(case: str) -> None:
    name, hyper_parameters = CASES[case]
    assert_matches(*run_golden(case, models.create(name, hyper_parameters)))


def test_dbof_behind_its_sampling() -> None:
    arrays = np.load(golden("model_dbof.npz"))
    model = models.create("DbofModel", DBOF)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("tower"):
            net = Net(is_training=False)
            valid = tf.constant(arrays["num_frames"] > 0)
            output = net.finish(model.classify_sample(net, tf.constant(arrays["sampled_input"]), valid, 10))
        load_variables(session, arrays)
        predictions, regularization = session.run([output.predictions, output.regularization_loss])
    np.testing.assert_allclose(predictions, arrays["predictions"], rtol=1e-6)
    np.testing.assert_allclose(regularization, arrays["regularization_loss"], rtol=1e-6)


def test_dbof_in_training_moves_its_averages() -> None:
    arrays, got = run_golden("dbof_const_train", models.create("DbofModel", DBOF), is_training=True)
    assert_matches(arrays, got)
    moved = [key for key in arrays if key.startswith("after:")]
    assert len(moved) == 6
    for key in moved:
        np.testing.assert_allclose(got["after"][key[len("after:") :]], arrays[key], rtol=1e-6, atol=1e-8)
