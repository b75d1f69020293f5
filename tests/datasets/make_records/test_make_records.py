"""`yt8m make-records`: the content and the folders of records, what is refused, and the start after a kill."""

from __future__ import annotations

import json
import pathlib
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from own_clips import NAMES, contents, frames_of, labels_of, read, split_of, write_table

from yt8m import storage
from yt8m.command_line import cli
from yt8m.datasets.make_records import RecordsConfig, make, output
from yt8m.datasets.verification import verify
from yt8m.errors import RunError, UsageError
from yt8m.records import data_format, manifest, shards, vocabulary
from yt8m.records.data_format import FeatureFormat


@pytest.fixture(scope="module")
def made(clips: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the records of one table at both levels."""
    out = tmp_path_factory.mktemp("made")
    table = f"--table={clips}/clips.csv"
    assert cli.call("make-records", [table, f"--out={out}", "--feature_names=clip"]) == 0
    frames = ["--level=frame", "--bits=8", "--max_frames=7", "--shards=2", "--feature_names=clip"]
    assert cli.call("make-records", [table, f"--out={out}", *frames]) == 0
    return out


def test_videos_are_the_means_of_their_frames(made: pathlib.Path) -> None:
    found = read(made / "video")
    assert len(found) == 300
    names = vocabulary.read(str(made / "vocabulary.csv")).names
    for number in range(300):
        split, record = found[f"clip {number:03}"]
        assert split == split_of(f"clip {number:03}")
        assert [names[index] for index in record.values("labels")] == sorted(labels_of(number), key=names.index)
        assert set(record.context) == {"id", "labels", "clip"}
        np.testing.assert_allclose(record.values("clip"), frames_of(number).mean(axis=0), rtol=1e-6, atol=1e-6)


def test_frames_are_bytes_of_the_range_of_the_training_videos(made: pathlib.Path) -> None:
    found = read(made / "frame")
    data = manifest.read(str(made / "frame" / "train" / "manifest.json")).data
    assert data is not None
    ((name, size, bounds),) = data.features
    assert (name, size, data.level, data.max_frames, data.num_classes) == ("clip", 16, "frame", 7, 3)
    assert bounds is not None
    training = [frames_of(number)[:7] for number in range(300) if split_of(f"clip {number:03}") == "train"]
    assert bounds == (min(map(np.min, training)), max(map(np.max, training)))
    for number in range(300):
        _, record = found[f"clip {number:03}"]
        frames = np.stack([frame.numbers() for frame in record.lists["clip"]])
        expected = np.clip(frames_of(number)[:7], *bounds)
        np.testing.assert_allclose(
            data_format.dequantized(frames, bounds), expected, atol=(bounds[1] - bounds[0]) / 500
        )


def test_vocabulary_manifest_and_summary(made: pathlib.Path) -> None:
    everywhere = Counter(name for number in range(300) for name in labels_of(number))
    training = Counter(
        name for number in range(300) for name in labels_of(number) if split_of(f"clip {number:03}") == "train"
    )
    read_back = vocabulary.read(str(made / "vocabulary.csv"))
    assert read_back.names == tuple(sorted(NAMES, key=lambda name: (-everywhere[name], name)))
    assert read_back.counts.tolist() == [training[name] for name in read_back.names]
    for level in ("video", "frame"):
        found = manifest.find([str(path) for path in made.glob(f"{level}/*/*.tfrecord")])
        assert found.data is not None
        assert sum(shard.records for shard in found.shards.values()) == 300
        problems = [problem for path in found.shards for problem in verify(path, None, found).problems]
        assert problems == []
        summary = json.loads((made / level / "summary.json").read_text())
        splits = Counter(split_of(f"clip {number:03}") for number in range(300))
        assert {name: split["videos"] for name, split in summary["splits"].items()} == splits
        assert [split["shards"] for split in summary["splits"].values()] == [2 if level == "frame" else 8] * 3
    train = manifest.read(str(made / "video" / "train" / "manifest.json")).data
    assert train is not None
    assert train.positives == tuple(training[name] for name in read_back.names)
    for level, longest in (("video", 8), ("frame", 7)):  # the frames of the command are cut after seven
        lengths = sorted(
            min(len(frames_of(number)), longest) for number in range(300) if split_of(f"clip {number:03}") == "train"
        )
        for split in ("train", "test"):
            written = manifest.read(str(made / level / split / "manifest.json")).data
            assert written is not None
            assert written.video_frames == (lengths[(len(lengths) - 1) // 2], longest)
    assert manifest.read(str(made / "video" / "test" / "manifest.json")).data == train._replace(positives=None)
    assert summary["splits"]["train"]["frames"] == sum(
        min(len(frames_of(number)), 7) for number in range(300) if split_of(f"clip {number:03}") == "train"
    )
    assert summary["videos cut to the limit of frames"] == sum(len(frames_of(number)) > 7 for number in range(300))
    assert sorted(path.name for path in made.iterdir()) == ["frame", "video", "vocabulary.csv"]


def test_each_shard_holds_consecutive_rows_of_the_table(made: pathlib.Path) -> None:
    """If a table is sorted by class, a training that mixes several shards then reads several classes at once."""
    shards_of_split = sorted((made / "video" / "train").glob("*.tfrecord"))
    last = b""
    for path in shards_of_split:
        ids = sorted(shards.parse(one).id() for one in shards.read_shard(str(path)))
        assert last < ids[0]
        last = ids[-1]
    counts = [shard.records for shard in manifest.read(str(made / "video" / "train" / "manifest.json")).shards.values()]
    assert max(counts) - min(counts) <= 1


def test_complete_records_are_not_made_again(
    run: Callable[..., pathlib.Path], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run()
    assert capsys.readouterr().err == 'clips.csv: CSV; 300 videos, 3 classes; labels from "labels", separated by ";"\n'
    stamp = (folder / "summary.json").stat().st_mtime_ns
    assert (run() / "summary.json").stat().st_mtime_ns == stamp
    assert capsys.readouterr().err.endswith(f"\n{folder} already has all these records; nothing was written.\n")
    with pytest.raises(UsageError, match=r"out/video already exists.*add --overwrite"):
        run(shards=3)
    before = contents(folder)
    assert contents(run(shards=3, overwrite=True)) != before
    assert len(list(folder.glob("train/*.tfrecord"))) == 3
    (tmp_path / "out" / "frame").mkdir()
    (tmp_path / "out" / "frame" / "mine.txt").write_text("kept")
    with pytest.raises(UsageError, match="out/frame already exists"):
        run(level="frame")
    assert (tmp_path / "out" / "frame" / "mine.txt").exists()


def test_rewritten_features_are_noticed_and_most_of_them_may_be_deleted(
    run: Callable[..., pathlib.Path], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(name, f"{name}.npy", "cat") for name in "abcdefgh"]
    table = write_table(tmp_path / "few.csv", rows)
    for name, path, _ in rows:
        np.save(tmp_path / path, np.full(4, ord(name), np.float32))
    before = read(run(table=table))
    np.save(tmp_path / "c.npy", np.full(4, 7, np.float32))
    with pytest.raises(UsageError, match=r"out/video .*other files.*--overwrite"):
        run(table=table)
    after = read(run(table=table, overwrite=True))
    (name,) = set(after["c"][1].context) - {"id", "labels"}
    assert list(after["c"][1].values(name)) == [7.0] * 4
    assert list(after["d"][1].values(name)) == list(before["d"][1].values(name)) == [100.0] * 4
    for _, path, _ in rows[1:]:  # the first one is read to learn the names and sizes of the features
        (tmp_path / path).unlink()
    capsys.readouterr()
    assert run(table=table).exists()
    assert "already has all" in capsys.readouterr().err


def test_start_and_end_choose_frames(run: Callable[..., pathlib.Path], clips: pathlib.Path) -> None:
    rows = [
        ("a", "features/1.npy", "cat", "0.5", "1.5"),
        ("b", "features/1.npy", "dog", "", "1"),
        ("c", "features/2.npy", "cat", "1", ""),
    ]
    table = write_table(clips / "cut.csv", rows, "id,path,labels,start,end")
    found = read(run(table=table, level="frame", frames_per_second=2.0))
    for name, expected in {"a": frames_of(1)[1:3], "b": frames_of(1)[:2], "c": frames_of(2)[2:]}.items():
        frames = [frame.values() for frame in found[name][1].lists["features"]]
        np.testing.assert_array_equal(np.array(frames, np.float32), expected)


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The same 50 videos in each form that the command takes."""
    import pyarrow
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("forms")
    (folder / "files").mkdir()
    stream = np.random.default_rng(0)
    clip, tone = (stream.normal(size=(50, size)).astype(np.float32) for size in (16, 4))
    ids, labels = [f"v{n}" for n in range(50)], [f"{NAMES[n % 3]};all" for n in range(50)]
    for n in range(50):
        np.savez(folder / "files" / f"{n}.npz", clip=clip[n], tone=tone[n])
    paths = [f"files/{n}.npz" for n in range(50)]
    write_table(folder / "a.csv", list(zip(ids, paths, labels, strict=True)))
    write_table(folder / "rows.csv", list(zip(ids, labels, strict=True)), "id,labels")
    columns = {"id": ids, "path": paths, "labels": [text.split(";") for text in labels]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "paths.parquet", row_group_size=7)
    lists = {"clip": pyarrow.array(clip.astype(np.float64).tolist()), "tone": list(tone)}
    pyarrow.parquet.write_table(
        pyarrow.table({"id": ids, "labels": labels, **lists}), folder / "lists.parquet", row_group_size=9
    )
    arrays = {"clip": clip, "tone": tone}
    np.savez(folder / "alone.npz", id=np.array(ids), labels=np.array(labels), **arrays)
    np.savez_compressed(folder / "beside.npz", **arrays)
    np.save(folder / "clip.npy", clip)
    return folder


@pytest.mark.parametrize(
    "given",
    [
        {"table": "paths.parquet"},
        {"table": "lists.parquet"},
        {"table": "alone.npz"},
        {"table": "rows.csv", "array": "beside.npz"},
        {"table": "a.csv"},
    ],
    ids=lambda given: "+".join(given.values()),
)
def test_every_form_of_table_gives_the_same_records(
    forms: pathlib.Path, given: dict[str, str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.datasets.make_records._MOST_ROWS", 8)
    for out, words in {"one": {"table": "a.csv"}, "other": given}.items():
        files = {name: str(forms / value) for name, value in words.items()}
        make(RecordsConfig(**files, out=str(tmp_path / out), feature_names=("tone", "clip")))
    one, other = (contents(tmp_path / out) for out in ("one", "other"))
    assert {name: data for name, data in one.items() if "progress" not in name} == {
        name: data for name, data in other.items() if "progress" not in name
    }
    data = manifest.find([str(path) for path in (tmp_path / "one").rglob("*.tfrecord")]).data
    assert data is not None
    assert data.features == (FeatureFormat("tone", 4), FeatureFormat("clip", 16))
    assert vocabulary.read(str(tmp_path / "one" / "vocabulary.csv")).names[0] == "all"


def test_a_mapped_array_beside_a_table(forms: pathlib.Path, tmp_path: pathlib.Path) -> None:
    config = RecordsConfig(
        table=str(forms / "rows.csv"),
        array=str(forms / "clip.npy"),
        out=str(tmp_path / "o"),
        bits=8,
        ranges=("-3:3",),
        feature_names=("mine",),
    )
    make(config)
    clip = np.load(forms / "clip.npy")
    for name, (_, record) in read(tmp_path / "o" / "video").items():
        read_back = data_format.dequantized(record.context["mine"].numbers(), (-3, 3))
        np.testing.assert_allclose(read_back, np.clip(clip[int(name[1:])], -3, 3), atol=6 / 500)
    write_table(tmp_path / "short.csv", [("a", "cat")], "id,labels")
    with pytest.raises(RunError, match=r"clip\.npy .*\b50 rows.*short\.csv 1\b"):
        make(RecordsConfig(**{**vars(config), "table": str(tmp_path / "short.csv"), "out": str(tmp_path / "p")}))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "given",
    [
        {"table": "rows.csv", "array": "clip.npy"},
        {"table": "a.csv"},
        {"table": "lists.parquet"},
        {"table": "rows.csv", "array": "beside.npz"},
    ],
    ids=lambda given: "+".join(given.values()),
)
def test_tables_and_arrays_in_a_bucket_give_the_same_records(
    forms: pathlib.Path, given: dict[str, str], tmp_path: pathlib.Path, bucket: str
) -> None:
    for path in [*forms.glob("*.*"), *forms.glob("files/*")]:
        with storage.write_atomic(f"{bucket}/{path.relative_to(forms)}") as file:
            file.write(path.read_bytes())
    for out, folder in {"here": str(forms), "there": bucket}.items():
        make(RecordsConfig(**{name: f"{folder}/{value}" for name, value in given.items()}, out=str(tmp_path / out)))
    found, expected = read(tmp_path / "there" / "video"), read(tmp_path / "here" / "video")
    assert {name: (split, record.context) for name, (split, record) in found.items()} == {
        name: (split, record.context) for name, (split, record) in expected.items()
    }


def test_paths_must_not_lead_out_of_the_folder_of_a_table_in_a_bucket(tmp_path: pathlib.Path, bucket: str) -> None:
    np.save(tmp_path / "good.npy", np.ones(4, np.float32))
    with storage.write_atomic(f"{bucket}/data/good.npy") as file:
        file.write((tmp_path / "good.npy").read_bytes())
    rows = [("a", "good.npy", "cat"), ("b", f"{bucket}/data/good.npy", "cat"), ("c", f"{bucket}/good.npy", "cat")]
    local = write_table(tmp_path / "t.csv", rows)
    with storage.write_atomic(f"{bucket}/data/t.csv") as file:
        file.write(pathlib.Path(local).read_bytes())
    with pytest.raises(RunError, match=r"row 2 .line 3.: .*'gs://.*' .*out of.*folder"):
        make(RecordsConfig(table=local, out=str(tmp_path / "a")))
    config = RecordsConfig(table=f"{bucket}/data/t.csv", out=str(tmp_path / "b"), max_bad_rows=1)
    left_out = make(config)["rows left out"]
    assert list(left_out) == ["3"]
    assert "out of the table's folder" in left_out["3"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["wide.parquet", "wide.npy", "frames.npy"])
def test_memory_does_not_grow_with_the_table(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    import pyarrow.parquet

    values = np.random.default_rng(0).random((4000, 1024), np.float32)  # 16 MB
    columns = {"id": [f"v{n}" for n in range(len(values))], "labels": ["cat"] * len(values)}
    table, array = str(tmp_path / "table.parquet"), ""
    if name == "wide.parquet":
        columns["wide"] = pyarrow.FixedSizeListArray.from_arrays(values.ravel(), 1024)
    else:
        array = str(tmp_path / name)
        # Of frames the records keep the means.
        np.save(array, values if name == "wide.npy" else values.reshape(4000, 32, 32))
    pyarrow.parquet.write_table(pyarrow.table(columns), table, row_group_size=200)
    columns.clear()
    values = None
    monkeypatch.setattr("yt8m.datasets.make_records._BATCH_BYTES", 1 << 19)
    arrow = pyarrow.total_allocated_bytes()
    peaks = []
    appended = output.Output.append

    def watched(self: output.Output, shard: str, contents: Any, size: int) -> None:
        peaks.append(pyarrow.total_allocated_bytes() - arrow)
        appended(self, shard, contents, size)

    make(RecordsConfig(table=table, array=array, out=str(tmp_path / "imports")))  # what it imports does not count
    monkeypatch.setattr(output.Output, "append", watched)
    tracemalloc.start()
    try:
        make(RecordsConfig(table=table, array=array, out=str(tmp_path / "out")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20
    assert max(peaks) < 6 << 20
    assert len(read(tmp_path / "out" / "video")) == 4000


def test_frames_of_one_array_and_labels_that_are_missing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    import pyarrow.parquet

    values = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    monkeypatch.setattr("yt8m.datasets.make_records._MOST_ROWS", 3)  # the last row is alone
    labels = [None, ["cat", None], [], ["dog", "cat"]]
    table = {"id": list("abcd"), "labels": pyarrow.array(labels, pyarrow.list_(pyarrow.string()))}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "t.parquet")
    files = {name: str(tmp_path / file) for name, file in {"table": "t.parquet", "array": "x.npy", "out": "o"}.items()}
    make(RecordsConfig(**files, level="frame", max_frames=4, splits=("train:1",)))
    found = read(tmp_path / "o" / "frame")
    assert [found[name][1].values("labels") for name in "abcd"] == [[], [0], [], [0, 1]]
    for number, name in enumerate("abcd"):
        frames = [frame.values() for frame in found[name][1].lists["features"]]
        np.testing.assert_array_equal(np.array(frames, np.float32), values[number, :4])


GOOD = [("a", "good.npy", "cat"), ("b", "good.npy", "dog")]


def bad_arrays(folder: pathlib.Path) -> None:
    good = np.arange(4, dtype=np.float32)
    np.save(folder / "good.npy", good)
    np.save(folder / "nan.npy", np.where(good == 2, np.nan, good))
    np.save(folder / "huge.npy", good.astype(np.float64) * 1e300)
    np.save(folder / "short.npy", good[:3])
    np.save(folder / "cube.npy", np.zeros((2, 2, 4), np.float32))
    np.save(folder / "words.npy", np.array(["x"] * 4))
    np.save(folder / "none.npy", np.zeros((0, 4), np.float32))
    np.savez(folder / "two.npz", other=good)
    (folder / "no.npy").write_bytes(b"no array")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (("", "good.npy", "cat"), "the id is empty"),
        (("c\nd", "good.npy", "cat"), r"the id 'c\\nd' holds a line break"),
        (("a", "good.npy", "cat"), "row 1 has the same id"),
        (("c", "nan.npy", "cat"), "feature features has 1 values that are NaN"),
        (("c", "huge.npy", "cat"), "feature features has 3 values that are NaN, infinite or beyond"),
        (("c", "short.npy", "cat"), r"feature features has 3 values, expected 4\b"),
        (("c", "cube.npy", "cat"), r"array features is float32 \[2, 2, 4\]; expected integers or floats"),
        (("c", "words.npy", "cat"), r"array features is <U1 \[4\]; expected integers or floats"),
        (("c", "none.npy", "cat"), r"array features is float32 \[0, 4\]"),
        (("c", "two.npz", "cat"), ".*two.npz holds other; expected features"),
        (("c", "no.npy", "cat"), ".*no.npy is not a .npy or .npz file of numbers"),
        (("c", "gone.npy", "cat"), "cannot read .*gone.npy: there is no"),
        (("c", "", "cat"), "the path is empty"),
        (("c", "../good.npy", "cat"), "the path '../good.npy' leads out"),
        (("c", "/etc/passwd", "cat"), "the path .* leads out"),
        (("c", "good.npy", "c\tt"), "the label .* holds a control character"),
        (("c", "good.npy", "dog;-1"), "the label '-1' .*names, .*numbers from 0"),
        (("c", "good.npy", "2.0"), "the label '2.0' .*number"),
        (("c", "good.npy"), "the row has 2 fields, .*header has 3"),
    ],
)
def test_a_bad_row_is_refused_or_left_out(
    tmp_path: pathlib.Path, row: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad_arrays(tmp_path)
    table = write_table(tmp_path / "t.csv", [*GOOD, row])
    with pytest.raises(RunError, match=rf"t.csv, row 3 \(line 4\): {what}"):
        make(RecordsConfig(table=table, out=str(tmp_path / "out")))
    assert not (tmp_path / "out" / "video").exists()
    make(RecordsConfig(table=table, out=str(tmp_path / "out"), max_bad_rows=1))
    assert "bad rows left out: 1; summary.json lists them" in capsys.readouterr().out
    assert sorted(read(tmp_path / "out" / "video")) == ["a", "b"]
    left_out = json.loads((tmp_path / "out" / "video" / "summary.json").read_text())["rows left out"]
    assert re.search(what, left_out["3"])


def test_vectors_are_refused_at_frame_level(tmp_path: pathlib.Path) -> None:
    bad_arrays(tmp_path)
    table = write_table(tmp_path / "t.csv", GOOD)
    with pytest.raises(RunError, match=r"row 1 \(line 2\): feature features .*vector of 4 values; --level=frame"):
        make(RecordsConfig(table=table, out=str(tmp_path / "out"), level="frame"))


def refusals() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"splits": ("train:0.5",)}, "--splits=train:0.5: the shares add up to 0.5; expected names with shares"
    yield {"splits": ("train:x",)}, "expected names with shares"
    yield {"splits": ("../x:1",)}, "the name of a split becomes the name of a folder"
    yield {"bits": 16}, "--bits=16: expected 32 .floats. or 8"
    yield {"ranges": ("-1:1",)}, "--ranges is for bytes: add --bits=8"
    yield {"bits": 8, "ranges": ("1:-1",)}, "'1:-1' is not a range; expected LOW:HIGH"
    yield {"bits": 8, "ranges": ("0:1", "0:1")}, "has 2 ranges for 1 features"
    yield {"label_separator": ""}, "--label_separator is empty"
    yield {"table": ""}, "--table is missing"
    yield {"table": "", "labels": "t.csv"}, "names the ids and labels, as in --table=t.csv"
    yield {"group_by": "film"}, "has no column 'film'; it has: id, path, labels"
    yield {"feature_names": ("a", "b")}, "holds one array, but --feature_names has 2 names"
    yield {"table": "gone.csv"}, "--table=gone.csv: there is no such file"
    yield {"vocabulary": "gone.csv"}, "--vocabulary=gone.csv: there is no such file"
    yield {"array": "gone.npy"}, "--array=gone.npy: there is no such file"
    yield {"table": "t.pkl"}, "expected a file that ends in .csv, .tsv, .txt, .*Save the table as CSV, Parquet or JSON"
    yield {"columns": ("id=clip",)}, "--columns=id=clip: .*t.csv has no column 'clip'; it has: id, path, labels"
    yield {"columns": ("name=id",)}, "--columns=name=id: 'name=id' is not MEANING=COLUMN; the meanings are id, path"


@pytest.mark.parametrize(("given", "what"), list(refusals()), ids=lambda value: str(value)[:40])
def test_flags_that_are_refused(tmp_path: pathlib.Path, given: dict[str, Any], what: str) -> None:
    bad_arrays(tmp_path)
    table = write_table(tmp_path / "t.csv", GOOD)
    with pytest.raises(UsageError, match=what):
        make(RecordsConfig(**{"table": table, "out": str(tmp_path / "out"), **given}))
    assert not (tmp_path / "out").exists()


def test_another_process_that_makes_records_is_named(tmp_path: pathlib.Path) -> None:
    bad_arrays(tmp_path)
    config = RecordsConfig(table=write_table(tmp_path / "t.csv", GOOD), out=str(tmp_path / "out"))
    storage.makedirs(config.out)
    with storage.lock(str(tmp_path / "out" / ".lock")), pytest.raises(storage.Locked, match="held by process"):
        make(config)
