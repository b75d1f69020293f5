"""`yt8m relabel`: records with corrected labels, of which the features, splits and shards are those of the data."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from own_clips import read
from relabelled_data import clips, decide, films

from yt8m.command_line import cli
from yt8m.datasets.relabel import shard_labels
from yt8m.errors import RunError, UsageError
from yt8m.records import groups, manifest, shards, vocabulary, wire

WHOLE = ("1,v1,cut,missing,.9,,,yes", "2,v2,cut,wrong,.9,,,yes", "3,v3,weld,wrong,.8,,,no", "4,v0,weld,missing,.7,,,")
SPANS = (
    "1,a,weld,wrong,.9,15,0:25,yes", "2,a,cut,missing,.8,40,50,yes", "3,b,cut,wrong,.7,,,yes",
    "4,b,weld,missing,.7,0,5,no",
)  # fmt: skip


def relabel(data: pathlib.Path, decisions: str, out: pathlib.Path, *flags: str) -> int:
    return cli.call("relabel", [f"--data={data}", f"--corrections={decisions}", f"--out={out}", *flags])


def features_of(record: Any) -> dict[str, list[Any]]:
    return {name: [each.values() for each in frames] for name, frames in record.features().items()}


@pytest.mark.parametrize(("level", "flags"), [("video", ()), ("frame", ()), ("frame", ("--bits=8", "--ranges=-4:4"))])
def test_records_are_those_that_make_records_makes_of_the_decisions(
    level: str, flags: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    data, decisions = clips(tmp_path, level, *flags), decide(tmp_path, *WHOLE)
    before = {path.name: list(shards.read_shard(str(path))) for path in data.rglob("*.tfrecord")}
    assert relabel(data, decisions, tmp_path / "new") == 0
    words = [f"--table={tmp_path}/clips.csv", f"--out={tmp_path}/made", f"--level={level}", "--shards=2", *flags]
    assert cli.call("make-records", [*words, f"--corrections={decisions}"]) == 0
    made, new = (pathlib.Path(tmp_path / name / level) for name in ("made", "new"))
    for split in ("train", "test"):
        for path in (made / split).glob("*.tfrecord"):
            assert sorted(shards.read_shard(str(path))) == sorted(shards.read_shard(str(new / split / path.name)))
        found, expected = (manifest.read(str(folder / split / manifest.NAME)) for folder in (new, made))
        assert (found.data, found.split, found.corrections) == (expected.data, split, expected.corrections)
    assert (made.parent / "vocabulary.csv").read_bytes() == (new.parent / "vocabulary.csv").read_bytes()
    assert cli.call("verify", [f"{new}/*/*.tfrecord", "--deep"]) == 0
    after = {path.name: list(shards.read_shard(str(path))) for path in new.rglob("*.tfrecord")}
    changed = [
        wire.entries(record).context[b"id"]
        for name in before
        for record, other in zip(before[name], after[name], strict=True)
        if record != other
    ]
    assert len(changed) == 2, "the records of videos without a decision are copied byte for byte"


def test_cells_are_those_of_the_decisions_on_spans(tmp_path: pathlib.Path) -> None:
    table = films(tmp_path)
    data, decisions = tmp_path / "data" / "frame", decide(tmp_path, *SPANS)
    assert relabel(data, decisions, tmp_path / "new") == 0
    words = [f"--table={table}", f"--out={tmp_path}/made", "--level=frame", "--shards=1", "--rows=spans"]
    assert cli.call("make-records", [*words, f"--corrections={decisions}"]) == 0
    found, expected = (tmp_path / name / "frame/train/train0000.tfrecord" for name in ("new", "made"))
    assert list(shards.read_shard(str(found))) == list(shards.read_shard(str(expected)))
    entry = manifest.read(str(found.with_name(manifest.NAME)))
    assert entry.data == manifest.read(str(expected.with_name(manifest.NAME))).data
    assert (entry.corrections["labels added"], entry.corrections["labels removed"]) == (1, 2)
    names = vocabulary.read(str(tmp_path / "new/vocabulary.csv"))
    assert dict(zip(names.names, names.counts.tolist(), strict=True)) == {"cut": 1, "weld": 1}


def test_what_is_added_outside_the_annotated_parts_becomes_one(tmp_path: pathlib.Path) -> None:
    films(tmp_path, "--annotated=spans")
    rows = ("1,b,cut,wrong,.9,5,10,yes", "2,b,weld,missing,.9,40,45,yes", "3,a,weld,wrong,.9,0,3,yes")
    assert relabel(tmp_path / "data/frame", decide(tmp_path, *rows), tmp_path / "new") == 0
    ratings = {video: record for video, (_, record) in read(tmp_path / "new/frame").items()}
    names = vocabulary.read(str(tmp_path / "new/vocabulary.csv")).names
    assert ratings["b"].values("segment_start_times") == [0, 10, 15, 40]
    assert [names[each] for each in ratings["b"].values("segment_labels")] == ["cut"] * 3 + ["weld"]
    ranges = [ratings["b"].values(name) for name in shards.ANNOTATED_LISTS]
    assert ranges == [[0, 40], [20, 45]]
    assert ratings["a"].values("annotated_start_times") == [10]


def test_decisions_that_cover_half_of_no_cell_are_told_from_those_that_are_fulfilled(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    films(tmp_path)
    rows = (
        "1,a,cut,missing,.9,41,42,yes", "2,a,weld,missing,.9,10,20,yes", "3,b,cut,wrong,.9,0,5,yes",
        "4,b,cut,wrong,.9,300,310,yes",
    )  # fmt: skip
    assert relabel(tmp_path / "data/frame", decide(tmp_path, *rows), tmp_path / "new") == 0
    said = capsys.readouterr().err
    assert "1 decisions of" in said
    assert re.search("line 3: 'weld' of 'a' .*missing.*already", said)
    assert "2 decisions of" in said
    assert re.search("line 2: 'cut' of 'a' .*missing.* half of no cell", said)


def test_a_second_start_writes_nothing_and_other_decisions_need_overwrite(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, decisions = clips(tmp_path, "video"), decide(tmp_path, *WHOLE)
    capsys.readouterr()
    assert relabel(data, decisions, tmp_path / "new") == 0
    first = capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "new").rglob("*.tfrecord")}
    assert relabel(data, decisions, tmp_path / "new") == 0
    second = capsys.readouterr()
    assert second.out == first.out
    assert "already has all" in second.err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    decide(tmp_path, WHOLE[0])
    with pytest.raises(UsageError, match=r"already exists.*--overwrite"):
        relabel(data, decisions, tmp_path / "new")
    assert relabel(data, decisions, tmp_path / "new", "--overwrite") == 0
    labels = {video: record.values("labels") for video, (_, record) in read(tmp_path / "new/video").items()}
    assert (len(labels["v1"]), len(labels["v2"])) == (2, 2)
    assert relabel(tmp_path / "new/video", decide(tmp_path, WHOLE[1]), tmp_path / "newer") == 0
    entry = manifest.read(str(tmp_path / "newer/video/train" / manifest.NAME)).corrections
    assert (entry["labels removed"], entry["earlier"]["labels added"]) == (1, 1)


def test_dry_run_says_the_same_figures_and_writes_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, decisions = clips(tmp_path, "video"), decide(tmp_path, *WHOLE, "5,v0,weld,missing,.7,,,yes")
    capsys.readouterr()
    assert relabel(data, decisions, tmp_path / "new", "--dry_run", "--json") == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["splits"]["train"] == {
        "videos": 6, "labels": 8, "shards": 2, "labels added": 1, "labels removed": 1, "videos with decisions": 3,
        "classes without a video": [],
    }  # fmt: skip
    assert (summary["decisions"], summary["decisions that changed nothing"]) == (3, 1)
    assert re.search("line 6: 'weld' of 'v0' .*missing.*already", err)
    assert "would have the features" in err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("1,x1,cut,wrong,.9,,,yes", "2,v1,weld,wrong,.9,,,yes", "3,x0,cut,wrong,.9,,,yes"),
         r"\b2 of 3 decisions .*\b2 videos .*'x1' in line 2\b"),
        (("1,v1,wed,wrong,.9,,,yes", "2,v1,weld,wrong,.9,,,yes", "3,v1,tack,wrong,.9,,,yes"),
         r"line 2: 'wed' is not.*\b2 classes.*weld.*\b2 decisions"),
        (("1,v1,cut,missing,.9,0,5,yes",), r"line 2.*part of .*video, .*no cells"),
        (("1,v1,cut,missing,.9,,,yes", "2,v1,cut,wrong,.9,,,yes"), "line 3.*contradicts"),
    ],
)  # fmt: skip
def test_decisions_that_do_not_fit_the_records(rows: tuple[str, ...], message: str, tmp_path: pathlib.Path) -> None:
    data = clips(tmp_path, "video")
    with pytest.raises((UsageError, RunError), match=message):
        relabel(data, decide(tmp_path, *rows), tmp_path / "new")
    assert not (tmp_path / "new/video").exists()


def test_what_the_manifest_says_of_extractors_and_groups_stays(tmp_path: pathlib.Path) -> None:
    data = clips(tmp_path, "video", "--group_by=path")
    path = data / "train" / manifest.NAME
    before = manifest.read(str(path))
    extractors = ({"name": "inception", "feature": "clip", "sampling": "whole-3"},)
    manifest.write(str(path), before.shards, before.data, extractors, "train")
    manifest.write(str(data / "test" / manifest.NAME), manifest.read(str(data / "test" / manifest.NAME)).shards)
    assert relabel(data, decide(tmp_path, *WHOLE), tmp_path / "new") == 0
    assert manifest.read(str(tmp_path / "new/video/train" / manifest.NAME)).extractors == extractors
    assert manifest.read(str(tmp_path / "new/video/test" / manifest.NAME)).data is None
    assert (
        groups.find([str(tmp_path / "new/video/train/x")]).videos.tolist() == groups.find([str(path)]).videos.tolist()
    )


@pytest.mark.parametrize(("files", "out"), [
    ("data/video", "data"), ("data/video", "data/video"), ("data/video", "data/video/new"), ("data/video", "."),
    ("data/video/*/*.tfrecord", "data/video/new"), ("data/video/*/*.tfrecord", "data/video/test"),
    ("data/video/*/*.tfrecord", "."),
])  # fmt: skip
def test_records_are_written_neither_into_the_data_nor_around_them(
    files: str, out: str, tmp_path: pathlib.Path
) -> None:
    clips(tmp_path, "video")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=r"--out=.* --data .*one in the other"):
        relabel(tmp_path / files, decide(tmp_path, *WHOLE), tmp_path / out, "--overwrite")
    assert sorted({*tmp_path.rglob("*")} - {tmp_path / "decisions.csv"}) == before


def test_classes_that_lose_their_last_video_are_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, rows = clips(tmp_path, "video"), ("1,v2,cut,wrong,.9,,,yes", "2,v5,cut,wrong,.9,,,yes")
    assert relabel(data, decide(tmp_path, *rows), tmp_path / "new") == 0
    said = capsys.readouterr().out
    assert "6 videos, 6 labels (0 added, 2 removed), 2 shards\n    classes without a video in this split: cut\n" in said
    summary = json.loads((tmp_path / "new/video/summary.json").read_text())
    assert summary["splits"]["train"]["classes without a video"] == ["cut"]


def test_a_table_in_which_nothing_is_decided_is_refused(tmp_path: pathlib.Path) -> None:
    data, rows = clips(tmp_path, "video"), ("1,v1,cut,missing,.9,,,", "2,v2,cut,wrong,.9,,,")
    with pytest.raises(UsageError, match=r"nothing .*decided.* decision .*empty in all 2 rows"):
        relabel(data, decide(tmp_path, *rows), tmp_path / "new")
    assert relabel(data, decide(tmp_path, rows[0], f"{rows[1]}no"), tmp_path / "new") == 0, "one label is right"


def test_a_folder_of_other_classes_is_refused(tmp_path: pathlib.Path) -> None:
    data = clips(tmp_path, "video")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/vocabulary.csv").write_text("index,name\n0,cut\n1,drill\n")
    with pytest.raises(UsageError, match="Name another folder as --out"):
        relabel(data, decide(tmp_path, *WHOLE), tmp_path / "new")


def test_records_in_another_encoding_get_new_labels(tmp_path: pathlib.Path) -> None:
    """The labels are no packed list here, and the context stands after an empty one."""
    unpacked = shards.field(3, b"\x08\x01\x08\x00")
    values = shards.float_feature([1.5, 2.5])
    context = {"id": shards.bytes_feature(b"v1"), "labels": unpacked, "clip": values}
    record = shards.field(1, b"") + shards.example(context)
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.tfrecord").write_bytes(shards.framed(record))
    (tmp_path / "vocabulary.csv").write_text("index,name\n0,weld\n1,cut\n2,tack\n")
    rows = ("1,v1,cut,wrong,.9,,,yes", "2,v1,tack,missing,.9,,,yes")
    assert relabel(folder, decide(tmp_path, *rows), tmp_path / "new") == 0
    (payload,) = shards.read_shard(str(tmp_path / "new/video/train/a.tfrecord"))
    assert payload.startswith(record)
    parsed = shards.parse(payload)
    assert (parsed.values("labels"), parsed.values("clip")) == ([0, 2], [1.5, 2.5])


def test_a_class_beyond_the_vocabulary_is_damage(tmp_path: pathlib.Path) -> None:
    clips(tmp_path, "video")
    (tmp_path / "bad").mkdir()
    context = {"id": shards.bytes_feature(b"v1"), "labels": shards.int64_feature([2]), "x": shards.float_feature([1])}
    (tmp_path / "bad/a.tfrecord").write_bytes(shards.framed(shards.example(context)))
    (tmp_path / "bad/vocabulary.csv").write_text("index,name\n0,weld\n1,cut\n")
    with pytest.raises(shard_labels.DamagedError, match=r"a\.tfrecord: record 0: .*class outside 0\.\.1\b"):
        relabel(tmp_path / "bad", decide(tmp_path, "1,v1,cut,missing,.9,,,yes"), tmp_path / "new")


def test_a_wrong_class_of_a_video_is_absent_in_its_rated_segments(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records such as those of YouTube-8M have ratings, and no ranges in which every class is rated."""
    frames = [shards.float_feature([float(k), 1.0]) for k in range(20)]
    for name, classes, scores in (("s0", [0, 1, 0], [1, 1, 0]), ("s1", [0, 1, 0], [1, 1, 1])):
        context = {
            "id": shards.bytes_feature(name.encode()),
            "labels": shards.int64_feature([0, 1]),
            "segment_start_times": shards.int64_feature([0, 5, 10]),
            "segment_labels": shards.int64_feature(classes),
            "segment_scores": shards.float_feature(scores),
        }
        (tmp_path / "validate").mkdir(exist_ok=True)
        payload = shards.framed(shards.sequence_example(context, {"x": frames}))
        (tmp_path / f"validate/{name}.tfrecord").write_bytes(payload)
    (tmp_path / "vocabulary.csv").write_text("index,name\n0,a\n1,b\n2,c\n")
    decisions = decide(tmp_path, "1,s0,a,wrong,.9,,,yes", "2,s1,c,missing,.9,,,yes", "3,s1,b,missing,.9,,,yes")
    assert relabel(tmp_path / "validate", decisions, tmp_path / "new") == 0
    said = capsys.readouterr().err
    records = {video: record for video, (_, record) in read(tmp_path / "new/frame").items()}
    assert {video: record.values("labels") for video, record in records.items()} == {"s0": [1], "s1": [0, 1, 2]}
    assert {video: record.values("segment_scores") for video, record in records.items()} == {
        "s0": [0, 1, 0], "s1": [1, 1, 1],
    }  # fmt: skip
    assert "1 decisions of" in said
    assert "of 1 label added to videos" in said
    with pytest.raises(UsageError, match=r"no class .*segment.*--rows=spans.*start and end"):
        relabel(tmp_path / "validate", decide(tmp_path, "1,s1,c,missing,.9,5,10,yes"), tmp_path / "other")
