"""What releases are made of beside code: the workflow of the forge, and CITATION.cff."""

from __future__ import annotations

import pathlib
import re
import tomllib
from typing import Any

import pytest
import yaml

from yt8m import version

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
RELEASE = ROOT / ".github/workflows/release.yml"


def read(path: pathlib.Path) -> dict[str, Any]:
    # YAML 1.1 takes the key `on` for the truth value.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(path.read_text()).items()}


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    return read(RELEASE)["jobs"]


def uses(job: dict[str, Any]) -> list[str]:
    return [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]


def shell(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_a_commit_with_their_version_beside(path: pathlib.Path) -> None:
    """Whoever owns an action can move its tags and branches, and its code runs with the permissions of the job."""
    lines = [line.strip() for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r"- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_expression_becomes_text_of_a_shell(path: pathlib.Path) -> None:
    """`${{ }}` is put into the script before the shell reads it: a tag's name could be a command."""
    for job in read(path)["jobs"].values():
        assert "${{" not in shell(job)


def test_only_the_tag_of_a_version_starts_a_release() -> None:
    assert read(RELEASE)["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}


def test_each_job_has_the_one_permission_that_it_needs(jobs: dict[str, Any]) -> None:
    assert read(RELEASE)["permissions"] == {}
    permissions = {name: job["permissions"] for name, job in jobs.items()}
    assert permissions == {
        "build": {"contents": "read"},
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    }
    assert {name: job.get("environment") for name, job in jobs.items()} == {
        "build": None,
        "publish": "release",
        "announce": None,
    }
    assert all(job["timeout-minutes"] <= 60 for job in jobs.values())


def test_code_of_the_repository_runs_only_where_nothing_can_be_written(jobs: dict[str, Any]) -> None:
    assert [name for name, job in jobs.items() if "actions/checkout" in uses(job)] == ["build"]
    (checkout,) = (step for step in jobs["build"]["steps"] if "actions/checkout" in step.get("uses", ""))
    assert checkout["with"] == {"persist-credentials": False}


def test_the_published_bytes_are_those_that_were_built_and_compared(jobs: dict[str, Any]) -> None:
    assert "RELEASE_ARGS=--strict" in shell(jobs["build"])
    assert jobs["publish"]["needs"] == "build"
    assert jobs["announce"]["needs"] == "publish"
    uploaded, *downloaded = (
        step["with"] for job in jobs.values() for step in job["steps"] if "load-artifact@" in step.get("uses", "")
    )
    assert uploaded["if-no-files-found"] == "error"
    assert [each["name"] for each in downloaded] == [uploaded["name"]] * 2
    check, publish = jobs["publish"]["steps"][1:]
    assert "sha256sum --check SHA256SUMS &&" in check["run"]
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publish["with"] == {"packages-dir": "packages"}


def test_the_workflow_has_every_python_that_the_package_names(jobs: dict[str, Any]) -> None:
    (setup,) = (step for step in jobs["build"]["steps"] if "setup-python" in step.get("uses", ""))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert setup["with"]["python-version"].split() == named
    assert f">={named[0]}." in project["requires-python"]
    assert f"<3.{int(named[-1].partition('.')[2]) + 1}" in project["requires-python"]


def test_the_citation_has_what_its_format_demands() -> None:
    """Quick, and for each change; `make release` asks cffconvert, which has the whole schema."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation.keys() <= {
        "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi", "identifiers", "keywords",
        "license", "license-url", "message", "preferred-citation", "references", "repository", "repository-artifact",
        "repository-code", "title", "type", "url", "version",
    }  # fmt: skip
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == version.__version__
    assert citation["type"] in ("software", "dataset")
    assert citation["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    for work in (citation, *citation["references"]):
        assert work["title"]
        for author in work["authors"]:
            assert author.keys() <= {"name"} or author.keys() == {"family-names", "given-names"}, author
    assert len(set(citation["keywords"])) == len(citation["keywords"])
    for reference in citation["references"]:
        assert reference.keys() >= {"type", "title", "authors"}
        assert type(reference["year"]) is int
