"""The same training through `deploy`: several clones, and a cluster of processes over loopback."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from cifar_small import SameBatch, random_rows

from examples.cifar10 import deployed, generated
from examples.cifar10 import eval as evaluation
from examples.cifar10.config import DeployConfig, EvalConfig, TrainConfig
from examples.cifar10.data import TEST_FILE, TRAIN_FILES, prepare
from examples.cifar10.modeler import CifarModeler
from yt8m import graph
from yt8m.deploy import DeploymentConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf

ROOT = pathlib.Path(__file__).resolve().parents[3]
OPTIMIZER = TrainConfig(moving_average_decay=0.5).optimizer()


def step(clones, through_deploy=True):
    """All variables after a step on the same eight rows."""
    images, labels = random_rows(8)
    inputter = SameBatch(images, labels, 8 // clones)
    deployment = DeploymentConfig(clones, spread_on_cpu=True)
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        if through_deploy:
            train_op, model = deployed.build(deployment, inputter, OPTIMIZER)
            start, feeds, total = tf.tables_initializer(), {}, model.total_loss
        else:
            ops = graph.build(inputter, CifarModeler(), deployment, OPTIMIZER, split=False)
            train_op, total = ops.train_op, ops.total_loss
            start, feeds = ops.input.initializer, {ops.input.files: inputter.files()}
        names = {v.op.name: v for v in tf.trainable_variables()}
        with tf.Session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            # The two ways count ops differently, so the seeds of their first weights differ.
            for place, (_, variable) in enumerate(sorted(names.items())):
                generator = np.random.default_rng(place)
                variable.load(generator.normal(0, 0.05, variable.shape.as_list()), session)
            session.run(start, feeds)
            loss, _ = session.run([total, train_op])
            return loss, session.run(names), int(session.run(tf.train.get_global_step()))


@pytest.mark.heavy
@pytest.mark.parametrize("clones", [2, 1, 4])
def test_deploy_takes_the_step_that_the_runner_takes(clones):
    loss, found, count = step(clones)
    expected_loss, expected, _ = step(1, through_deploy=False)
    assert count == 1
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        ({"job_name": "chief"}, "--job_name=chief: expected ps or worker"),
        ({"job_name": "ps"}, "a cluster needs --job_name, --ps_hosts and --worker_hosts"),
        ({"ps_hosts": ("a:1",), "worker_hosts": ("b:1",)}, "a cluster needs --job_name"),
        (
            {"job_name": "worker", "task_index": 1, "ps_hosts": ("a:1",), "worker_hosts": ("b:1",)},
            r"--task_index=1: .*less than 1\b",
        ),
    ],
)
def test_half_a_cluster_is_refused(flags, refusal):
    with pytest.raises(UsageError, match=refusal):
        DeployConfig(**flags)


def hosts(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


@contextlib.contextmanager
def process(log, *flags):
    """`python -m examples.cifar10.deployed`; its log is a file, so that no pipe can fill."""
    with log.open("w") as output:
        command = [sys.executable, "-m", "examples.cifar10.deployed", "--generated", *flags]
        started = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def wait_for(text, log, started):
    """Waits until the process has written `text`."""
    with log.open() as lines:
        while started.poll() is None:
            line = lines.readline()
            if text in line:
                return
            if not line:
                time.sleep(0.05)  # the file's end, for now
    raise AssertionError(f"{text!r} was never written:\n{log.read_text()}")


@pytest.mark.heavy
@pytest.mark.long
def test_two_workers_train_the_variables_of_a_server_and_all_end(tmp_path):
    server, *workers = hosts(3)
    data = f"--data_dir={tmp_path / 'data'}"
    cluster = [f"--ps_hosts={server}", f"--worker_hosts={','.join(workers)}", "--batch_size=16", data]
    cluster += [f"--train_dir={tmp_path / 'run'}", "--max_steps=200", "--num_gpus=2"]
    cluster += ["--base_learning_rate=0.05"]
    prepare(EvalConfig(data_dir=str(tmp_path / "data"), generated=True))
    logs = [tmp_path / name for name in ("ps.log", "first.log", "second.log")]
    with process(logs[0], "--job_name=ps", *cluster) as ps, process(logs[1], "--job_name=worker", *cluster) as first:
        # A worker that comes before the variables are there looks again only after half a minute.
        wait_for("Done running local_init_op", logs[1], first)
        with process(logs[2], "--job_name=worker", "--task_index=1", *cluster) as second:
            assert [each.wait() for each in (first, second, ps)] == [0, 0, 0], logs[2].read_text()
    # However late it comes, it takes a step before it sees that the run is over.
    assert "total loss = " in logs[2].read_text()
    outcome = evaluation.evaluate(
        EvalConfig(train_dir=str(tmp_path / "run"), data_dir=str(tmp_path / "data"), generated=True)
    )
    assert outcome.global_step >= 200
    assert outcome.results["figures"]["accuracy"] > 0.3


@pytest.mark.heavy
def test_one_machine_trains_goes_on_and_fails_when_it_diverges(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generated, "RECORDS", 40)
    for index, name in enumerate([*TRAIN_FILES, TEST_FILE]):
        generated.make(str(tmp_path / "data" / "generated" / name), index, 40)
    for steps in (2, 3):
        flags = ["--num_gpus=2", "--batch_size=4", f"--max_steps={steps}", f"--data_dir={tmp_path / 'data'}"]
        assert deployed.main([*flags, "--generated", f"--train_dir={tmp_path / 'run'}"]) == 0
        newest = tf.train.latest_checkpoint(str(tmp_path / "run"))
        assert newest.endswith(f"model.ckpt-{steps}")
    too_high = ["--base_learning_rate=1e6", f"--train_dir={tmp_path / 'other'}", "--max_steps=50"]
    assert deployed.main(["--batch_size=4", f"--data_dir={tmp_path / 'data'}", *too_high]) == 1
    assert "--base_learning_rate=1000000.0 may be too high" in capsys.readouterr().err


@pytest.mark.heavy
def test_a_signal_ends_the_run_with_a_checkpoint(tmp_path):
    log, run = tmp_path / "log", tmp_path / "run"
    flags = ["--batch_size=4", "--log_every_n_steps=1", f"--data_dir={tmp_path / 'data'}"]
    with process(log, *flags, f"--train_dir={run}") as started:
        wait_for("global_step/sec", log, started)  # at least one step has been taken
        started.send_signal(signal.SIGTERM)
        assert started.wait() == 128 + signal.SIGTERM, log.read_text()
    reader = tf.train.load_checkpoint(str(run))
    assert reader.get_tensor("global_step") >= 1
