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


WITHOUT = "video,look.ordinal,look.onset,look.offset\na,1,0,1000\nb,1,2000,2500\n"


def test_a_column_without_codes_is_a_class(tmp_path: pathlib.Path) -> None:
    expected = {"a": [(0, 1, "look")], "b": [(2, 2.5, "look")]}
    with pytest.raises(UsageError, match=r"such as 2500: .* Write look.onset_ms and look.offset_ms, or look.onset_s"):
        spans_of(tmp_path, WITHOUT)
    assert spans_of(tmp_path, WITHOUT.replace("onset,", "onset_ms,").replace("offset", "offset_ms")) == expected
    named = WITHOUT.replace("onset,", "onset_s,").replace("offset", "offset_s")
    assert spans_of(tmp_path, named)["b"] == [(2000, 2500, "look")]
    assert spans_of(tmp_path, WITHOUT.replace("2000,2500", "200000,250000"))["b"] == [(200, 250, "look")]


@pytest.mark.parametrize("times", ["1.5,6.25", "2,7", "00:00:02,00:00:07"])
def test_fractions_small_numbers_and_clocks_are_no_milliseconds(times: str, tmp_path: pathlib.Path) -> None:
    start, end = (float(text[-4:].lstrip(":0")) for text in times.split(","))
    text = f"video,cry.ordinal,cry.onset,cry.offset\na,1,{times}\nb,1,0,1\n"
    assert spans_of(tmp_path, text) == {"a": [(start, end, "cry")], "b": [(0, 1, "cry")]}
    text = text.replace("offset\n", "offset,cry.code\n").replace(times, f"{times},loud").replace("0,1\n", "0,1,low\n")
    assert spans_of(tmp_path, text) == {"a": [(start, end, "loud")], "b": [(0, 1, "low")]}


@pytest.mark.parametrize("name", ["label", "class"])
def test_labels_beside_the_columns(name: str, tmp_path: pathlib.Path) -> None:
    text = f"video,ev.ordinal,ev.onset,ev.offset,{name}\na,1,1.5,6.25,cat\nb,1,0,2,dog\n"
    expected = {"a": [(1.5, 6.25, "cat")], "b": [(0, 2, "dog")]}
    assert spans_of(tmp_path, text) == expected
    assert spans_of(tmp_path, text, columns=(f"labels={name}",)) == expected
    coded = text.replace("offset", "offset,ev.code").replace(",cat", ",x,cat").replace(",dog", ",y,dog")
    with pytest.raises(UsageError, match=f"--columns=labels={name} or --columns=labels=ev.code"):
        spans_of(tmp_path, coded)
    assert spans_of(tmp_path, coded, columns=("labels=ev.code",))["a"] == [(1.5, 6.25, "x")]
    assert spans_of(tmp_path, coded, columns=(f"labels={name}",)) == expected


def test_several_codes_are_refused_with_the_flag(tmp_path: pathlib.Path) -> None:
    text = ONE.format("x").replace("code01\n", "code01,x.hand\n").replace("look\n", "look,left\n")
    text = text.replace("point\n", "point,right\n")
    with pytest.raises(UsageError, match=r"--columns=labels=x.code01 or --columns=labels=x.hand"):
        spans_of(tmp_path, text)
    assert spans_of(tmp_path, text, columns=("labels=x.hand",))["b"] == [(0, 0.9, "left")]


def test_whole_numbers_beside_an_ordinal_may_count_either_unit(tmp_path: pathlib.Path) -> None:
    text = "video,ordinal,onset,offset,code\na,1,500,12400,look\na,2,13000,14000,point\nb,1,0,900,look\n"
    with pytest.raises(UsageError, match=r"such as \d+: milliseconds.* or seconds.*_ms\b"):
        spans_of(tmp_path, text)
    named = text.replace("onset,offset", "onset_ms,offset_ms")
    chosen = ("unused=ordinal",)
    expected = {"a": [(0.5, 12.4, "look"), (13, 14, "point")], "b": [(0, 0.9, "look")]}
    assert spans_of(tmp_path, named, columns=chosen) == expected
    seconds = text.replace("500,12400", "5,12").replace("13000,14000", "13,14").replace("0,900", "0,9")
    expected = {"a": [(5, 12, "look"), (13, 14, "point")], "b": [(0, 9, "look")]}
    assert spans_of(tmp_path, seconds, columns=chosen) == expected
