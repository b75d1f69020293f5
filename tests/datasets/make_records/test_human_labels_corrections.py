"""Decisions on labels: the labels that they remove and add, and the tables that are refused."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import labels_of

from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.human_labels import Corrections, Decision, read_decisions
from yt8m.datasets.make_records.rows import Labels
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, vocabulary
from yt8m.records.batches import read_records

Run = Callable[..., pathlib.Path]
NAMES = ("cat", "dog", "=bird")
CLASSES = Classes({name: number for number, name in enumerate(NAMES)}, vocabulary.of_names(NAMES), 3)
HEADER = "rank,video,class,kind,chance,decision"


def table(folder: pathlib.Path, *rows: str) -> str:
    path = folder / "decisions.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return str(path)


DECIDED = st.dictionaries(
    st.tuples(st.integers(0, 5), st.integers(0, 2)), st.tuples(st.booleans(), st.sampled_from(["yes", "no", ""]))
)
LABELS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2)))


@given(LABELS, DECIDED)
def test_labels_are_changed_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, labels: set[tuple[int, int]], decided: dict[Any, Any]
) -> None:
    """The result is that of sets of labels, to which each decision adds a label, or from which it removes one."""
    ids = [" a", "b ", "line\\x0abreak", "'quoted", "'=sum", "f"]
    shown = ["'=bird" if name == "=bird" else name for name in NAMES]
    rows = [
        f"1,{ids[row]},{shown[number]},{'missing' if is_missing else 'wrong'},0.5,{answer}"
        for (row, number), (is_missing, answer) in decided.items()
    ]
    corrections = Corrections(table(tmp_path_factory.mktemp("decisions"), *rows))
    corrections.check(CLASSES)
    pairs = np.array(sorted(labels), np.int64).reshape(-1, 2)
    videos = [b" a", b"b ", b"line\nbreak", b"'quoted", b"=sum", b"f"]
    corrected, added, removed = corrections.apply(videos, Labels(pairs[:, 0], pairs[:, 1]), CLASSES)
    changes = {pair: is_missing for pair, (is_missing, answer) in decided.items() if answer == "yes"}
    expected = (labels | {pair for pair in changes if changes[pair]}) - {pair for pair in changes if not changes[pair]}
    assert list(zip(corrected.rows.tolist(), corrected.codes.tolist(), strict=True)) == sorted(expected)
    assert sorted(added.tolist()) == sorted(row for row, _ in expected - labels)
    assert sorted(removed.tolist()) == sorted(row for row, _ in labels - expected)
    idle = {pair for pair, is_missing in changes.items() if is_missing == (pair in labels)}
    assert {(videos.index(decision.video), NAMES.index(decision.label)) for decision in corrections.idle} == idle


def test_records_say_what_was_corrected(run: Run, tmp_path: pathlib.Path) -> None:
    before = labels_of(run())
    first, second, *_ = sorted(before)
    decisions = table(
        tmp_path,
        f"1,{first},{sorted(before[first])[0]},wrong,0.99,yes",
        f"2,{second},{sorted({'cat', 'dog', 'bird'} - before[second])[0]},missing,0.9,Yes",
        f"3,{second},{sorted(before[second])[0]},wrong,0.8,no",
        "4,no such video,cat,wrong,0.7,yes",
    )
    made = run(out=str(tmp_path / "corrected"), corrections=decisions)
    expected = before | {first: before[first] - {sorted(before[first])[0]}}
    expected[second] = before[second] | {sorted({"cat", "dog", "bird"} - before[second])[0]}
    assert labels_of(made) == expected
    described = [manifest.read(str(path)) for path in sorted(made.glob("*/manifest.json"))]
    assert [each.split for each in described] == ["test", "train", "validate"]
    assert sum(each.corrections["labels added"] for each in described) == 1
    assert sum(each.corrections["labels removed"] for each in described) == 1
    assert json.loads((made / "summary.json").read_text())["labels corrected"] == {"added": 1, "removed": 1}
    assert sum(sum(each.data.positives) for each in described if each.data and each.data.positives) == sum(
        len(labels) for video, labels in expected.items() if video in videos_of(made, "train")
    )


@pytest.mark.heavy
def test_decisions_without_effect_are_said(
    run: Run, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = labels_of(run())
    first, label = next((video, sorted(labels)[0]) for video, labels in sorted(before.items()) if labels)
    absent = sorted({"cat", "dog", "bird"} - before[first])[0]
    rows = [
        f"1,{first},{label},missing,0.9,yes",
        f"2,{first},{absent},wrong,0.9,yes",
        f"3,{first},{absent},missing,1,no",
    ]
    run(out=str(tmp_path / "same"), corrections=table(tmp_path, *rows))
    text = capsys.readouterr().err
    assert "2 decisions of --corrections=" in text
    assert re.search(rf"line 2: '{label}' of '{first}' is said to be missing, but the table already has it", text)
    rows = [f"1,{first},{label},wrong,0.9,yes"]
    run(out=str(tmp_path / "other"), corrections=table(tmp_path, *rows))
    assert "changed nothing" not in capsys.readouterr().err


@pytest.mark.heavy
def test_other_decisions_make_other_records(run: Run, tmp_path: pathlib.Path) -> None:
    made = run(corrections=table(tmp_path, "1,clip 000,cat,wrong,0.9,"))
    run(corrections=table(tmp_path, "1,clip 000,cat,wrong,0.9,"), overwrite=True)
    table(tmp_path, "1,clip 000,cat,wrong,0.9,yes")
    with pytest.raises(UsageError, match=r"other files.*--overwrite"):
        run(corrections=str(tmp_path / "decisions.csv"))
    assert made.exists()


def videos_of(made: pathlib.Path, split: str) -> set[str]:
    return {video for batch in read_records(f"{made}/{split}/*.tfrecord") for video in batch.ids}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,a,cat,strange,0.9,yes", "line 2: the kind is 'strange'; expected wrong or missing"),
        ("1,a,cat,wrong,0.9,maybe", r"line 2: .*decision is 'maybe'; .*yes, no"),
        ("1,,cat,wrong,0.9,yes", "line 2: the video is empty"),
        ("1,a,,wrong,0.9,yes", "line 2: the class is empty"),
        (
            "1,a,cat,wrong,0.9,yes\n2,a,cat,missing,0.9,yes",
            "line 3: the decision on class 'cat' of this video contradicts",
        ),
        ('1,a,"cat', "line 2: this is not CSV"),
    ],
)
def test_rows_that_cannot_be_read_are_named(row: str, message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunError, match=message):
        read_decisions(table(tmp_path, row))


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        (("missing", "yes"), ("wrong", "no"), True),  # as it is decided after the records were made again
        (("wrong", "yes"), ("missing", "no"), True),
        (("wrong", "no"), ("wrong", "no"), True),
        (("wrong", "no"), ("missing", "no"), False),
        (("wrong", "yes"), ("wrong", "no"), False),
    ],
)
def test_several_decisions_on_a_class_must_agree(
    first: tuple[str, str], second: tuple[str, str], agree: bool, tmp_path: pathlib.Path
) -> None:
    path = table(tmp_path, *(f"1,a,cat,{kind},0.9,{answer}" for kind, answer in (first, second)))
    if agree:
        assert len(read_decisions(path)) == 2
        return
    with pytest.raises(RunError, match=r"line 3: .*class 'cat'.*contradicts"):
        read_decisions(path)


def test_decisions_by_name_and_by_number_contradict(run: Run, tmp_path: pathlib.Path) -> None:
    path = table(tmp_path, "1,clip 000,cat,missing,0.9,yes", "2,clip 000,0,missing,0.9,no")
    assert NAMES[0] == "cat"
    with pytest.raises(RunError, match=r"line 3: .*class '0'.*contradicts.* line 2\b"):
        run(corrections=path)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_table_that_a_spreadsheet_wrote_is_read(separator: str, tmp_path: pathlib.Path) -> None:
    """The table has a byte order mark, other separators and line ends, and further columns in another order."""
    rows = [["decision", "note", "kind", "class", "video"], ["Yes", "a, b", "wrong", "cat", "a"], ["", "", *"?", *"bc"]]
    rows[2][2] = "missing"
    path = tmp_path / "decisions.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "".join(separator.join(row) + "\r\n" for row in rows).encode())
    assert read_decisions(str(path)) == [
        Decision(2, b"a", "cat", "wrong", True),
        Decision(3, b"c", "b", "missing", None),
    ]


def test_decisions_on_videos_that_the_table_lacks_are_warned_of(
    run: Run, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = ("1,clip 000,cat,missing,0.9,yes", "2,x,cat,wrong,0.9,yes", "3,b,cat,wrong,0.9,yes", "4,c,cat,wrong,0.9,no")
    run(corrections=table(tmp_path, *rows))
    (warning,) = [line for line in capfd.readouterr().err.splitlines() if "are not in" in line]
    assert "Warning: 2 videos of " in warning
    assert warning.endswith("such as 'b'.")


def test_a_file_that_is_no_table_of_decisions_is_refused(run: Run, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"none\.csv: .*no such file"):
        run(corrections=str(tmp_path / "none.csv"))
    (tmp_path / "other.csv").write_text("video,class\n")
    with pytest.raises(UsageError, match="has no column 'kind'"):
        run(corrections=str(tmp_path / "other.csv"))
    with pytest.raises(UsageError, match=r"line 2: 'catt' is not.*\b3 classes.*did you mean cat"):
        run(corrections=table(tmp_path, "1,clip 000,catt,wrong,0.9,yes"))
    assert not (tmp_path / "out").exists()
