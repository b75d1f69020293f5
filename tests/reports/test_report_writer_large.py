"""Pages of the largest sample and of a few own classes."""

from __future__ import annotations

import pathlib
import re

import pytest

from benchmarks import large_report
from yt8m.command_line import cli
from yt8m.records import vocabulary


@pytest.mark.long
@pytest.mark.heavy
def test_the_largest_page_is_below_eight_megabytes(tmp_path: pathlib.Path) -> None:
    large_report.write(str(tmp_path))
    assert cli.main(["report", str(tmp_path)]) == 0
    assert 1e6 < (tmp_path / "eval/report.html").stat().st_size < 8e6


@pytest.mark.heavy
def test_a_run_with_own_names_has_no_name_of_youtube8m(tmp_path: pathlib.Path) -> None:
    names = [f"kind {index} of mine" for index in range(24)]
    large_report.write(str(tmp_path), videos=300, num_classes=24)
    vocabulary.write(str(tmp_path / vocabulary.NAME), vocabulary.of_names(names))
    assert cli.main(["report", str(tmp_path), "--resamples=20"]) == 0
    page = (tmp_path / "eval/report.html").read_text()
    texts = set(re.findall(r">([^<>]+)<", page)) | set(re.findall(r'"([^"]*)"', page))
    words = " ".join(texts)
    assert all(f"{name}<" in page for name in names)
    published = vocabulary.load()
    rare = {name for name in (*published.names, *published.verticals) if name and len(name) > 6} - {
        "Training",
        "Performance",
    }
    assert [name for name in rare if re.search(rf"\b{re.escape(name)}\b", words)] == []
    assert "YouTube" not in page
    assert texts.isdisjoint(published.verticals)
