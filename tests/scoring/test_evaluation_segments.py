"""What an evaluation of rated segments writes has the names of the published code."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.lazy import tf

DATA = str(golden("tiny_segment.tfrecord"))
FLAGS = [
    "--frame_features",
    "--feature_names=rgb,audio",
    "--feature_sizes=16,8",
    "--num_classes=20",
    "--segment_labels",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a run that was trained and evaluated on segments."""
    folder = tmp_path_factory.mktemp("segments") / "run"
    words = ["--model=FrameLevelLogisticModel", "--max_steps=1", f"--train_data_pattern={DATA}", "--batch_size=4"]
    assert train.main([*FLAGS, *words, f"--train_dir={folder}", "--export_model_steps=none"]) == 0
    words = [f"--eval_data_pattern={DATA}", "--run_once", "--segment_labels", "--log_every_n_steps=1"]
    assert evaluation.main([f"--train_dir={folder}", *words]) == 0
    return folder


def test_tags(run: pathlib.Path) -> None:
    files = [str(path) for path in (run / "eval").glob("events.*")]
    values = {value.tag: value for path in files for e in tf.train.summary_iterator(path) for value in e.summary.value}
    assert {"GlobalStep/SegEval_Loss", "GlobalStep/SegEval_Example_Second", "Epoch/SegEval_MAP"} <= values.keys()
    assert not [tag for tag in values if "/Eval_" in tag]
    assert values["GlobalStep/SegEval_Example_Second"].simple_value > 0


def test_the_inference_model_has_both_names(run: pathlib.Path) -> None:
    folder = run / "inference_model"
    for ending in ("meta", "index", "data-00000-of-00001"):
        one, other = (folder / f"{name}.{ending}" for name in ("inference_model", "segment_inference_model"))
        assert one.read_bytes() == other.read_bytes()
    readers = [tf.train.load_checkpoint(str(folder / name)) for name in ("inference_model", "segment_inference_model")]
    for name in readers[0].get_variable_to_shape_map():
        np.testing.assert_array_equal(*(reader.get_tensor(name) for reader in readers))


@pytest.mark.heavy
def test_a_folder_with_the_published_name_alone_is_read(run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As the published code leaves it, and without checkpoints."""
    shutil.copytree(run, tmp_path / "run")
    for path in [
        tmp_path / "run/checkpoint",
        *(tmp_path / "run").glob("model.ckpt*"),
        *(tmp_path / "run/inference_model").glob("inference_model.*"),
    ]:
        path.unlink()
    words = [f"--input_data_pattern={DATA}", f"--output_file={tmp_path}/out.csv", "--segment_labels"]
    assert inference.main([f"--train_dir={tmp_path}/run", *words]) == 0
    assert (tmp_path / "out.csv").read_text().startswith("Class,Segments")
