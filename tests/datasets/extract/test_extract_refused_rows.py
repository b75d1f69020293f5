"""`yt8m extract` refuses rows whose labels it cannot use, before it decodes a video."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.command_line import cli
from yt8m.errors import RunError


@pytest.mark.parametrize("other", ["cat", "1"])
def test_a_number_that_is_no_class_of_the_vocabulary_is_refused(tmp_path: pathlib.Path, other: str) -> None:
    (tmp_path / "names.csv").write_text("index,name\n0,cat\n1,dog\n")
    (tmp_path / "clips.csv").write_text(f"path,labels\na.mp4,{other}\nb.mp4,7\n")
    words = [f"--{name}={tmp_path / file}" for name, file in (("videos", "clips.csv"), ("vocabulary", "names.csv"))]
    with pytest.raises(RunError, match=r"row 2: the label '7' is not one of the 2 classes of the vocabulary"):
        cli.call("extract", [*words, f"--out={tmp_path / 'data'}", "--extractors=own_extractors:Colours"])
