"""The reader that a run asks for: the package's, or a class of the user's own through train, eval and the rest."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from reader_records import video_record

from yt8m import train
from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import YT8MAggregatedFeatureReader, YT8MFrameFeatureReader, reader_for

# The label is in the id, which no reader of the package would look at.
CODE = '''
import dataclasses

from yt8m.lazy import tf
from yt8m.readers import Reader, join_features
from yt8m.types import Batch


class LabelInId(Reader):
    """Two features a video; the last letter of its name is its class."""

    def prepare_serialized_examples(self, serialized):
        wanted = {"name": tf.io.FixedLenFeature([], tf.string)}
        wanted |= {name: tf.io.FixedLenFeature([size], tf.float32)
                   for name, size in zip(self.feature_names, self.feature_sizes)}
        found = tf.io.parse_example(serialized, wanted)
        number = tf.strings.to_number(tf.strings.substr(found["name"], -1, 1), tf.int32)
        return Batch(found["name"], tuple(found[name] for name in self.feature_names),
                     tf.ones_like(number), tf.one_hot(number, self.num_classes) > 0)

    def video_matrix(self, batch):
        return join_features(batch)


class WithLimits(LabelInId):
    def __init__(self, num_classes, feature_sizes, feature_names, max_frames, nan_policy="refuse"):
        super().__init__(num_classes, feature_sizes, feature_names, nan_policy)
        self.max_frames = max_frames


class Duck:
    """Derives from nothing."""

    def __init__(self, num_classes, feature_sizes, feature_names):
        self.num_classes, self.feature_sizes, self.feature_names = num_classes, feature_sizes, feature_names

    prepare_serialized_examples = LabelInId.prepare_serialized_examples
    video_matrix = LabelInId.video_matrix


class NoMatrix(Reader):
    def prepare_serialized_examples(self, serialized): ...


class OfOneFeature(LabelInId):
    def __init__(self, size):
        super().__init__(2, (size,), ("a",))


class Forgetful(Duck):
    def __init__(self, num_classes, feature_sizes, feature_names): ...


class Broken(LabelInId):
    def prepare_serialized_examples(self, serialized):
        return self.nothing


class Narrow(LabelInId):
    def prepare_serialized_examples(self, serialized):
        batch = super().prepare_serialized_examples(serialized)
        return batch._replace(features=tuple(values[:, :1] for values in batch.features))


def function(num_classes, feature_sizes, feature_names): ...
'''
FLAGS = ["--num_classes=2", "--feature_names=a,b", "--feature_sizes=2,3", "--train_data_pattern=own.tfrecord"]
EVAL = ["eval", "--train_dir=run", "--eval_data_pattern=own.tfrecord", "--run_once"]


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The current folder, with the module `layout` and 24 records of its layout."""
    (tmp_path / "layout.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with tf.io.TFRecordWriter("own.tfrecord") as file:
        for number in range(24):
            sign = 2.0 * (number % 2) - 1.0
            file.write(video_record(name=[b"v%d-%d" % (number, number % 2)], a=[sign, 0.5], b=[0.1, 0.2, 0.3]))
    yield tmp_path
    sys.modules.pop("layout", None)


def own(name: str, **more: object) -> DataConfig:
    return DataConfig(num_classes=2, feature_names=("a", "b"), feature_sizes=(2, 3), reader=f"layout:{name}", **more)


def test_without_a_name_it_is_one_of_the_package() -> None:
    videos, frames = (
        reader_for(DataConfig(nan_policy="zero")),
        reader_for(DataConfig(frame_features=True, max_frames=7)),
    )
    assert isinstance(videos, YT8MAggregatedFeatureReader)
    assert videos.nan_policy == "zero"
    assert isinstance(frames, YT8MFrameFeatureReader)
    assert (frames.max_frames, frames.segment_labels, frames.segment_size) == (7, False, 5)


def test_the_class_gets_what_its_constructor_takes(folder: pathlib.Path) -> None:
    limited = reader_for(own("WithLimits", max_frames=9, nan_policy="zero"))
    assert (limited.max_frames, limited.nan_policy) == (9, "zero")
    duck = reader_for(own("Duck"))
    assert (duck.num_classes, duck.feature_sizes, duck.feature_names) == (2, (2, 3), ("a", "b"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["LabelInId", "Duck"])
def test_a_run_by_it_is_trained_resumed_evaluated_predicted_and_exported(folder: pathlib.Path, name: str) -> None:
    words = [f"--reader=layout:{name}", *FLAGS, "--batch_size=8", "--base_learning_rate=0.5", "--train_dir=run"]
    assert train.main([*words, "--max_steps=30", "--num_epochs=99"]) == 0
    assert json.loads((folder / "run/config.json").read_text())["config"]["data"]["reader"] == f"layout:{name}"
    assert train.main([*words, "--max_steps=40", "--num_epochs=99"]) == 0
    assert cli.main(EVAL) == 0
    assert json.loads((folder / "run/eval/report.json").read_text())["gap"] > 0.95
    assert cli.main(["inference", "--train_dir=run", "--input_data_pattern=own.tfrecord", "--output_file=o.csv"]) == 0
    lines = (folder / "o.csv").read_text().splitlines()[1:]
    assert [line.partition(",")[0] for line in lines] == [f"v{number}-{number % 2}" for number in range(24)]
    assert [line.split(",")[1].split()[0] for line in lines] == ["0", "1"] * 12
    assert cli.main(["export", "--train_dir=run", "--out=exported"]) == 0
    assert cli.main(["predict", "--model=exported", "own.tfrecord"]) == 0


@pytest.mark.heavy
@pytest.mark.promise("X4")
def test_separate_processes_find_it_only_if_the_run_is_trusted(folder: pathlib.Path) -> None:
    def yt8m(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        root = str(pathlib.Path(__file__).resolve().parents[2])
        variables = {**os.environ, "PYTHONPATH": root, **environment}
        return subprocess.run([sys.executable, "-m", "yt8m", *words], env=variables, capture_output=True, text=True)

    trained = yt8m("train", "--reader=layout:LabelInId", *FLAGS, "--batch_size=8", "--max_steps=2", "--train_dir=run")
    assert trained.returncode == 0, trained.stderr
    assert yt8m(*EVAL).returncode == 0
    refused = yt8m(*EVAL, XDG_STATE_HOME=str(folder / "another user"))
    assert refused.returncode == 2
    assert "run/config.json names code, the reader 'layout:LabelInId'" in refused.stderr
    trusted = yt8m(*EVAL, "--trust_code", XDG_STATE_HOME=str(folder / "another user"))
    assert trusted.returncode == 0, trusted.stderr


@pytest.mark.parametrize(
    ("name", "flags", "text"),
    [
        ("LabelInId", [], "expected package.module:Class"),
        ("layout:None_", [], "cannot load reader 'layout:None_'"),
        ("layout:function", [], "expected a class derived from yt8m.readers.Reader"),
        ("layout:NoMatrix", [], "NoMatrix'> lacks video_matrix"),
        ("layout:OfOneFeature", [], "cannot be called with feature_names, feature_sizes, num_classes"),
        ("layout:Forgetful", [], "its instances lack feature_names, feature_sizes, num_classes"),
        ("layout:Broken", [], "prepare_serialized_examples fails: AttributeError: 'Broken' object has no"),
        ("layout:Narrow", [], "features of the shapes [[None, 1], [None, 1]]. Set unknown shapes by tf.ensure_shape"),
        ("layout:Duck", ["--nan_policy=zero"], "--nan_policy=zero: the constructor of --reader=layout:Duck has no"),
        ("layout:Duck", ["--cache=kept"], "does not notice changes of the code of --reader=layout:Duck"),
        ("layout:Duck", ["--frame_features", "--model=DbofModel"], "[[None, None, 2], [None, None, 3]]"),
    ],
)
def test_a_wrong_one_is_refused_before_anything_is_written(
    folder: pathlib.Path, capfd: pytest.CaptureFixture[str], name: str, flags: list[str], text: str
) -> None:
    assert train.main([f"--reader={name}", *FLAGS, "--train_dir=run", *flags]) == 2
    assert text in capfd.readouterr().err
    assert not (folder / "run").exists()


def test_it_needs_data_of_its_own_layout(folder: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--reader=layout:Duck", *FLAGS[:3], "--train_dir=run"]) == 2
    assert "name the files" in capfd.readouterr().err
    assert not (folder / "run").exists()


def test_segments_are_cut_from_youtube_8m_records_only(folder: pathlib.Path) -> None:
    from yt8m.scoring.inference import segment_reader

    data = own("LabelInId", frame_features=True, data_pattern="own.tfrecord")
    with pytest.raises(UsageError, match="layout:LabelInId"):
        segment_reader(data, 0, ())
