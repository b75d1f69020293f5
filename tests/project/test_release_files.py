"""The packages of a release: the same to the byte, with the members that belong there and links that work."""

from __future__ import annotations

import io
import os
import pathlib
import tarfile
import zipfile

import pytest
import release_script

release_files = release_script.load("release_files")


def test_two_builds_give_the_same_bytes_whatever_the_umask_and_the_path(tmp_path: pathlib.Path) -> None:
    """The modes of the wheel were those of the checkout: under the umask 002 it was another."""
    root = release_script.repository(tmp_path / "repository")
    packages = release_files.build_twice(root, tmp_path / "out", "0.2.0")
    assert sorted(packages) == ["yt8m-0.2.0-py3-none-any.whl", "yt8m-0.2.0.tar.gz"]
    tracked = set(release_script.FILES)
    for name, data in packages.items():
        members = set(release_files.member_sizes(name, data))
        assert release_files.wrong_members(name, members, tracked, "0.2.0") == []
    with zipfile.ZipFile(io.BytesIO(packages["yt8m-0.2.0-py3-none-any.whl"])) as wheel:
        described = wheel.read("yt8m-0.2.0.dist-info/METADATA").decode()
    assert "[Pages](https://example.org/owner/yt8m/blob/v0.2.0/docs/a.md#b)" in described
    modes = {
        oct((tmp_path / "out" / name / "clone/README.md").stat().st_mode & 0o777)
        for name in ("first", "second/elsewhere")
    }
    assert modes == {"0o644", "0o600"}  # so the two builds did differ


def a_wheel(mode: int, names: list[str], year: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            member = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            member.external_attr = mode << 16
            archive.writestr(member, name * 9)
    return packed.getvalue()


def test_a_repacked_wheel_depends_on_its_members_alone() -> None:
    names = ["yt8m-1.dist-info/RECORD", "yt8m-1.dist-info/WHEEL", "yt8m/b.py", "yt8m/a.py"]
    wheel = release_files.repacked("yt8m-1.whl", a_wheel(0o100664, names, 2020), 1_700_000_000)
    assert wheel == release_files.repacked("yt8m-1.whl", a_wheel(0o100600, names[::-1], 2021), 1_700_000_000)
    assert list(release_files.member_sizes("yt8m-1.whl", wheel)) == sorted(names[2:]) + names[:2][::-1]
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        assert [archive.read(name).decode() for name in names] == [name * 9 for name in names]
        assert {(each.external_attr >> 16, each.date_time) for each in archive.infolist()} == {
            (0o100644, (2023, 11, 14, 22, 13, 20))
        }


def a_source(folder: pathlib.Path, mode: int) -> bytes:
    folder.mkdir()
    (folder / "a.py").write_text("x")
    os.chmod(folder / "a.py", mode)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, "yt8m-1")
    return packed.getvalue()


def test_a_repacked_source_distribution_depends_on_its_members_alone(tmp_path: pathlib.Path) -> None:
    first, second = (a_source(tmp_path / str(mode), mode) for mode in (0o664, 0o600))
    repacked = release_files.repacked("yt8m-1.tar.gz", first, 5)
    assert repacked == release_files.repacked("yt8m-1.tar.gz", second, 5)
    assert release_files.member_sizes("yt8m-1.tar.gz", repacked) == {"a.py": 1}


TRACKED = {"yt8m/a.py", "docs/a.md", *release_files.IN_SOURCE}
DESCRIBED = {f"yt8m-1.dist-info/{name}" for name in release_files.IN_DIST_INFO}


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("yt8m-1-py3-none-any.whl", {"yt8m/a.py", *DESCRIBED}),
        (
            "yt8m-1.tar.gz",
            {"yt8m/a.py", "docs/a.md", "PKG-INFO", "yt8m.egg-info/requires.txt", *release_files.IN_SOURCE},
        ),
    ],
)
def test_a_missing_member_and_one_that_git_does_not_know_are_named(name: str, right: set[str]) -> None:
    def wrong(members: set[str]) -> list[str]:
        return release_files.wrong_members(name, members, TRACKED, "1")

    assert wrong(right) == []
    assert wrong(right - {"yt8m/a.py"}) == [f"{name} lacks yt8m/a.py"]
    assert wrong(right | {"yt8m/key.txt"}) == [f"{name} has yt8m/key.txt, which is not of the package"]


def test_links_between_files_lead_to_the_repository_at_the_tag() -> None:
    page = release_files.with_absolute_links(release_script.PAGE, "https://example.org/o/r", "v1")
    assert page == (
        "# yt8m\n\n[Pages](https://example.org/o/r/blob/v1/docs/a.md#b), "
        "![curve](https://example.org/o/r/raw/v1/docs/curve.png), [here](#yt8m), [there](https://example.org/)\n"
    )


def test_the_readme_has_no_relative_link_left() -> None:
    text = (release_script.FOLDER.parent / "README.md").read_text()
    page = release_files.with_absolute_links(text, "https://example.org/o/r", "v1")
    assert text.count("](") == page.count("](https://") > 0
