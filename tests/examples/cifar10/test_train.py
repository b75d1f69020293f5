"""Training, evaluation and inference through the runner, on a small set."""

from __future__ import annotations

import csv
import dataclasses
import pathlib
import re
import types

import numpy as np
import pytest
from cifar_small import RECORDS, small_set, stored

from examples.cifar10 import deployed, generated, infer, train
from examples.cifar10 import eval as evaluation
from examples.cifar10.config import DeployConfig, EvalConfig, InferenceConfig, TrainConfig
from yt8m import deploy
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import StepValues


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A set of 40 records a file in place of 2,000."""
    monkeypatch.setattr(generated, "RECORDS", RECORDS)
    monkeypatch.setattr(generated.make, "__defaults__", (RECORDS,))


def config(tmp_path, **changes):
    asked = TrainConfig(
        train_dir=str(tmp_path / "run"),
        data_dir=str(tmp_path / "data"),
        generated=True,
        batch_size=4,
        num_gpus=2,
        max_steps=4,
        log_every_n_steps=2,
        save_summary_steps=2,
    )
    return dataclasses.replace(asked, **changes)


def of(cls, asked, **changes):
    """The eval or inference config for a training run."""
    return cls(train_dir=asked.train_dir, data_dir=asked.data_dir, generated=True, batch_size=15, **changes)


def weights(asked, step):
    reader = tf.train.load_checkpoint(f"{asked.train_dir}/model.ckpt-{step}")
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def tags(asked):
    """What the event file of a run has."""
    (path,) = pathlib.Path(asked.train_dir).glob("events.*")
    return {value.tag for event in tf.train.summary_iterator(str(path)) for value in event.summary.value}


@pytest.mark.heavy
def test_a_run_trains_logs_and_saves_then_evaluates_and_infers(tmp_path, caplog):
    asked = config(tmp_path)
    with caplog.at_level("INFO"):
        outcome = train.train(asked)
    assert (outcome.exit_code, outcome.global_step) == (0, 4)
    pattern = r"step [24], loss = \d\.\d\d \(\d+\.\d examples/sec; \d+\.\d{3} sec/batch\)"
    assert len([record for record in caplog.records if re.fullmatch(pattern, record.getMessage())]) == 2
    assert {"cross_entropy", "local3/weight_decay", "conv1/weights", "conv1/weights/gradient"} <= tags(asked)
    assert {"model/Training_Loss", "model/Training_accuracy", "global_step/Examples/Second"} <= tags(asked)
    saved = weights(asked, 4)
    assert "conv2/weights/ExponentialMovingAverage" in saved
    assert saved["global_step"] == 4

    figures = evaluation.evaluate(of(EvalConfig, asked, num_gpus=2)).results["figures"]
    output = tmp_path / "predictions.csv"
    infer.infer(of(InferenceConfig, asked, output_file=str(output)))
    rows = list(csv.DictReader(output.open()))
    labels = stored(tmp_path / "data" / "generated", "test_batch.bin")[1]
    assert [int(row["index"]) for row in rows] == list(range(RECORDS))
    shares = np.array([[float(row[f"p{number}"]) for number in range(10)] for row in rows])
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
    best = np.array([int(row["class"]) for row in rows])
    assert figures["accuracy"] == pytest.approx(np.mean(best == labels))


@pytest.mark.heavy
def test_evaluation_reads_the_averages(tmp_path):
    asked = config(tmp_path)
    train.train(asked)
    before = evaluation.evaluate(of(EvalConfig, asked)).results["evaluator"]
    checkpoint = f"{asked.train_dir}/model.ckpt-4"
    values = weights(asked, 4)
    # With these averages the model always predicts class 3, so that prediction shows that they were read.
    values["softmax_linear/weights/ExponentialMovingAverage"][:] = 0
    values["softmax_linear/biases/ExponentialMovingAverage"][:] = 10.0 * (np.arange(10) == 3)
    with tf.Graph().as_default(), tf.Session() as session:
        held = [tf.Variable(value, name=name) for name, value in values.items()]
        session.run([variable.initializer for variable in held])
        tf.train.Saver(dict(zip(values, held, strict=True))).save(session, checkpoint, write_meta_graph=False)
    after = evaluation.evaluate(of(EvalConfig, asked)).results["figures"]
    assert before.get()["accuracy"] <= 1
    assert after["accuracy"] == pytest.approx(0.1)


@pytest.mark.heavy
def test_a_resumed_run_equals_an_unbroken_one_to_the_last_bit(tmp_path):
    unbroken = config(tmp_path, train_dir=str(tmp_path / "one"), exact_resume=True, max_steps=3)
    broken = dataclasses.replace(unbroken, train_dir=str(tmp_path / "two"))
    train.train(unbroken)
    train.train(dataclasses.replace(broken, max_steps=2))
    assert train.train(broken).global_step == 3
    first, second = weights(unbroken, 3), weights(broken, 3)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)


def test_a_cut_file_ends_the_run_before_a_step(tmp_path):
    asked = config(tmp_path)
    small_set(tmp_path)
    (tmp_path / "data" / "generated").mkdir(parents=True)
    whole = (tmp_path / "test_batch.bin").read_bytes()
    (tmp_path / "data" / "generated" / "data_batch_2.bin").write_bytes(whole[:-1])
    outcome = train.train(asked)
    assert outcome.exit_code == 1
    assert isinstance(outcome.error, RunError)
    assert "data_batch_2.bin is cut short" in outcome.message


def test_inference_without_a_checkpoint_leaves_no_file(tmp_path):
    output = tmp_path / "predictions.csv"
    with pytest.raises(RunError, match="no checkpoint in"):
        infer.infer(of(InferenceConfig, config(tmp_path), output_file=str(output)))
    assert not output.exists()


def test_a_run_saves_every_thousand_steps_and_can_log_where_ops_run():
    data = types.SimpleNamespace(is_generated=True, records_per_file=1)
    settings = train._runner_config(TrainConfig(log_device_placement=True), data)
    assert (settings.checkpoints.save_checkpoint_steps, settings.devices.log_device_placement) == (1000, True)
    placed = deployed._session_config(DeployConfig(log_device_placement=True), deploy.DeploymentConfig())
    assert placed.log_device_placement


def test_the_rate_falls_in_steps_of_epochs():
    optimizer = TrainConfig().optimizer()
    assert optimizer.optimizer == "GradientDescentOptimizer"
    assert optimizer.learning_rate_decay_examples == 350 * 50_000
    assert (optimizer.base_learning_rate, optimizer.learning_rate_decay) == (0.1, 0.1)
    assert optimizer.moving_average_decay == 0.9999


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            StepValues(7, loss=1.234, examples_per_second=640.0),
            "step 7, loss = 1.23 (640.0 examples/sec; 0.200 sec/batch)",
        ),
        (StepValues(7, loss=1.234), "step 7, loss = 1.23"),
        (StepValues(7), "step 7"),
    ],
)
def test_the_line_of_a_step(values, expected):
    assert train.format_line(values, batch_size=128) == expected


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--num_gpu=2"], "unknown flag --num_gpu; did you mean --num_gpus"),
        (["--num_gpus=0"], "--num_gpus must be at least 1; it is 0"),
        (["--generated", "--download"], "--generated and --download both name a set"),
        (["--generated=maybe"], "--generated=maybe: expected true or false"),
        (["--max_steps=5", "--max_steps=6"], "--max_steps is given twice"),
    ],
)
def test_wrong_flags_are_refused_in_one_line(tmp_path, capsys, words, refusal):
    assert train.main([f"--train_dir={tmp_path / 'run'}", *words]) == 2
    error = capsys.readouterr().err
    assert refusal in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_inference_has_no_flag_for_towers(capsys):
    assert infer.main(["--num_gpus=2"]) == 2
    assert "unknown flag --num_gpus" in capsys.readouterr().err


def test_help_lists_the_flags(capsys):
    with pytest.raises(SystemExit) as ended:
        evaluation.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--batch_size=N" in text
    assert "models:" not in text
