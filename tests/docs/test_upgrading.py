"""docs/users/upgrading.md: its format numbers and names are those of the package; each format has a recorded run."""

from __future__ import annotations

import pathlib
import re

import yt8m
from yt8m import formats

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/users/upgrading.md").read_text()


def test_the_format_numbers_are_those_of_the_code() -> None:
    written = [int(number) for number in re.findall(r"^\| .* \| .* \| (\d+) \|$", PAGE, re.MULTILINE)]
    assert written == [formats.CONFIG, formats.GRAPH, formats.MANIFEST, formats.ONNX, formats.WEIGHTS]


def test_each_format_of_runs_has_a_recorded_run() -> None:
    for number in range(1, formats.CONFIG + 1):
        assert (ROOT / f"tests/golden/run_format_{number}/config.json").exists()


def test_the_python_names_are_those_of_the_package() -> None:
    (names,) = re.findall(r"those of `import yt8m` \((.*?)\)", PAGE, re.DOTALL)
    assert sorted(re.findall(r"`(\w+)`", names)) == sorted(yt8m.__all__)
