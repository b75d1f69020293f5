"""Models and runs from other people: code is run only with permission; class names need no network."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import cases
import pytest
from golden_data import golden

from yt8m import models, train
from yt8m.command_line import cli, flags
from yt8m.config import run_dir
from yt8m.errors import UsageError
from yt8m.records import vocabulary
from yt8m.registry import TRUST_HELP
from yt8m.storage import own_runs

RECORDS = golden("checkpoint_logistic/test.tfrecord")
DATA = f"--eval_data_pattern={RECORDS}"
INPUT = f"--input_data_pattern={RECORDS}"
WARNING = "a model is a program that runs on this machine"
CODE = """
import pathlib
from yt8m.losses import get as get_loss
from yt8m.models import get as get_model
from yt8m.readers import YT8MAggregatedFeatureReader

pathlib.Path("imported").touch()

class Model(get_model("LogisticModel")): ...
class Loss(get_loss("CrossEntropyLoss")): ...
class Reader(YT8MAggregatedFeatureReader): ...
"""


@pytest.fixture(autouse=True)
def _recorded_data() -> None:
    """Skips the tests of this file where the data that they read are absent."""
    golden("checkpoint_logistic/test.tfrecord")


@pytest.mark.promise("X2")
def test_class_names_are_those_of_the_package_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*given: Any) -> None:
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    vocabulary.load.cache_clear()
    names = vocabulary.load()
    assert len(names) == 3862
    assert names.name(0) == "Game"


def train_words(folder: pathlib.Path | str, *more: str) -> list[str]:
    """A run of two checkpoints, as many as an average needs."""
    words = [f"--train_data_pattern={golden('checkpoint_logistic/train.tfrecord')}", f"--train_dir={folder}"]
    words += ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    return [*words, "--batch_size=16", "--max_steps=2", "--save_checkpoint_steps=1", "--num_epochs=9", *more]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of built-in names alone, with its inference model and its export."""
    folder = tmp_path_factory.mktemp("outside") / "run"
    assert train.main(train_words(folder, f"--export_dir={folder.parent}/export")) == 0
    assert cli.main(["eval", f"--train_dir={folder}", DATA, "--run_once"]) == 0
    return folder


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The current folder, which holds the module `pwn`; it is not imported yet."""
    (tmp_path / "pwn.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("pwn", None)


def brought(trained: pathlib.Path, here: pathlib.Path, change: Callable[[Any], None]) -> pathlib.Path:
    """A copy of the run, its config changed."""
    copy = here / "brought"
    shutil.copytree(trained, copy)
    whole = json.loads((copy / "config.json").read_text())
    change(whole["config"])
    (copy / "config.json").write_text(json.dumps(whole))
    return copy


def name_model(config: Any) -> None:
    config["model"]["model"] = "pwn:Model"


def name_loss(config: Any) -> None:
    config["model"]["label_loss"] = "pwn:Loss"


def name_classifier(config: Any) -> None:
    config["model"] |= {"model": "DbofModel", "hyper_parameters": {"video_level_classifier_model": "pwn:Model"}}


def name_reader(config: Any) -> None:
    config["data"]["reader"] = "pwn:Reader"


def yt8m(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own in the current folder."""
    root = pathlib.Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-m", "yt8m", *words],
        env={**os.environ, "PYTHONPATH": str(root), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.heavy
@pytest.mark.promise("X4")
def test_a_process_imports_what_a_config_names_only_where_it_is_trusted(
    trained: pathlib.Path, here: pathlib.Path
) -> None:
    run = brought(trained, here, name_model)
    words = ["eval", f"--train_dir={run}", DATA, "--run_once"]
    refused = yt8m(*words)
    assert refused.returncode == 2, refused.stderr
    assert f"{run}/config.json names code, the model 'pwn:Model'" in refused.stderr
    assert "add --trust_code" in refused.stderr
    assert not (here / "imported").exists()
    done = yt8m(*words, "--trust_code")
    assert done.returncode == 0, done.stderr
    assert (here / "imported").exists()


COMMANDS = [
    ("eval", "--train_dir={0}", DATA, "--run_once"),
    ("eval", "--train_dir={0}", DATA, "--run_once", "--l2_penalty=0.1"),
    ("inference", "--train_dir={0}", INPUT, "--output_file=o.csv"),
    ("export", "--train_dir={0}", "--out=out"),
    ("average-checkpoints", "--train_dir={0}", "--last=2", "--out=out"),
    ("ensemble", "--runs={0},{0}", "--export_dir=out"),
]
CHANGES = [name_model, name_loss, name_classifier, name_reader]


def change_and_command() -> list[Any]:
    """Each command with the model, and `eval` with each change; all pairs with the mark `heavy`."""
    pairs = [(change, words) for words in COMMANDS for change in CHANGES]
    return cases.only(pairs, [pair for pair in pairs if pair[0] is name_model or pair[1] is COMMANDS[0]])


@pytest.mark.promise("X4")
@pytest.mark.parametrize(
    ("change", "words"),
    change_and_command(),
    ids=lambda value: value[0] if isinstance(value, tuple) else value.__name__,
)
def test_no_command_imports_it(
    trained: pathlib.Path,
    here: pathlib.Path,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    change: Callable[[Any], None],
) -> None:
    run = brought(trained, here, change)
    status = cli.main([word.format(run) for word in words])
    # A command that does not use the loss or the reader neither imports it nor refuses.
    users = {name_loss: ("eval", "export"), name_reader: ("eval", "inference", "export", "ensemble")}
    is_used = words[0] in users.get(change, words)
    assert status == (2 if is_used else 0)
    assert ("add --trust_code" in capfd.readouterr().err) == is_used
    assert not (here / "imported").exists()


@pytest.mark.heavy
@pytest.mark.promise("X4")
def test_a_run_of_ones_own_needs_no_flag_until_its_config_is_changed(
    here: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train.main(train_words("own", "--model=pwn:Model", "--label_loss=pwn:Loss")) == 0
    words = ["eval", "--train_dir=own", DATA, "--run_once"]
    assert cli.main(words) == 0
    assert cli.main(["average-checkpoints", "--train_dir=own", "--last=2", "--out=mean"]) == 0
    assert cli.main(["export", "--train_dir=mean", "--out=exported"]) == 0
    with monkeypatch.context() as context:
        context.setenv("XDG_STATE_HOME", str(here / "of another user"))
        assert cli.main(words) == 2
        assert "own/config.json names code, the model 'pwn:Model'" in capfd.readouterr().err
        assert cli.main([*words, "--trust_code"]) == 0
        # A copy that a command made on such leave is not known either.
        trusted = ["average-checkpoints", "--train_dir=own", "--last=2", "--out=mean2", "--trust_code"]
        assert cli.main(trusted) == 0
        assert cli.main(["eval", "--train_dir=mean2", DATA, "--run_once"]) == 2
        # Training under the same name makes the run this user's.
        again = ["--model=pwn:Model", "--label_loss=pwn:Loss", "--max_steps=3"]
        assert train.main([word for word in train_words("own", *again) if word != "--max_steps=2"]) == 0
        assert cli.main(words) == 0
    config = here / "own/config.json"
    config.write_text(config.read_text() + " ")
    assert cli.main(words) == 2


@pytest.mark.promise("X4")
def test_training_goes_on_without_the_code_that_only_the_config_names(
    trained: pathlib.Path, here: pathlib.Path
) -> None:
    run = brought(trained, here, name_loss)
    assert train.main(train_words(run)) == 0
    assert not (here / "imported").exists()
    assert run_dir.is_own(str(run))


@pytest.mark.heavy
@pytest.mark.promise("X4")
def test_a_home_that_cannot_be_written_leaves_a_line(
    here: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "pwn.py"))
    assert train.main(train_words("own", "--model=pwn:Model")) == 0
    assert "cannot record that own" in caplog.text
    assert cli.main(["eval", "--train_dir=own", DATA, "--run_once"]) == 2
    assert cli.main(["eval", "--train_dir=own", DATA, "--run_once", "--trust_code"]) == 0


@pytest.mark.promise("X4")
def test_the_same_name_on_the_command_line_is_leave(trained: pathlib.Path, here: pathlib.Path) -> None:
    sys.path.append(str(here))
    run = brought(trained, here, name_model)
    flags.eval_config(["--train_dir=pwn:Model", DATA])  # a folder's name is none
    run_dir.read(str(run))
    with pytest.raises(UsageError, match=r"'pwn:Model'.*--trust_code"):
        models.get("pwn:Model")
    assert not (here / "imported").exists()
    flags.eval_config([DATA, "--video_level_classifier_model=pwn:Model"])
    run_dir.read(str(run))
    assert models.get("pwn:Model").__name__ == "Model"
    flags.eval_config([DATA])
    with pytest.raises(UsageError, match="names code"):
        models.get("pwn:Model")
    # An evaluator of a cluster, on a machine of its own, gets the flags of the training.
    assert flags.train_config([*train_words("own"), "--model=pwn:Model"]).model.model == "pwn:Model"
    run_dir.read(str(run))
    assert models.get("pwn:Model").__name__ == "Model"
    flags.eval_config([DATA])
    run_dir.read(str(run), trust_code=True)
    assert models.get("pwn:Model").__name__ == "Model"


@pytest.mark.parametrize("name", ["eval", "inference", "export", "average-checkpoints", "ensemble"])
def test_what_imports_a_runs_code_has_the_flag(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"--[no]trust_code {TRUST_HELP}" in shown


@pytest.mark.promise("X3")
def test_a_saved_model_is_called_a_program_whatever_lies_beside_it(
    trained: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = tmp_path / "model"
    shutil.copytree(trained.parent / "export", model)
    shutil.copy(trained / "config.json", model)
    assert run_dir.is_own(str(model))
    graph = model / "saved_model.pb"
    graph.write_bytes(graph.read_bytes() + b"\x78\x01")  # a field that nobody knows: no longer the graph of one's own
    (model / "assets.extra/checksum").unlink()
    assert cli.main(["predict", f"--model={model}", str(golden("checkpoint_logistic/test.tfrecord"))]) == 0
    assert [f"{model}: {WARNING}" in line for line in caplog.messages].count(True) == 1


@pytest.mark.heavy
@pytest.mark.promise("X3")
def test_every_meta_graph_is_called_a_program(
    trained: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An inference model alone, and as a teacher, and a graph in which training goes on, unless they are one's own."""
    run = tmp_path / "run"
    shutil.copytree(trained / "inference_model", run / "inference_model")
    shutil.copy(trained / "config.json", run)
    inner = run / "inference_model/inference_model.meta"
    infer = ["inference", f"--train_dir={run}", INPUT, f"--output_file={tmp_path}/o.csv"]
    learn = train_words(tmp_path / "student", f"--teacher={run}")
    copy = tmp_path / "copy"
    resume = [word.replace("max_steps=2", "max_steps=3") for word in train_words(copy)]
    shutil.copytree(trained, copy)
    config = copy / "config.json"
    config.write_text(config.read_text().replace(str(trained), str(copy)))
    for is_own in (True, False):
        caplog.clear()
        if is_own:
            run_dir.write(str(copy), run_dir.read(str(copy)).config, is_own=True)
        else:
            inner.write_bytes(inner.read_bytes() + b"\x78\x01")  # a field that nobody knows
            shutil.rmtree(copy)
            shutil.copytree(trained, copy)
            config.write_text(config.read_text() + " ")
            outer = copy / "model.ckpt-2.meta"
            outer.write_bytes(outer.read_bytes() + b"\x78\x01")
            shutil.rmtree(tmp_path / "student")
        assert cli.main(infer) == 0
        assert train.main(learn) == 0
        assert train.main(resume) == 0
        assert "graph saved" in caplog.text
        warned = [line.partition(": ")[0] for line in caplog.messages if WARNING in line]
        going_on = copy / "model.ckpt-3.meta"
        assert own_runs.is_noted(going_on.read_bytes()) == is_own
        assert warned == ([] if is_own else [str(inner), str(inner), str(outer)])


@pytest.mark.promise("X3")
def test_a_run_that_is_rebuilt_from_its_code_is_no_program_from_a_file(
    trained: pathlib.Path, here: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = brought(trained, here, lambda _: None)
    assert not run_dir.is_own(str(run))
    assert cli.main(["eval", f"--train_dir={run}", DATA, "--run_once"]) == 0
    assert WARNING not in caplog.text
