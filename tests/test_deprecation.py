"""A name that will go away warns where it is used, with the version in which it goes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings

import pytest
from packaging.version import Version

from yt8m import deprecation
from yt8m.deprecation import deprecated, moved
from yt8m.version import __version__


@pytest.fixture(autouse=True)
def nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "announced", {})


def test_a_function_warns_at_the_line_that_calls_it_and_works_as_before() -> None:
    @deprecated("9.1.0", "yt8m.load")
    def total(first: int, second: int = 2) -> int:
        """Adds."""
        return first + second

    with pytest.warns(DeprecationWarning, match=r"total goes in yt8m 9\.1\.0; use yt8m\.load") as caught:
        assert total(1, second=4) == 5
    assert caught[0].filename == __file__
    assert (total.__name__, total.__doc__) == ("total", "Adds.")
    assert list(deprecation.announced.values()) == ["9.1.0"]


def test_a_class_warns_when_an_object_is_made_and_remains_a_class() -> None:
    @deprecated("9.1.0", "Other")
    @dataclasses.dataclass(frozen=True)
    class Former:
        size: int = 3

    class Derived(Former):
        pass

    with pytest.warns(DeprecationWarning, match="Former goes in yt8m 9.1.0") as caught:
        assert Former(5).size == 5
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(Derived(7), Former)


def test_a_name_that_has_moved_is_given_with_a_warning() -> None:
    get = moved("yt8m.old", "9.1.0", {"UsageError": "yt8m.errors"})
    with pytest.warns(DeprecationWarning, match=r"yt8m\.old\.UsageError goes in yt8m 9\.1\.0; use yt8m\.errors\.Usage"):
        assert get("UsageError").__module__ == "yt8m.errors"
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        get("Nothing")


def test_a_command_shows_no_such_warning() -> None:
    """Users of the command line cannot mend the import of a program."""
    ended = subprocess.run([sys.executable, "-m", "yt8m", "--help"], capture_output=True, text=True)
    assert (ended.returncode, "DeprecationWarning" in ended.stderr) == (0, False)


def test_former_places_of_names_still_work() -> None:
    with pytest.warns(DeprecationWarning, match=r"use yt8m\.config\.export_config\.ExportConfig"):
        from yt8m.config.programs import ExportConfig
    assert ExportConfig.__module__ == "yt8m.config.export_config"


def test_nothing_is_kept_longer_than_announced() -> None:
    code = """
import importlib, pkgutil, yt8m
from yt8m.deprecation import announced
for module in pkgutil.walk_packages(yt8m.__path__, "yt8m."):
    if module.name.startswith("yt8m.config"):
        importlib.import_module(module.name)
print(*(f"{name}={version}" for name, version in announced.items()))
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    versions = dict(pair.split("=") for pair in printed.split())
    assert versions
    current = Version(__version__)
    assert [name for name, version in versions.items() if Version(version) <= current] == []
