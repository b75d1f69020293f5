"""What the programs refuse, and what they leave alone, beyond what their flags say by themselves."""

from __future__ import annotations

import pathlib
import resource
import signal
import sys

import cases
import pytest
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.storage import sending

OWN_MODEL = """
from yt8m.lazy import tf

class Mine:
    def create_model(self, model_input, vocab_size, **unused):
        weights = tf.get_variable("mine", [model_input.shape[-1], vocab_size])
        return {"predictions": tf.sigmoid(tf.matmul(model_input, weights))}
"""


def train_flags(folder: pathlib.Path, *more: str) -> list[str]:
    sizes = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    data = [] if any("train_data_pattern" in word for word in more) else [training_data()]
    return [*data, f"--train_dir={folder}/run", "--batch_size=16", "--max_steps=2", *sizes, *more]


def training_data() -> str:
    return f"--train_data_pattern={golden('checkpoint_logistic/train.tfrecord')}"


def test_a_wrong_callback_leaves_no_folder(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    for wrong, said in (("train_los", "did you mean train_loss"), ("pathlib:Path", "SessionRunHook")):
        assert train.main(train_flags(tmp_path, f"--callbacks={wrong}")) == 2
        assert said in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


def test_data_without_an_example_train_nothing(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.tfrecord").touch()
    assert train.main(train_flags(tmp_path, f"--train_data_pattern={tmp_path}/empty.tfrecord")) == 1
    assert "empty.tfrecord: record 0: the file is empty" in capfd.readouterr().err


def test_an_output_that_is_a_folder_is_said_at_once(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = golden("checkpoint_logistic/test.tfrecord")
    assert inference.main([f"--input_data_pattern={data}", f"--output_file={tmp_path}"]) == 2
    assert f"--output_file={tmp_path} is a folder" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["predict", "serve"])
def test_a_model_that_is_a_file_is_said_to_be_one(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    file = tmp_path / "p.csv"
    file.touch()
    data = [str(golden("checkpoint_logistic/test.tfrecord"))] if command == "predict" else ["--port=0"]
    assert cli.main([command, f"--model={file}", *data]) == 2
    advice = "this is a file; name a run, an export, an archive (.tgz) or an ONNX file (.onnx)."
    assert capfd.readouterr().err == f"yt8m {command}: error: {file}: {advice}\n"


@pytest.mark.parametrize("flag", ["train_dir", "export_dir", "log_dir"])
def test_a_folder_for_outputs_that_is_a_file_is_said_before_the_training(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], flag: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    others = [word for word in train_flags(tmp_path) if not word.startswith(f"--{flag}=")]
    for folder in (file, file / "below"):
        assert train.main([*others, f"--{flag}={folder}"]) == 2
        advice = f"--{flag}={folder} cannot be a folder, because {file} is a file. Name another folder.\n"
        assert capfd.readouterr().err == f"train.py: error: {advice}"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.heavy
@pytest.mark.promise("X3")
def test_a_packed_model_of_ones_own_predicts_without_its_code_or_sample_data(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/packed_mine.py").write_text(OWN_MODEL)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = f"--input_data_pattern={golden('checkpoint_logistic/test.tfrecord')}"
    with monkeypatch.context() as context:
        context.syspath_prepend(tmp_path / "code")
        assert train.main(train_flags(tmp_path, "--model=packed_mine:Mine")) == 0
        assert inference.main([f"--train_dir={tmp_path}/run", f"--output_model_tgz={tmp_path}/m.tgz"]) == 0
        assert not (tmp_path / "cache").exists()
        assert inference.main([f"--train_dir={tmp_path}/run", data, f"--output_file={tmp_path}/1.csv"]) == 0
        del sys.modules["packed_mine"]
    packed = [f"--input_model_tgz={tmp_path}/m.tgz", f"--untar_model_dir={tmp_path}/u"]
    assert inference.main([*packed, data, f"--output_file={tmp_path}/2.csv"]) == 0
    assert f"{tmp_path}/m.tgz was unpacked to {tmp_path}/u" in caplog.messages
    assert "is a program" not in caplog.text
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
    packed[1] = f"--untar_model_dir={tmp_path}/v"
    assert inference.main([*packed, data, f"--output_file={tmp_path}/2.csv"]) == 0
    assert f"{tmp_path}/v/inference_model.meta: a model is a" in caplog.text
    lines = (tmp_path / "1.csv").read_text().splitlines()
    assert len(lines) == 22
    assert (tmp_path / "2.csv").read_text().splitlines() == lines


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("refusals")
    assert train.main(train_flags(folder)) == 0
    return f"{folder}/run"


def unlabelled(path: pathlib.Path, count: int) -> str:
    floats = {name: tf.train.FloatList(value=[1.0] * size) for name, size in (("mean_rgb", 16), ("mean_audio", 8))}
    features = {name: tf.train.Feature(float_list=values) for name, values in floats.items()}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(count):
            name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"v%d" % number]))
            example = tf.train.Example(features=tf.train.Features(feature={"id": name, **features}))
            writer.write(example.SerializeToString())
    return str(path)


@pytest.mark.heavy
@pytest.mark.promise("I6")
def test_data_without_labels_are_evaluated_with_a_warning(
    run: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = unlabelled(tmp_path / "test.tfrecord", 3)
    assert evaluation.main([f"--train_dir={run}", f"--eval_data_pattern={data}", "--run_once"]) == 0
    said = capfd.readouterr()
    assert "no example has" in said.err
    assert said.out.count("— (no example has a label)") == 4


def test_the_reason_why_predictions_were_not_written_is_told_once(
    run: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = unlabelled(tmp_path / "test.tfrecord", 2000)  # more than any Python keeps before it writes
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        words = [f"--train_dir={run}", f"--input_data_pattern={data}", f"--output_file={tmp_path}/o.csv"]
        assert inference.main(words) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    said = capfd.readouterr().err
    assert f"inference.py: error: {tmp_path}/o.csv was not written: " in said
    assert said.count("no room to write: File too large. Make room there, or write elsewhere, and start again.\n") == 1
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["test.tfrecord"]


@pytest.mark.parametrize(
    "moment", cases.all_of(["between files and state"], heavy=["before the files", "after the save"])
)
def test_a_folder_that_vanishes_while_training_is_told_in_one_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], moment: str
) -> None:
    """Moved away at the second save, of two."""
    module, name = {
        "before the files": (sending, "local_folder_for"),
        "between files and state": (checkpoints, "write_state"),
        "after the save": (sending, "send_growing"),
    }[moment]
    usual, calls = getattr(module, name), []

    def and_move(*given: object) -> object:
        calls.append(name)
        if len(calls) == 2:
            (tmp_path / "run").rename(tmp_path / "moved")
        return usual(*given)

    monkeypatch.setattr(module, name, and_move)
    assert train.main(train_flags(tmp_path)) == 1
    said = capfd.readouterr().err
    assert f"the folder {tmp_path}/run is gone" in said
    assert "Traceback" not in said
    assert (tmp_path / "moved/model.ckpt-0.index").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "cut short or damaged (its lists or objects are nested deeper than 100 levels)"),
        ('{"config": {"data": {"num_classes": 1' + "0" * 19 + "}}}", "num_classes must be at most 10000000"),
    ],
)
@pytest.mark.parametrize("program", [evaluation, inference])
def test_a_config_that_no_run_wrote_is_refused_in_one_line(
    program: object, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    assert program.main([f"--train_dir={tmp_path}"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{tmp_path}/config.json" in line
    assert said in line


@pytest.mark.parametrize("program", [train, evaluation, inference])
def test_too_many_classes_are_refused(program: object, capfd: pytest.CaptureFixture[str]) -> None:
    assert program.main([f"--num_classes={10**19}"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"--num_classes must be at most 10000000; it is {10**19}" in line
