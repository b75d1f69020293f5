"""Datavyu's tables: each of its columns has an ordinal, an onset and an offset in milliseconds, and codes."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError

ONE = "video,{0}.ordinal,{0}.onset,{0}.offset,{0}.code01\na,1,500,12400,look\na,2,13000,15000,point\nb,1,0,900,look\n"


@pytest.mark.parametrize("name", ["behavior", "mom_gaze", "Trial 1"])
@pytest.mark.parametrize("sign", [".", "_"])
def test_codes_are_labels_and_times_milliseconds(name: str, sign: str, tmp_path: pathlib.Path) -> None:
    text = ONE.format(name).replace(f"{name}.", f"{name}{sign}")
    assert spans_of(tmp_path, text) == {"a": [(0.5, 12.4, "look"), (13.0, 15.0, "point")], "b": [(0, 0.9, "look")]}


def test_columns_beside_one_another_have_their_own_cells(tmp_path: pathlib.Path) -> None:
    header = "video,x.ordinal,x.onset,x.offset,x.code,y.ordinal,y.onset,y.offset,y.code\n"
    text = f"{header}a,1,0,1000,look,1,5000,6000,talk\na,2,2000,3000,point,,,,\nb,,,,,,,,\n"
    expected = [(0, 1, "look"), (5, 6, "talk"), (2, 3, "point")]
    assert spans_of(tmp_path, text) == {"a": expected, "b": []}
    assert spans_of(tmp_path, text, columns=("labels=y.code",))["a"] == [(5, 6, "talk")]


def test_a_column_without_codes_is_a_class(tmp_path: pathlib.Path) -> None:
    text = "video,look.ordinal,look.onset,look.offset\na,1,0,1000\nb,1,2000,2500\n"
    assert spans_of(tmp_path, text) == {"a": [(0, 1, "look")], "b": [(2, 2.5, "look")]}


def test_several_codes_are_refused_with_the_flag(tmp_path: pathlib.Path) -> None:
    text = ONE.format("x").replace("code01\n", "code01,x.hand\n").replace("look\n", "look,left\n")
    text = text.replace("point\n", "point,right\n")
    with pytest.raises(UsageError, match=r"--columns=labels=x.code01 or --columns=labels=x.hand"):
        spans_of(tmp_path, text)
    assert spans_of(tmp_path, text, columns=("labels=x.hand",))["b"] == [(0, 0.9, "left")]


def test_whole_numbers_beside_an_ordinal_may_count_either_unit(tmp_path: pathlib.Path) -> None:
    text = "video,ordinal,onset,offset,code\na,1,500,12400,look\na,2,13000,14000,point\nb,1,0,900,look\n"
    with pytest.raises(UsageError, match="milliseconds, if Datavyu has written them, or seconds"):
        spans_of(tmp_path, text)
    named = text.replace("onset,offset", "onset_ms,offset_ms")
    chosen = ("unused=ordinal",)
    expected = {"a": [(0.5, 12.4, "look"), (13, 14, "point")], "b": [(0, 0.9, "look")]}
    assert spans_of(tmp_path, named, columns=chosen) == expected
    seconds = text.replace("500,12400", "5,12").replace("13000,14000", "13,14").replace("0,900", "0,9")
    expected = {"a": [(5, 12, "look"), (13, 14, "point")], "b": [(0, 9, "look")]}
    assert spans_of(tmp_path, seconds, columns=chosen) == expected
