"""The cells of spans that a choice of a model compares on: those of the table, with their neighbours."""

from __future__ import annotations

import csv
import dataclasses
import math
import pathlib
import shutil

import numpy as np
import pytest
from reader_records import read_shard, write_shard

from yt8m.command_line import cli
from yt8m.command_line.flags import training
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.training.search import cells_in_memory

_LENGTHS = {"a": 9, "b": 4, "c": 6}


def config_of(
    folder: pathlib.Path, *flags: str, annotated: str = "whole", factor: float = 1.0, bits: int = 32
) -> TrainConfig:
    """The config of a training on records of three films with spans, whose values are multiplied by `factor`."""
    folder.mkdir(exist_ok=True)
    rows = [("a", "weld", 2, 6), ("a", "cut", 4, 9), ("b", "cut", 0, 2), ("c", "", "", "")]
    with (folder / "spans.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("video", "path", "label", "start", "end", "split"))
        for video, *span in rows:
            frames = np.arange(3 * _LENGTHS[video], dtype=np.float32).reshape(-1, 3) + 100 * ord(video)
            np.save(folder / f"{video}.npy", frames * np.float32(factor))
            writer.writerow((video, f"{video}.npy", *span, "train"))
    words = [f"--table={folder}/spans.csv", f"--out={folder}/data", "--level=frame", "--rows=spans", "--shards=1"]
    words += [f"--bits={bits}"]
    assert cli.call("make-records", [*words, "--segment_size=2", f"--annotated={annotated}", "--overwrite"]) == 0
    return training([f"--data={folder}/data/frame/train/*.tfrecord", f"--train_dir={folder}/run", *flags])[0]


def test_each_cell_is_an_example_of_the_group_of_its_video(tmp_path: pathlib.Path) -> None:
    config = config_of(tmp_path, "--segment_context=1")
    found, total = cells_in_memory.read(config.data, config.data.data_pattern, 1000)
    assert (len(found), total) == (10, 10)
    # No two videos share a value, so the first frame of a cell's middle tells which cell it is.
    cells = {}
    for row in range(10):
        first, second = found.features[row, 1:3, 0]
        video = chr(round(first) // 100)
        cells[video, (round(first) - 100 * ord(video)) // 3] = row
        assert found.num_frames[row] == 4
        if second != first + 3:  # the last cell of `a` has one frame, which is repeated
            assert (video, first - 100 * ord(video), second) == ("a", 24, first)
    assert set(cells) == {
        ("a", 0),
        ("a", 2),
        ("a", 4),
        ("a", 6),
        ("a", 8),
        ("b", 0),
        ("b", 2),
        *((("c", n)) for n in (0, 2, 4)),
    }
    assert found.features[cells["a", 0], 0, 0] == found.features[cells["a", 0], 1, 0]
    shown = {key: found.labels[row].sum() for key, row in cells.items()}
    assert {key: count for key, count in shown.items() if count} == {
        ("a", 2): 1, ("a", 4): 2, ("a", 6): 1, ("a", 8): 1, ("b", 0): 1,
    }  # fmt: skip
    groups = {key: found.groups[row] for key, row in cells.items()}
    assert len({(video, group) for (video, _), group in groups.items()}) == len(set(groups.values())) == 3
    sample, total = cells_in_memory.read(config.data, config.data.data_pattern, 5)
    assert 0 < len(sample) < 10 == total


def test_unfit_values_count_as_0_if_the_policy_says_so_and_are_refused_otherwise(tmp_path: pathlib.Path) -> None:
    config = config_of(tmp_path, "--nan_policy=zero")
    plain, _ = cells_in_memory.read(config.data, config.data.data_pattern, 1000)
    (path,) = tmp_path.glob("data/frame/train/*.tfrecord")
    records = [tf.train.SequenceExample.FromString(record) for record in read_shard(path)]
    changed = next(record for record in records if len(record.feature_lists.feature_list["features"].feature) == 9)
    values = changed.feature_lists.feature_list["features"].feature[2].float_list.value
    unfit, values[1] = values[1], math.nan
    write_shard(path, [record.SerializeToString() for record in records])
    found, _ = cells_in_memory.read(config.data, config.data.data_pattern, 1000)
    np.testing.assert_array_equal(found.features, np.where(plain.features == unfit, 0, plain.features))
    assert (plain.features == unfit).any()
    refusing = dataclasses.replace(config.data, nan_policy="refuse")
    with pytest.raises(RunError, match="NaN"):
        cells_in_memory.read(refusing, config.data.data_pattern, 1000)


def test_validation_cells_have_the_values_that_their_own_range_says(tmp_path: pathlib.Path) -> None:
    config = config_of(tmp_path / "train", "--segment_context=1", bits=8)
    config_of(tmp_path / "validate", factor=-3.0, bits=8)
    of_training, _ = cells_in_memory.read(config.data, config.data.data_pattern, 1000)
    validation = f"{tmp_path}/validate/data/frame/train/*.tfrecord"
    of_validation, _ = cells_in_memory.read(config.data, validation, 1000)
    step = np.ptp(of_training.features) / 255
    np.testing.assert_allclose(of_validation.features, -3.0 * of_training.features, atol=4 * step)
    assert np.abs(of_validation.features - of_training.features).min() > 1000


def test_bytes_are_read_by_the_manifest_that_is_named_and_refused_where_none_says_their_range(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "train"
    config = config_of(folder, bits=8)
    expected, _ = cells_in_memory.read(config.data, config.data.data_pattern, 1000)
    (folder / "data/frame/train/manifest.json").rename(tmp_path / "lost.json")
    named = dataclasses.replace(config.data, manifest=f"{tmp_path}/lost.json")
    found, _ = cells_in_memory.read(named, named.data_pattern, 1000)
    np.testing.assert_array_equal(found.features, expected.features)
    shutil.copytree(folder / "data/frame/train", folder / "data/frame/validate")
    with pytest.raises(UsageError, match=r"validate.*no manifest"):
        cells_in_memory.read(named, f"{folder}/data/frame/validate/*.tfrecord", 1000)


def test_cells_that_nobody_saw_are_no_examples(tmp_path: pathlib.Path) -> None:
    config = config_of(tmp_path, annotated="spans")
    found, total = cells_in_memory.read(config.data, config.data.data_pattern, 1000)
    assert len(found) == total == 5
    assert found.labels.any(axis=1).all()


def test_the_model_is_chosen_and_sees_neighbours_without_a_flag(tmp_path: pathlib.Path) -> None:
    config = config_of(tmp_path)
    assert "model" in " ".join(config.search.free)
    assert (config.data.segment_labels, config.data.segment_context) == (True, 5)
    led = config_of(tmp_path, "--model=FrameLevelLogisticModel", "--num_epochs=2")
    assert led.search.free == ()
    assert led.data.segment_context == 0
    with pytest.raises(UsageError, match="--segment_context"):
        config_of(tmp_path, "--segment_context=-1")
    with pytest.raises(RunError, match=r"no cell.*every class"):
        cells_in_memory.read(config.data, make_unrated(tmp_path), 1000)


def make_unrated(folder: pathlib.Path) -> str:
    """Records of a film without a span, of which nothing is annotated."""
    (folder / "none.csv").write_text(
        "video,path,label,start,end,split\nb,b.npy,,,,train\na,a.npy,cut,0,1,test\na,a.npy,weld,1,2,test\n"
    )
    words = [f"--table={folder}/none.csv", f"--out={folder}/none", "--level=frame", "--rows=spans", "--shards=1"]
    assert cli.call("make-records", [*words, "--annotated=spans", "--segment_size=2"]) == 0
    return f"{folder}/none/frame/train/*.tfrecord"
