"""The programs on a run whose folder was damaged, is another model's, or is in use."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from golden_data import golden
from small_run import evaluate, run, weights

from yt8m import inference, train
from yt8m.config import run_dir


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of twelve steps; tests work on copies."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run(folder, "--save_checkpoint_steps=6") == 0
    return folder


@pytest.fixture
def copy(trained: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(trained, tmp_path / "run"))


def predict(folder: pathlib.Path, *more: str) -> bytes:
    data, output = golden("checkpoint_logistic/test.tfrecord"), folder / "out.csv"
    words = [f"--train_dir={folder}", f"--input_data_pattern={data}", f"--output_file={output}", *more]
    assert inference.main(words) == 0
    return output.read_bytes()


@pytest.mark.promise("C2")
def test_without_a_meta_graph_all_three_programs_work(trained: pathlib.Path, copy: pathlib.Path) -> None:
    for path in copy.glob("*.meta"):
        path.unlink()
    assert evaluate(copy)["global_step"] == 12
    assert predict(copy) == predict(trained)
    assert run(copy, "--max_steps=13") == 0
    assert weights(copy, 13)["global_step"] == 13


@pytest.mark.heavy
@pytest.mark.promise("C3")
def test_without_its_newest_data_all_three_programs_take_the_one_before(
    copy: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (copy / "model.ckpt-12.data-00000-of-00001").write_bytes(b"")
    (copy / "checkpoint").write_bytes(b"\xffgarbage")
    assert evaluate(copy)["global_step"] == 6
    predict(copy)
    assert "USING THE OLDER CHECKPOINT" in capfd.readouterr().err
    assert run(copy, "--max_steps=7") == 0
    assert (copy / "model.ckpt-7.index").exists()


@pytest.mark.promise("C5")
def test_another_models_checkpoint_is_refused_with_both_names(
    copy: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(copy.iterdir())
    assert run(copy, "--model=MoeModel") == 2
    assert "model: LogisticModel -> MoeModel" in capfd.readouterr().err
    assert sorted(copy.iterdir()) == before
    for name in (run_dir.CONFIG, run_dir.MODEL_FLAGS):  # then only the checkpoint itself can tell
        (copy / name).unlink()
    assert run(copy, "--model=MoeModel") == 1
    said = capfd.readouterr().err
    assert "lacks tower/experts/biases" in said
    assert "holds tower/fully_connected/" in said
    assert "model was 'LogisticModel' and is 'MoeModel'" in said


@pytest.mark.promise("C6")
def test_a_second_trainer_is_refused(copy: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.iterdir()}
    with run_dir.lock(str(copy)):
        assert train.main([f"--train_dir={copy}", *_data()]) == 1
    said = capfd.readouterr().err
    assert "train.lock" in said
    assert "process" in said
    assert {path: path.stat().st_mtime_ns for path in copy.iterdir()} == before


def _data() -> list[str]:
    sizes = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    return [f"--train_data_pattern={golden('checkpoint_logistic/train.tfrecord')}", *sizes]
