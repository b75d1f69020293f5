"""Files whose format number is newer than this version knows are refused; the message names the number."""

from __future__ import annotations

import pathlib

import pytest
import small_exports
from tiny_workload import TinyInputter, TinyModeler, write_rows

from yt8m import formats, runner, scoring
from yt8m.errors import RunError
from yt8m.graph.restore import read_meta_graph
from yt8m.lazy import tf
from yt8m.records import manifest


@pytest.mark.parametrize("number", [0, -1, "1", None, 1.0])
def test_a_format_that_is_no_positive_number_is_damage(number: object) -> None:
    with pytest.raises(RunError, match=rf"a\.json is damaged: .*format is {number!r}, .*whole number"):
        formats.refuse_newer("a.json", number, 3)


def test_a_newer_format_is_refused() -> None:
    formats.refuse_newer("a.json", 1, 3)
    formats.refuse_newer("a.json", 3, 3)
    with pytest.raises(RunError, match=r"a\.json has format 4\b.*\b3\b"):
        formats.refuse_newer("a.json", 4, 3)


@pytest.mark.heavy
def test_a_checkpoint_of_a_newer_format_ends_a_resume(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_rows(tmp_path / "rows.tfrecord")

    def train(steps: int) -> runner.Outcome:
        config = runner.RunnerConfig("train", str(tmp_path / "run"), max_steps=steps, signature={"workload": "tiny"})
        return runner.Runner(config, TinyInputter(data), TinyModeler()).run()

    with monkeypatch.context() as later_version:
        later_version.setattr(formats, "GRAPH", 2)
        assert train(2).global_step == 2
    outcome = train(4)
    assert outcome.exit_code == 1
    assert "model.ckpt-2.meta has format 2, and this version of yt8m reads formats up to 1" in outcome.message
    with monkeypatch.context() as later_version:
        later_version.setattr(formats, "GRAPH", 3)
        assert train(4).global_step == 4


def test_an_export_of_a_newer_format_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later_version:
        later_version.setattr(formats, "GRAPH", 2)
        folder = small_exports.export(tmp_path, "LogisticModel")
    with pytest.raises(RunError, match=r"saved_model has format 2\b.*\b1\b"):
        scoring.open(folder)


def test_a_meta_graph_without_a_format_is_read(tmp_path: pathlib.Path) -> None:
    """The meta-graphs of the published code have no format number."""
    with tf.Graph().as_default():
        tf.add_to_collection("predictions", tf.zeros([2, 3]))
        tf.train.export_meta_graph(str(tmp_path / "a.meta"))
    assert "predictions" in read_meta_graph(str(tmp_path / "a.meta")).collection_def


def test_a_manifest_of_a_newer_format_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"format": "yt8m manifest 2", "shards": {}, "checksums": []}')
    with pytest.raises(RunError, match=r"manifest\.json has format 2\b.*\b1\b"):
        manifest.read(str(path))
