"""Pages and errors name the Pythons and TensorFlows that pyproject.toml takes and constraints.txt pins."""

from __future__ import annotations

import pathlib
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from yt8m import errors
from yt8m.command_line import cloud_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TAKEN = SpecifierSet(PROJECT["requires-python"])
LEAST = next(bound.version for bound in TAKEN if bound.operator == ">=")
MINORS = [f"3.{minor}" for minor in range(99) if f"3.{minor}.99" in TAKEN]

(PIN,) = (
    Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("tensorflow==")
)
PINNED = next(iter(PIN.specifier)).version.rpartition(".")[0]  # 2.21
# Those for which the pinned TensorFlow is; a later one takes the next TensorFlow, before it is released by PRE=1.
RELEASED = [minor for minor in MINORS if not PIN.marker or PIN.marker.evaluate({"python_version": minor})]

RANGE = re.compile(r"(3\.\d+[.\d]*\d)[^.,;]{0,20}? to (3\.\d+)")
PAGES = ["README.md", "CONTRIBUTING.md", ".ci/run", "yt8m/command_line/cloud_job.py", "yt8m/errors.py", "Makefile"]
PAGES += [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]


def test_every_range_of_pythons_on_a_page_is_that_of_the_project() -> None:
    expected = {(LEAST, RELEASED[-1]), (LEAST, MINORS[-1])}
    ranges = {page: set(RANGE.findall((ROOT / page).read_text())) for page in PAGES}
    assert {page: wrong for page in PAGES if (wrong := ranges[page] - expected)} == {}
    stated = {page for page in PAGES if (LEAST, RELEASED[-1]) in ranges[page]}
    assert stated >= {"README.md", "CONTRIBUTING.md", "docs/users/tutorial.md", "docs/users/cloud.md"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/users/tutorial.md"])
def test_pages_name_the_command_for_a_python_without_a_released_tensorflow(page: str) -> None:
    sentences = re.split(r"\n\n|\. ", (ROOT / page).read_text())
    for minor in MINORS[len(RELEASED) :]:
        assert any(minor in sentence and "PRE=1" in sentence for sentence in sentences), minor
    if MINORS == RELEASED:
        assert not any("PRE=1" in sentence and "3." in sentence for sentence in sentences)


def test_the_readme_names_the_tensorflows() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.search(rf"{re.escape(f'{LEAST} to {RELEASED[-1]}')} with TensorFlow {re.escape(PINNED)} ", text)
    (tensorflow,) = (Requirement(line) for line in PROJECT["dependencies"] if line.startswith("tensorflow"))
    assert all(f"{version}.0" in tensorflow.specifier for version in re.findall(r"TensorFlow (2\.\d+)", text))


def test_a_job_in_the_cloud_takes_the_pythons_of_a_released_tensorflow() -> None:
    assert f"Python {LEAST} to {RELEASED[-1]}" == cloud_job._PYTHONS


def test_the_classifiers_are_the_pythons_that_are_taken() -> None:
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: Python :: 3." in text]
    assert named == MINORS


@pytest.mark.parametrize("minor", MINORS)
def test_the_advice_without_tensorflow_is_its_range_and_takes_pre_releases_where_there_is_no_release(
    minor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (requirement,) = (line for line in PROJECT["dependencies"] if line.startswith("tensorflow"))
    monkeypatch.setattr(sys, "version_info", (3, int(minor[2:]), 0))
    install = str(errors.missing_tensorflow("this needs")).partition("run pip install ")[2]
    assert install == (f"'{requirement}'." if minor in RELEASED else f"--pre '{requirement}'.")


@pytest.mark.parametrize("minor", MINORS)
def test_the_advice_without_beam_is_another_python_where_make_leaves_beam_out(
    minor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = re.search(r"^BEAM := .*version_info >= \(3, (\d+)\)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    monkeypatch.setattr(sys, "version_info", (3, int(minor[2:]), 0))
    for extra in ("beam", "dataflow"):
        advice = errors.install_advice(extra)
        assert (f"pip install -e '.[{extra}]'" in advice) == (int(minor[2:]) < int(bound[1]))
        assert (f"no version for Python 3.{bound[1]}," in advice) == (int(minor[2:]) >= int(bound[1]))
    assert "pip install -e '.[data]'" in errors.install_advice("data")
