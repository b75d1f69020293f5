"""Parsers of what others wrote: odd values anywhere give the value or an error with a message, never a traceback."""

from __future__ import annotations

import copy
import io
import json
import math
import pathlib
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import examples

from yt8m import storage
from yt8m.command_line import cli
from yt8m.datasets import download
from yt8m.errors import RunError, UsageError, refusing
from yt8m.records import manifest, thresholds, vocabulary
from yt8m.runner import checkpoints
from yt8m.tables.understood import TableFlags, understand

REUSED = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}  # the fixture is the same for all examples
ODD = [math.inf, -math.inf, math.nan, 12.5, -1, 10**400, True, None, "", "\ud800", "²", "40", "../../x", [], {}, [[]]]
MANIFEST: dict[str, Any] = {
    "format": "yt8m manifest 1",
    "shards": {"a.tfrecord": {"records": 3, "bytes": 300, "crc32c": "1f2e3d4c"}},
    "data": {
        "level": "frame",
        "features": [{"name": "clip", "size": 16, "range": [-1.5, 3.0]}],
        "num_classes": 3,
        "max_frames": 300,
        "positives": [1, 2, 3],
    },
    "extractors": [{"name": "x", "feature": "clip"}],
    "split": "train",
    "corrections": {"file": "d.csv"},
}
PLAN = {"files": {"trainaa.tfrecord": "0" * 32, "trainab.tfrecord": "f" * 32}}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any, is_dropped: bool) -> Any:
    """The document with another value in one place, or without that place."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    if is_dropped:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return changed


def is_named(parse: Callable[[], object]) -> bool:
    """Whether the parser refuses its input with a message; any other exception fails the test."""
    try:
        parse()
    except (RunError, UsageError):
        return True
    return False


@given(st.sampled_from(places(MANIFEST)), st.sampled_from(ODD), st.booleans())
@examples(150, **REUSED)
def test_manifests(tmp_path: pathlib.Path, place: tuple[Any, ...], value: Any, is_dropped: bool) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(replaced(MANIFEST, place, value, is_dropped)))
    is_named(lambda: manifest.read(str(path)))


@pytest.mark.parametrize("value", [math.inf, math.nan, 12.5, -1, True, "\ud800", None, [], 1e400])
@pytest.mark.parametrize(
    "place", [("shards", "a.tfrecord", "records"), ("data", "num_classes"), ("data", "max_frames")]
)
def test_numbers_that_are_no_counts_are_refused(tmp_path: pathlib.Path, place: tuple[Any, ...], value: Any) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(replaced(MANIFEST, place, value, False)))
    with pytest.raises(RunError, match=r"manifest\.json is not a 'yt8m manifest 1'"):
        manifest.read(str(path))


def test_a_name_that_is_half_a_character_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(MANIFEST | {"split": "\ud800"}))
    with pytest.raises(RunError, match="is not a 'yt8m manifest 1'"):
        manifest.read(str(path))
    assert storage.parse_json(json.dumps("\U0001f600")) == "\U0001f600"  # two escapes for one character


@given(st.sampled_from(places(PLAN)), st.sampled_from(ODD), st.booleans())
@examples(60)
def test_plans_of_downloads(place: tuple[Any, ...], value: Any, is_dropped: bool) -> None:
    content = json.dumps(replaced(PLAN, place, value, is_dropped)).encode()
    is_named(lambda: download.parse_plan(content, "plan"))


CSV = b"index,name,threshold,basis,positives,precision,recall,f1,step\n0,Game,0.5,own,3,1,1,1,7\n1,Cat,0.2,all,0,,,,7\n"


@given(
    st.binary(max_size=6),
    st.integers(0, len(CSV)),
    st.integers(0, 8),
    st.sampled_from([b"", b"index,name\n0,a\n1,b\n"]),
)
@examples(150)
def test_vocabularies_and_thresholds(inserted: bytes, place: int, removed: int, other: bytes) -> None:
    whole = other or CSV
    changed = whole[: place % len(whole)] + inserted + whole[place % len(whole) + removed :]
    is_named(lambda: vocabulary.parse(changed, "v.csv"))
    is_named(lambda: thresholds.parse(changed.decode("utf-8", "replace"), "t.csv"))


@pytest.mark.parametrize("name", ["²", "\u0661", "1_0", "+1", "-1", " 1"])
def test_folders_of_exports_and_checkpoints_with_odd_digits(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "run" / "export" / name).mkdir(parents=True)
    assert cli.main(["predict", f"--model={tmp_path}/run", "x.tfrecord"]) in (1, 2)
    assert "error: " in capsys.readouterr().err
    assert isinstance(checkpoints.step_of(f"model.ckpt-{name}"), int)


def header_of(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "shape", ["(True, 8)", "(4.0, 8)", "('a',)", "(-1, 8)", "(10**30, 8)", "(1e400, 8)", "8", "()"]
)
def test_arrays_with_odd_headers_are_bad_rows(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], shape: str
) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.zeros((4, 8), np.float32))
    (tmp_path / "1.npy").write_bytes(header_of(shape) + bytes(128))
    rows = "".join(f"v{number},c1,{number}.npy\n" for number in range(3))
    (tmp_path / "t.csv").write_text(f"id,labels,path\n{rows}")
    words = ["make-records", f"--table={tmp_path}/t.csv", f"--out={tmp_path}/out", "--splits=train:1"]
    assert cli.main(words) in (1, 2)
    assert re.search(r"t\.csv|1\.npy", capsys.readouterr().err.partition("error: ")[2])


# Small tables in the forms of JSON that `--table` understands.
_CHOICE = {"from_name": "c", "type": "choices", "value": {"choices": ["x"]}}
_RANGE = {"timelinelabels": ["x"], "ranges": [{"start": 1, "end": 5}], "framesCount": 10, "duration": 2}
_BOX = {"labels": ["x"], "sequence": [{"frame": 1, "enabled": True, "time": 0.1}], "framesCount": 10, "duration": 2}
_PERSON = {"completed_by": {"id": 2}, "updated_at": "2024-01-01T00:00:00Z"}
TABLES: dict[str, Any] = {
    "choices": [{"id": 1, "data": {"id": "a"}, "annotations": [{**_PERSON, "result": [_CHOICE]}]}],
    "timeline": [
        {
            "data": {"id": "a"},
            "annotations": [
                {"result": [{"from_name": "c", "type": "timelinelabels", "value": _RANGE}]},
                {"result": [{"from_name": "c", "type": "videorectangle", "value": _BOX}]},
            ],
        },
        {"data": {"id": "b"}, "annotations": []},
    ],
    "coco": {
        "videos": [{"id": 1, "file_name": "a"}],
        "categories": [{"id": 1, "name": "x"}],
        "annotations": [{"video_id": 1, "category_id": 1}],
    },
    "activitynet": {"database": {"a": {"subset": "training", "annotations": [{"label": "x", "segment": [0, 1]}]}}},
    "fiftyone": {"classes": ["x", "y"], "labels": {"a": 0, "b": [1]}},
    "via": {"_via_img_metadata": {"1": {"filename": "a", "file_attributes": {"k": "x"}}}},
    "records": [{"id": "a", "labels": ["x", "y"], "split": "train", "start": 0, "end": "0:01"}, {"id": "b"}],
    "by id": {"a": ["x"], "b": ["y"]},
    "pandas": {"columns": ["id", "labels"], "data": [["a", "x"], ["b", "y"]], "index": [0, 1]},
    "columns": {"id": ["a", "b"], "labels": [["x"], ["y"]]},
    "datumaro": {
        "items": [{"id": "a", "annotations": [{"type": "label", "label_id": 0}]}],
        "categories": {"label": {"labels": [{"name": "x"}]}},
    },
    "vertex": [{"videoGcsUri": "a", "timeSegmentAnnotations": [{"displayName": "x"}]}],
    "labelbox": [
        {
            "data_row": {"id": "a", "external_id": "a"},
            "projects": {"p": {"labels": [{"annotations": {"classifications": [{"radio_answer": {"name": "x"}}]}}]}},
        }
    ],
}
_ODD_CELLS = [*ODD, {"a": {}}, [{"x": 1}], [1, "a", None], "\0"]


@given(st.data(), st.sampled_from(sorted(TABLES)), st.sampled_from(_ODD_CELLS), st.booleans(), st.booleans())
@examples(150, **REUSED)
def test_tables_of_json(
    tmp_path: pathlib.Path, data: st.DataObject, form: str, value: Any, is_dropped: bool, has_spans: bool
) -> None:
    place = data.draw(st.sampled_from(places(TABLES[form])))
    path = tmp_path / "t.json"
    path.write_text(json.dumps(replaced(TABLES[form], place, value, is_dropped)))

    def read() -> None:
        flags = TableFlags(path_endings=(".npy",), needs_labels=True, rows="spans" if has_spans else "")
        table = understand("--table", str(path), flags)
        for rows in table.batches(10):
            for name in (name for names in rows.cells["labels"] for name in names):
                table.clean_label(name)

    is_named(read)


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("choices", (0, "annotations", 0, "result")),
        ("choices", (0, "annotations", 0)),
        ("timeline", (0, "annotations")),
        ("activitynet", ("database", "a", "annotations", 0, "segment")),
        ("pandas", ("data", 0)),
        ("columns", ("labels", 0)),
    ],
)
@pytest.mark.parametrize("value", [5, {"x": [5]}, [{}]])
def test_a_part_of_a_table_of_another_kind_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], form: str, place: tuple[Any, ...], value: Any
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(replaced(TABLES[form], place, value, False)))
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    words = ["make-records", f"--table={path}", f"--array={tmp_path}/x.npy", f"--out={tmp_path}/o", "--dry_run"]
    for more in ([], ["--rows=spans", "--level=frame"]):
        status = cli.main([*words, *more])
        said = capsys.readouterr().err
        assert status == 0 or (status in (1, 2) and "error: " in said), said


_CUT_HEADER = b"\x93NUMPY\x01\x00" + (64).to_bytes(2, "little") + b"{'descr': ".ljust(64)
DAMAGED_ARRAYS = {
    "a header that ends too soon": _CUT_HEADER + bytes(64),
    "elements without bytes": header_of("(2, 8)").replace(b"'<f4'", b"'|S0'") + bytes(64),
    "nothing": b"",
}


@pytest.mark.parametrize("content", DAMAGED_ARRAYS.values(), ids=list(DAMAGED_ARRAYS))
@pytest.mark.parametrize("where", ["file", "folder", "member", "members", "column", "ids"])
def test_damaged_arrays_are_named_wherever_they_are(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: bytes, where: str
) -> None:
    (tmp_path / "t.csv").write_text("id,labels\na,x\nb,y\n")
    (tmp_path / "folder").mkdir()
    whole = io.BytesIO()
    np.save(whole, np.array(["a", "b"]))
    (tmp_path / "file.npy").write_bytes(content)
    for name in "ab":
        (tmp_path / f"folder/{name}.npy").write_bytes(content)
    archives = {
        "member": {"x": content},
        "members": {"a": content, "b": content},
        "column": {"id": whole.getvalue(), "labels": content},
        "ids": {"id": content, "labels": whole.getvalue()},
    }
    for name, members in archives.items():
        with zipfile.ZipFile(tmp_path / f"{name}.npz", "w") as archive:
            for member, written in members.items():
                archive.writestr(f"{member}.npy", written)
    table = f"{where}.npz" if where in ("column", "ids") else "t.csv"
    array = {"file": "file.npy", "folder": "folder", "member": "member.npz", "members": "members.npz"}.get(where, "")
    words = ["make-records", f"--table={tmp_path}/{table}", f"--out={tmp_path}/o", "--splits=train:1"]
    assert cli.main([*words, *([f"--array={tmp_path}/{array}"] if array else [])]) in (1, 2)
    assert (array or table) in capsys.readouterr().err.partition("error: ")[2]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("data", "num_classes"), 10**12),
        (("data", "max_frames"), 10**30),
        (("data", "features", 0, "size"), 10**12),
        (("data", "features", 0, "range"), [-1e308, 1e308]),
        (("data", "video_frames"), [3.9, 6.7]),
        (("data", "annotated"), "x"),
        (("shards", "a.tfrecord", "records"), "18"),
        (("shards", "a.tfrecord", "bytes"), 10**30),
        (("data", "positives"), [10**30, 1, 1]),
    ],
)
def test_numbers_in_a_manifest_that_nothing_can_have_are_refused(
    tmp_path: pathlib.Path, place: tuple[Any, ...], value: Any
) -> None:
    whole = MANIFEST | {"data": MANIFEST["data"] | {"video_frames": [3, 6], "annotated": "whole"}}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(whole))
    manifest.read(str(path))
    path.write_text(json.dumps(replaced(whole, place, value, False)))
    with pytest.raises(RunError, match=r"manifest\.json is not a 'yt8m manifest 1'"):
        manifest.read(str(path))


@pytest.mark.parametrize(
    "raised", [ValueError("x"), RecursionError(), OverflowError(), MemoryError(), SyntaxError("y")]
)
def test_whatever_a_parser_raises_becomes_its_message(raised: Exception) -> None:
    @refusing(lambda error: RunError(f"a.json is damaged: {type(error).__name__}"))
    def parse() -> None:
        raise raised

    with pytest.raises(RunError, match=f"a.json is damaged: {type(raised).__name__}"):
        parse()


@pytest.mark.parametrize("raised", [RunError("x"), UsageError("y"), KeyboardInterrupt()])
def test_errors_with_a_message_and_signals_pass(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught, refusing(lambda _: RunError("other")):
        raise raised
    assert caught.value is raised
