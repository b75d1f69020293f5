"""`.ci/release.py`: which versions it refuses, with which Pythons it tries the wheel, and what the tag says."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zlib
from typing import Any

import pytest
import release_script
from packaging.specifiers import SpecifierSet

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def release(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, which releases a small repository without faults."""
    module = release_script.load("release")
    root = release_script.repository(tmp_path / "repository")
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(module, "DIST", root / "dist")
    return module


def rewrite(release: Any, name: str, old: str, new: str) -> None:
    path = release.ROOT / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    release_script.commit(release.ROOT)


def test_a_version_that_all_places_name_is_ready(release: Any) -> None:
    assert release.wrong_places("0.2.0") == []
    assert release.not_ready("0.2.0") == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("yt8m/version.py", "0.2.0", "0.3.0", "yt8m/version.py has 0.3.0"),
        ("CHANGELOG.md", "## 0.2.0 (2026-12-01)", "## 0.2.0", "CHANGELOG.md lacks"),
        ("CHANGELOG.md", "2026-12-01", "soon", "CHANGELOG.md lacks"),
        ("CITATION.cff", "version: 0.2.0", "version: 0.2.0.1", "CITATION.cff lacks"),
    ],
)
def test_a_version_that_a_place_does_not_name_is_refused(
    release: Any, name: str, old: str, new: str, said: str
) -> None:
    rewrite(release, name, old, new)
    (wrong,) = release.wrong_places("0.2.0")
    assert said in wrong


def test_the_version_of_the_format_of_the_citation_is_none_of_the_package(release: Any) -> None:
    rewrite(release, "CITATION.cff", "\nversion: 0.2.0", "")
    rewrite(release, "yt8m/version.py", "0.2.0", "1.2.0")
    rewrite(release, "CHANGELOG.md", "## 0.2.0", "## 1.2.0")
    assert release.wrong_places("1.2.0") == ["CITATION.cff lacks 'version: 1.2.0'"]


def test_a_change_that_is_not_committed_is_refused(release: Any) -> None:
    (release.ROOT / "yt8m/new.py").write_text("")
    assert release.wrong_places("0.2.0") == ["there are changes that are not committed"]


@pytest.mark.parametrize("options", [(), ("--annotate", "--message=x")])
def test_a_tag_on_another_commit_is_refused(release: Any, options: tuple[str, ...]) -> None:
    release_script.git(release.ROOT, "tag", *options, "v0.2.0")
    assert release.wrong_places("0.2.0") == []
    release_script.commit(release.ROOT)
    (wrong,) = release.wrong_places("0.2.0")
    assert "v0.2.0 is on another commit" in wrong


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("CHANGELOG.md", "2026-12-01", "not released", "CHANGELOG.md says '0.2.0 (not released)'"),
        ("pyproject.toml", "Repository", "Dataset", "pyproject.toml lacks 'Repository'"),
        ("README.md", "# yt8m\n", "`pip install yt8m` does not work yet", "README.md says"),
        (
            "yt8m/program.py",
            "...",
            "print(\"pip install -c c.txt -e '.[data]'\")",
            "yt8m/program.py; say pip install 'yt8m[",
        ),
    ],
)
def test_a_dry_run_notes_what_is_to_be_done(release: Any, name: str, old: str, new: str, said: str) -> None:
    """The repository itself has `not released` until its first release: `make release` refused to run at all."""
    rewrite(release, name, old, new)
    assert release.wrong_places("0.2.0") == []
    (note,) = release.not_ready("0.2.0")
    assert said in note


def test_what_users_of_the_package_may_read_names_no_checkout_at_the_tag(
    release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the first release all of these say so; afterwards nobody who installed the package could do it."""
    monkeypatch.setattr(release, "ROOT", ROOT)
    pages = release.naming_a_checkout()
    if "`pip install yt8m` does not work yet" in (ROOT / "README.md").read_text():
        assert {"README.md", "docs/users/bulk.md", "examples/own_data.ipynb", "yt8m/errors.py"} <= set(pages)
    else:
        assert pages == []
    assert [page for page in pages if page.startswith("yt8m/")] in ([], ["yt8m/errors.py"])


@pytest.fixture
def programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder whose programs the script takes for all there are; the index is another folder, `wheels`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "wheels").mkdir()
    (tmp_path / "bin/git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "bin"


def add_python(programs: pathlib.Path, name: str, line: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{line}\n")
    (programs / name).chmod(0o755)


def add_wheel(programs: pathlib.Path, version: str, python: str) -> None:
    (programs.parent / f"wheels/tensorflow-{version}-{python}-{python}-manylinux_2_17_x86_64.whl").touch()
    (programs.parent / f"wheels/tensorflow-{version}-{python}-{python}-manylinux_2_17_aarch64.whl").touch()


def test_pythons_without_a_pinned_tensorflow_are_not_tried(release: Any, programs: pathlib.Path) -> None:
    """TensorFlow 2.21 has none for Python 3.14: where that was installed, pip refused, and so the release ended."""
    add_wheel(programs, "99.1.0", "cp311")
    add_wheel(programs, "99.2.0rc0", "cp314")
    add_python(programs, "python3.11", "echo 3.11.9")
    add_python(programs, "python3.14", "echo 3.14.0")
    assert release.reasons_against() == {"python3.11": "", "python3.14": release.UNPINNED}


def test_a_pinned_tensorflow_that_the_index_lacks_is_named_with_those_that_it_has(
    release: Any, programs: pathlib.Path
) -> None:
    add_wheel(programs, "99.1.0", "cp311")
    add_wheel(programs, "99.2.0rc0", "cp314")
    add_python(programs, "python3.11", "echo 3.11.9")
    add_python(programs, "python3.14", "echo 3.14.0")
    rewrite(release, "constraints.txt", '99.1.0; python_version < "3.14"', "99.2.0rc0")
    reasons = release.reasons_against()
    assert reasons["python3.14"] == ""
    assert re.search(r"tensorflow==99\.2\.0rc0 .*99\.1\.0", reasons["python3.11"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo 3.11.2", ""),
        ("echo 3.11.1", "is 3.11.1, not <3.15,>=3.11.2"),
        ("echo no ensurepip >&2; exit 1", "cannot make a virtual environment: no ensurepip"),
        (None, "is not on this machine"),
    ],
)
def test_pythons_that_cannot_try_the_wheel_have_their_reason(
    release: Any, programs: pathlib.Path, line: str | None, said: str
) -> None:
    """With one of these the release ended in the middle, where pip refused the wheel."""
    if line:
        add_python(programs, "python3.11", line)
    assert release.why_not("python3.11", SpecifierSet(">=3.11.2,<3.15")) == said


def ended(release: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """What the script says as it ends."""
    monkeypatch.setattr(sys, "argv", ["release.py", *words])
    with pytest.raises(SystemExit) as end:
        release.main()
    return str(end.value)


def test_strict_refuses_what_a_dry_run_notes(
    release: Any, programs: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_wheel(programs, "99.1.0", "cp311")
    rewrite(release, "CHANGELOG.md", "2026-12-01", "not released")
    said = ended(release, monkeypatch, "0.2.0", "--strict")
    assert "cannot release 0.2.0" in said
    assert "'0.2.0 (not released)'" in said
    assert "python3.11 is not on this machine" in said
    assert "python3.14" not in said  # for which no TensorFlow is pinned
    assert not release.DIST.exists()


def test_strict_refuses_an_index_that_fails_for_one_python(
    release: Any, programs: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a Python counted as one without a TensorFlow: the release would have been published without trying it."""
    rewrite(release, "constraints.txt", '; python_version < "3.14"', "")
    add_wheel(programs, "99.1.0", "cp311")
    add_python(programs, "python3.11", "echo 3.11.9")
    add_python(programs, "python3.14", "echo 3.14.0")
    failing = 'case "$*" in *python-version=3.14*) echo "ERROR: HTTP error 503" >&2; exit 1;; esac'
    add_python(programs, "python", f'{failing}\nexec {sys.executable} "$@"')
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    said = ended(release, monkeypatch, "0.2.0", "--strict")
    assert re.search(r"python3\.14 .*tensorflow==99\.1\.0.*HTTP error 503", said)
    assert "python3.11" not in said
    assert not release.DIST.exists()


def test_a_wheel_that_no_python_can_try_is_refused(
    release: Any, programs: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_wheel(programs, "99.1.0", "cp311")
    said = ended(release, monkeypatch, "0.2.0")
    assert "python3.11 is not on this machine" in said
    assert f"python3.14 {release.UNPINNED}" in said


def test_the_tag_holds_the_checksums_that_the_forge_compares(release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tagging = zlib.ZLIB_RUNTIME_VERSION
    release.DIST.mkdir()
    (release.DIST / "yt8m-0.2.0.tar.gz").write_bytes(b"x")
    (release.DIST / "components.cdx.json").write_bytes(b"{}")
    sums = {"yt8m-0.2.0.tar.gz": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}
    release.write_sums("0.2.0", sums)
    summed = (release.DIST / "SHA256SUMS").read_text().splitlines()
    assert [line.split()[1] for line in summed] == ["components.cdx.json", "yt8m-0.2.0.tar.gz"]
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=release.DIST).returncode == 0
    missing, advice = release.other_checksums("0.2.0", sums)
    assert re.search(r"yt8m-0\.2\.0\.tar\.gz is 2d711642\w{56} here and not named .*v0\.2\.0", missing)
    assert f"{zlib.ZLIB_RUNTIME_VERSION} here, and not named in the tag" in advice
    release_script.git(release.ROOT, "tag", "--annotate", "v0.2.0", f"--file={release.DIST / 'TAG'}")
    assert release.other_checksums("0.2.0", sums) == []
    assert "dist/MEMBERS" in release.other_checksums("0.2.0", {"yt8m-0.2.0.tar.gz": "0" * 64})[1]
    monkeypatch.setattr(release.zlib, "ZLIB_RUNTIME_VERSION", "9.9.9")
    other, advice = release.other_checksums("0.2.0", {"yt8m-0.2.0.tar.gz": "0" * 64})
    assert re.search(r"yt8m-0\.2\.0\.tar\.gz is 0{64} here and 2d711642\w{56} in .*v0\.2\.0", other)
    assert f"9.9.9 here, and {tagging} in the tag" in advice
    assert "release.yml" in advice


@pytest.mark.parametrize("place", ["argument", "environment"])
def test_make_gives_the_version_to_the_shell_as_a_value(tmp_path: pathlib.Path, place: str) -> None:
    """On a forge it is the name of a tag, which may hold `;` and `$(...)`."""
    words, environment = ["make", "--dry-run", "release"], dict(os.environ)
    if place == "argument":
        words.append(f"VERSION=0.1.0; touch {tmp_path}/made")
    else:
        environment["VERSION"] = f"$(shell touch {tmp_path}/made)"
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '.ci/release.py "$VERSION"' in done.stdout
    assert "touch" not in done.stdout
    assert list(tmp_path.iterdir()) == []
