"""Files of thresholds: what is written is read back, and each fault is named with its line."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from yt8m.errors import RunError, UsageError
from yt8m.records import thresholds, vocabulary
from yt8m.records.thresholds import Guarantee, OperatingPoints, PrecisionTarget

HALF = np.array([0.5, 0.5, np.nan])
POINTS = OperatingPoints(
    np.array([0.1234567891, 0.5, 1 / 3]), np.array([True, False, False]), np.array([9, 1, 0]), HALF, HALF, HALF
)
NAMES = vocabulary.of_names(["cat", 'a "dog", =1+1', "=1+1"])


def test_what_is_written_says_where_each_threshold_comes_from(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "thresholds.csv"
    thresholds.write(str(path), POINTS, NAMES, step=70)
    assert path.read_text() == (
        "index,name,threshold,basis,positives,precision,recall,f1,step\n"
        "0,cat,0.123456789,class,9,0.5,0.5,0.5,70\n"
        '1,"a ""dog"", =1+1",0.5,common,1,0.5,0.5,0.5,70\n'
        "2,'=1+1,0.333333333,common,0,,,,70\n"
    )
    found = thresholds.read(str(path), 3)
    np.testing.assert_allclose(found.thresholds, POINTS.thresholds, rtol=1e-8)
    assert found.step == 70


def test_a_score_at_its_threshold_is_a_tag() -> None:
    tagger = thresholds.Tagger(np.array([0.5, 0.25, 0.75]), 1)
    classes = np.array([2, 0, 1], np.int32)
    assert tagger.are_tags(classes, np.array([0.75, 0.5, 0.2], np.float32)).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "the columns are missing"),
        ("index,name\n0,cat\n", r"columns .*index, name"),
        ("index,threshold\n0,0.5\n2,0.5\n", "line 3: the index is '2', not 1"),
        ("index,threshold\n0,much\n", "line 2: the threshold is 'much', not a number"),
        ("index,threshold\n0,inf\n", "line 2: the threshold is 'inf', not a number"),
        ("index,threshold,basis\n0,inf,class\n", "line 2: the threshold is 'inf', not a number"),
        ("index,threshold,basis\n0,-inf,below_target\n", "line 2: the threshold is '-inf', not a number"),
        ("index,threshold,target,confidence\n0,0.5,high,0.9\n", "line 2: target or confidence is"),
        ("index,threshold\n0\n", "line 2: the threshold is None"),
        ('index,threshold\n0,"0.5\n', "unexpected end of data"),
        ("index,threshold\n0,0.5\n1,0.5\n", r"\b2 classes.*\b3 classes"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: pathlib.Path, text: str, part: str) -> None:
    (tmp_path / "thresholds.csv").write_text(text)
    with pytest.raises(RunError, match=part):
        thresholds.read(str(tmp_path / "thresholds.csv"), 3)


def test_a_file_of_a_spreadsheet_is_read_and_one_in_another_code_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "thresholds.csv"
    path.write_bytes("\ufeffindex,name,threshold\r\n0,café,0.5\r\n".encode())
    assert thresholds.read(str(path), 1).thresholds.tolist() == [0.5]
    path.write_bytes("index;name;threshold\n0;café;0,5\n".encode("cp1252"))
    assert thresholds.read(str(path), 1).thresholds.tolist() == [0.5]
    path.write_bytes("index,name,threshold\n0,чай,0.5\n".encode("cp1251"))
    with pytest.raises(RunError, match=r"thresholds\.csv, line 2: this is not UTF-8 text"):
        thresholds.read(str(path), 1)


def test_the_models_own_file_counts_before_that_of_the_run(tmp_path: pathlib.Path) -> None:
    model, run = tmp_path / "run/export/8", tmp_path / "run"
    (run / "eval").mkdir(parents=True)
    model.mkdir(parents=True)
    assert thresholds.find_own(str(model), str(run), 1) is None
    for value, folder in ((0.3, run / "eval"), (0.2, run), (0.1, model)):
        (folder / thresholds.NAME).write_text(f"index,threshold\n0,{value}\n")
        found = thresholds.find_own(str(model), str(run), 1)
        assert found is not None
        tagger, path = found
        assert (tagger.thresholds.tolist(), tagger.step, path) == ([value], -1, str(folder / thresholds.NAME))
    assert thresholds.read_named(str(run / "eval" / thresholds.NAME), 1).thresholds.tolist() == [0.3]
    with pytest.raises(UsageError, match=r"none\.csv: .*no such file"):
        thresholds.read_named(f"{tmp_path}/none.csv", 1)


def test_only_thresholds_of_the_same_step_are_copied(tmp_path: pathlib.Path) -> None:
    (tmp_path / "eval").mkdir()
    thresholds.copy(str(tmp_path), str(tmp_path), 70)
    thresholds.write(str(tmp_path / "eval" / thresholds.NAME), POINTS, NAMES, step=70)
    thresholds.copy(str(tmp_path), str(tmp_path), 69)
    assert not (tmp_path / thresholds.NAME).exists()
    thresholds.copy(str(tmp_path), str(tmp_path), 70)
    assert (tmp_path / thresholds.NAME).read_bytes() == (tmp_path / "eval" / thresholds.NAME).read_bytes()


def test_a_damaged_file_is_not_copied_and_ends_no_export(tmp_path: pathlib.Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / thresholds.NAME).write_text("nothing")
    thresholds.copy(str(tmp_path), str(tmp_path), 70)
    assert not (tmp_path / thresholds.NAME).exists()


def test_a_guarantee_is_written_in_place_of_what_was_measured(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "thresholds.csv")
    unknown = np.full(3, np.nan)
    guarantee = Guarantee(PrecisionTarget(0.95, 0.9), np.array([61, 0, 0]), np.array([True, False, True]))
    points = OperatingPoints(
        np.array([0.8125, np.inf, np.inf]),
        np.array([True, False, False]),
        np.array([120, 2, 80]),
        unknown,
        np.array([0.6, 0, 0]),
        unknown,
        guarantee,
    )
    thresholds.write(path, points, NAMES, step=70)
    lines = pathlib.Path(path).read_text().splitlines()
    assert lines[0].endswith(",precision,recall,f1,step,target,confidence,n")
    assert lines[1].endswith(",0.8125,class,120,,0.6,,70,0.95,0.9,61")
    assert lines[2].endswith(",inf,too_few_labels,2,,0,,70,0.95,0.9,0")
    assert lines[3].endswith(",inf,below_target,80,,0,,70,0.95,0.9,0")
    found = thresholds.read(path, 3)
    assert (found.thresholds.tolist(), found.target) == ([0.8125, np.inf, np.inf], (0.95, 0.9))
    assert found.are_tags(np.array([0, 1, 2]), np.array([0.9, 1, 1], np.float32)).tolist() == [True, False, False]
