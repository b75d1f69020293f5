"""Splits and classes of rows: drawn or named, unchanged when a table grows, the same for both levels."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from own_clips import contents, frames_of, labels_of, read, split_of, write_table

from yt8m import storage
from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, vocabulary


def test_splits_are_drawn_by_group_or_named_by_rows(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    rows = [(f"v{n}", f"features/{n}.npy", "cat", f"film {n // 10}") for n in range(200)]
    table = write_table(clips / "groups.csv", rows, "id,path,labels,film")
    found = read(run(table=table, group_by="film", splits=("train:0.5", "mine:0.5"), out=str(tmp_path / "a")))
    of_films = {(n // 10, found[f"v{n}"][0]) for n in range(200)}
    assert len(of_films) == 20
    assert {split for _, split in of_films} == {"train", "mine"}
    named = [(*row[:3], ["test", "train", ""][n % 3]) for n, row in enumerate(rows)]
    table = write_table(clips / "named.csv", named, "id,path,labels,split")
    found = read(run(table=table, out=str(tmp_path / "b")))
    for n in range(200):
        assert found[f"v{n}"][0] == (["test", "train"][n % 3] if n % 3 < 2 else split_of(f"v{n}"))


def test_rows_of_a_group_name_one_split(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """If a row of a group names a split, the rows of the group that name none get that split too."""
    header = "id,path,labels,film,split"
    rows = [(f"v{n}", "features/1.npy", "cat", f"film {n % 20}", "test" if n == 45 else "") for n in range(100)]
    found = read(run(table=write_table(clips / "one.csv", rows, header), group_by="film"))
    for n in range(100):
        assert found[f"v{n}"][0] == ("test" if n % 20 == 5 else split_of(f"film {n % 20}"))
    rows[85] = (*rows[85][:4], "train")
    table = write_table(clips / "two.csv", rows, header)
    with pytest.raises(RunError, match=r"row 86 .line 87.: .*split .*train\b.* row 46 .*test.* film 'film 5'"):
        run(table=table, group_by="film", out=str(tmp_path / "b"))
    found = read(run(table=table, group_by="film", out=str(tmp_path / "c"), max_bad_rows=1))
    assert "v85" not in found
    assert {found[f"v{n}"][0] for n in (5, 25, 45, 65)} == {"test"}


def test_videos_stay_in_their_splits_and_classes_keep_their_numbers(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    first = read(run(level="frame"))
    run()
    old = vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names
    rows = [(f"clip {number:03}", f"features/{number}.npy", ";".join(labels_of(number))) for number in range(300)]
    more = [(f"new {number}", "features/0.npy", "zebra;ant" if number else "zebra") for number in range(40)]
    table = write_table(clips / "more.csv", [*more, *rows])
    second = read(run(table=table, overwrite=True))
    assert {name: second[name][0] for name in first} == {name: split for name, (split, _) in first.items()}
    assert vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names == (*old, "zebra", "ant")
    for level in ("video", "frame"):  # the other level shares the vocabulary
        found = manifest.find([str(path) for path in (tmp_path / "out").glob(f"{level}/*/*.tfrecord")])
        assert found.data is not None
        assert found.data.num_classes == 5


def test_classes_of_both_levels_agree(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    first = write_table(clips / "first.csv", [("a", "features/1.npy", "cat"), ("b", "features/2.npy", "dog")])
    second = write_table(clips / "second.csv", [("a", "features/1.npy", "ant"), ("b", "features/2.npy", "dog")])
    run(table=first)
    before = contents(tmp_path / "out" / "video")
    run(table=second, level="frame")
    assert vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names == ("cat", "dog", "ant")
    for path in (tmp_path / "out").glob("*/*/manifest.json"):
        data = manifest.read(str(path)).data
        assert data is not None
        assert data.num_classes == 3
    run(table=first)  # what is made stays, though the vocabulary has grown
    after = contents(tmp_path / "out" / "video")
    assert {name for name in before if before[name] != after[name]} <= {
        f"{split}/manifest.json" for split in ("train", "validate", "test")
    }


def test_levels_with_numbers_and_with_names_must_not_contradict(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    numbers = write_table(clips / "n.csv", [("a", "features/1.npy", "3"), ("b", "features/2.npy", "1")])
    names = write_table(clips / "names.csv", [("a", "features/1.npy", "cat"), ("b", "features/2.npy", "dog")])
    run(table=numbers)
    with pytest.raises(UsageError, match=r"labels .*names\b.*video-level records in .* numbers.*--vocabulary"):
        run(table=names, level="frame")
    few, all_ = tmp_path / "few.csv", tmp_path / "all.csv"
    few.write_text("index,name\n0,cat\n1,dog\n")
    all_.write_text("index,name\n0,cat\n1,dog\n2,emu\n3,fox\n")
    with pytest.raises(UsageError, match=r"there are 2 classes, but the video-level records in .* have 4"):
        run(table=names, level="frame", vocabulary=str(few))
    larger = write_table(clips / "larger.csv", [("a", "features/1.npy", "0")])
    data = manifest.find([str(path) for path in run(table=larger, level="frame").glob("*/*.tfrecord")]).data
    assert data is not None
    assert data.num_classes == 4
    run(table=names, level="frame", vocabulary=str(all_), overwrite=True)
    assert vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names == ("cat", "dog", "emu", "fox")


def test_labels_that_are_numbers_are_the_classes(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    table = write_table(clips / "numbers.csv", [(f"v{n}", "features/1.npy", n % 7) for n in range(70)])
    found = read(run(table=table, out=str(tmp_path / "a")))
    assert all(record.values("labels") == [int(name[1:]) % 7] for name, (_, record) in found.items())
    assert not (tmp_path / "a" / "vocabulary.csv").exists()
    data = manifest.read(str(tmp_path / "a" / "video" / "train" / "manifest.json")).data
    assert data is not None
    assert data.num_classes == 7
    run(table=table, out=str(tmp_path / "b"), label_names=True)
    assert sorted(vocabulary.read(str(tmp_path / "b" / "vocabulary.csv")).names) == list("0123456")
    twice = write_table(clips / "twice.csv", [("v", "features/1.npy", "01;1;0")])
    (_, record) = read(run(table=twice, out=str(tmp_path / "d"), label_names=False))["v"]
    assert record.values("labels") == [0, 1]
    names = tmp_path / "seven.csv"
    names.write_text("index,name\n" + "".join(f"{n},class of {n}\n" for n in range(8)))
    run(table=table, out=str(tmp_path / "c"), vocabulary=str(names))
    assert len(vocabulary.read(str(tmp_path / "c" / "vocabulary.csv"))) == 8


def test_a_table_without_labels_needs_a_vocabulary(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Such records serve only for predictions, and a model must know the classes."""
    table = write_table(clips / "unlabelled.csv", [("a", "features/1.npy", ""), ("b", "features/2.npy", " ")])
    with pytest.raises(UsageError, match=r"unlabelled\.csv: no row .*label\b.*no classes"):
        run(table=table)
    assert not (tmp_path / "out").exists()
    (tmp_path / "names.csv").write_text("index,name\n0,dog\n1,cat\n")
    found = run(table=table, vocabulary=str(tmp_path / "names.csv"))
    data = manifest.find([str(path) for path in found.glob("*/*.tfrecord")]).data
    assert data is not None
    assert data.num_classes == 2


def test_labels_outside_of_the_vocabulary_are_refused(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "good.npy", np.ones(4, np.float32))
    (tmp_path / "names.csv").write_text("index,name\n0,dog\n1,cat\n")
    table = write_table(
        tmp_path / "t.csv", [("a", "good.npy", "cat"), ("b", "good.npy", "dog"), ("c", "good.npy", "dogs")]
    )
    config = RecordsConfig(table=table, out=str(tmp_path / "out"), vocabulary=str(tmp_path / "names.csv"))
    with pytest.raises(RunError, match=r"row 3 .line 4.: .*'dogs' is not.*--vocabulary; did you mean dog\?"):
        make(config)
    storage.makedirs(config.out)
    vocabulary.write(str(tmp_path / "out" / "vocabulary.csv"), vocabulary.of_names(["cat", "dog"]))
    with pytest.raises(UsageError, match=r"class 0 is 'cat' in .*vocabulary.csv, and 'dog' in .*names.csv"):
        make(config)


def test_composed_and_decomposed_letters_are_one_name(tmp_path: pathlib.Path) -> None:
    """Names of folders from macOS have accents that are characters of their own."""
    np.save(tmp_path / "a.npy", np.ones(4, np.float32))
    (tmp_path / "names.csv").write_text("index,name\n0,dog\n1,caf\u00e9\n", encoding="utf-8")
    table = write_table(tmp_path / "t.csv", [("a", "a.npy", "cafe\u0301"), ("b", "a.npy", "caf\u00e9")])
    for given in ({}, {"vocabulary": str(tmp_path / "names.csv")}):
        make(RecordsConfig(table=table, out=str(tmp_path / f"out {len(given)}"), **given))
        found = read(tmp_path / f"out {len(given)}" / "video")
        assert [found[name][1].values("labels") for name in "ab"] == [[len(given)]] * 2


def test_nan_is_an_empty_cell(run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """pandas writes NaN for an empty cell in a column of numbers."""
    import pyarrow
    import pyarrow.parquet

    path, nan = clips / "nan.parquet", float("nan")
    rows = {"id": ["a", "b"], "path": ["features/1.npy"] * 2, "labels": ["cat", "dog"], "start": [nan, 2.0]}
    pyarrow.parquet.write_table(pyarrow.table(rows), path)
    found = read(run(table=str(path), level="frame"))
    assert [len(found[name][1].lists["features"]) for name in "ab"] == [len(frames_of(1)), len(frames_of(1)) - 2]
    pyarrow.parquet.write_table(pyarrow.table({**rows, "labels": [nan, 1.0]}), path)
    found = read(run(table=str(path), out=str(tmp_path / "b")))  # pandas writes 1.0 for 1 beside missing numbers
    assert [found[name][1].values("labels") for name in "ab"] == [[], [1]]
    pyarrow.parquet.write_table(pyarrow.table({**rows, "labels": [nan, 1.5]}), path)
    with pytest.raises(RunError, match=r"row 2: .*'1\.5' is not.*class number"):
        run(table=str(path), out=str(tmp_path / "c"))


@pytest.mark.parametrize("nothing", [None, math.nan], ids=["null", "NaN"])
def test_null_and_nan_in_json_are_empty_cells(clips: pathlib.Path, tmp_path: pathlib.Path, nothing: Any) -> None:
    """They were ids, paths and groups named None and nan."""
    row = {"id": "a", "path": "features/1.npy", "labels": ["cat"], "split": "train", "film": "x"}
    for column, problem in {
        "id": "the id is empty",
        "path": "the path is empty",
        "film": "its film is empty, .*--group_by",
    }.items():
        table = clips / f"{column}.json"
        table.write_text(json.dumps([row, {**row, "id": "b", column: nothing}]))
        with pytest.raises(RunError, match=f"row 2: {problem}"):
            make(RecordsConfig(table=str(table), out=str(tmp_path / "out"), group_by="film"))
    table.write_text(json.dumps([row, {**row, "id": "b", "split": nothing}]))
    make(RecordsConfig(table=str(table), out=str(tmp_path / "out")))
    assert set(read(tmp_path / "out" / "video")) == {"a", "b"}


@pytest.mark.parametrize("separator", ["|", ", ", "::"])
def test_labels_with_another_separator(
    separator: str, run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    rows = [("a", "features/1.npy", f"cat;1{separator}dog"), ("b", "features/2.npy", "dog")]
    found = read(run(table=write_table(clips / "separated.csv", rows), label_separator=separator))
    assert vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names == ("dog", "cat;1")
    assert [list(found[name][1].values("labels")) for name in "ab"] == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        (["1999", "2004", "2024"], {}, r"labels are 3 numbers.*\b2025 classes.* --label_names"),
        (["1999", "2004", "2024"], {"label_names": True}, ""),
        (["001", "002", "010"], {}, "some begin with 0, such as '001'.*--label_names, which keeps .*--nolabel_names"),
        (["001", "002", "010"], {"label_names": True}, ""),
        (["001", "002", "010"], {"label_names": False}, ""),
        (["1999", "2004", "2024"], {"label_names": False}, ""),
        (["0", "3", "7"], {}, ""),
        (["Cat", "dog", "cat"], {}, r"'Cat' and 'cat' differ.*--vocabulary=FILE"),
        (["sea  lion", "dog", "sea lion"], {}, "--vocabulary=FILE"),
        (["cat", "dog", "sea lion"], {}, ""),
        (["1|2", "2"], {"vocabulary": "names.csv"}, ""),
    ],
)
def test_labels_with_two_readings_are_refused(
    labels: list[str], given: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    (tmp_path / "names.csv").write_text("index,name\n0,1|2\n1,2\n")
    given = given | ({"vocabulary": str(tmp_path / "names.csv")} if "vocabulary" in given else {})
    table = write_table(tmp_path / "t.csv", [(f"v{place}", "a.npy", label) for place, label in enumerate(labels)])
    config = RecordsConfig(table=table, out=str(tmp_path / "out"), **given)
    if not message:
        make(config)
        return
    with pytest.raises(UsageError, match=message):
        make(config)
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_with_joined_classes_is_refused(tmp_path: pathlib.Path) -> None:
    """Such a folder was made by a version that took `cat,dog` for one class."""
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    labels = ["cat", "dog", "bird", "cat,dog", "dog,bird"]
    table = write_table(tmp_path / "t.csv", [(f"v{place}", "a.npy", label) for place, label in enumerate(labels)])
    storage.makedirs(str(tmp_path / "out"))
    vocabulary.write(str(tmp_path / "out" / "vocabulary.csv"), vocabulary.of_names(labels))
    config = RecordsConfig(table=table, out=str(tmp_path / "out"))
    with pytest.raises(UsageError, match=r"vocabulary.csv has the class '\w+,\w+', but '\w+' and '\w+' are labels"):
        make(config)
    make(dataclasses.replace(config, label_separator="none"))
    assert read(tmp_path / "out" / "video")["v3"][1].values("labels") == [3]


def test_a_table_may_be_read_without_its_labels(
    run: Callable[..., pathlib.Path], clips: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(clips / "new.csv", [(f"v{n}", f"features/{n}.npy", "x") for n in range(6)], "id,path,note")
    names = tmp_path / "names.csv"
    names.write_text("index,name\n0,cat\n1,dog\n")
    unlabelled: dict[str, Any] = {"table": table, "columns": ("labels=",)}
    with pytest.raises(UsageError, match=r"without labels.*--vocabulary"):
        run(**unlabelled)
    made = read(run(**unlabelled, vocabulary=str(names)))
    assert {video: record.values("labels") for video, (_, record) in made.items()} == {f"v{n}": [] for n in range(6)}
    (tmp_path / "answers.csv").write_text("id,labels\nv2,dog\n")
    printed = capsys.readouterr().out
    assert f"yt8m select --model=RUN --data='{tmp_path}/out/video/*/*.tfrecord' --out=next.csv" in printed
    assert "Train on it" not in printed
    answers = {"labels": str(tmp_path / "answers.csv"), "out": str(tmp_path / "answered")}
    made = read(run(**unlabelled, vocabulary=str(names), **answers))
    assert {video for video, (_, record) in made.items() if record.values("labels") == [1]} == {"v2"}
