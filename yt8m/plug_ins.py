"""Classes that installed packages add to a registry, by entry points such as those of `yt8m.models`.

Installing a package is trusting it, so its classes have plain names and need no leave. A package is imported only when
one of its names is used: looking for names reads the metadata of the installed packages.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import logging

from yt8m.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*( [\w.+!-]+)?", re.ASCII)  # a package, and its version if it is known

# {(kind, name): (package and version, file)}: whose classes the files name that were read, such as a run's config.json
_expected: ContextVar[Mapping[tuple[str, str], tuple[str, str]]] = ContextVar("expected", default=MappingProxyType({}))
_chosen: dict[tuple[str, str], PlugIn] = {}  # the plug-ins that were named in this process, by kind and name
_warnings: set[str] = set()  # those that were logged: each is logged once in a process


class PlugIn(NamedTuple):
    """A class that an installed package offers; it is not imported yet.

    Attributes:
      kind: what it is, such as `model`.
    """

    kind: str
    point: EntryPoint

    @property
    def package(self) -> str:
        """The name of the package, as its metadata have it."""
        return _name_of(self.point.dist) or "of no name"

    @property
    def release(self) -> str:
        """The name and the version of the package."""
        distribution = self.point.dist
        return f"{self.package} {distribution.version}" if distribution and _name_of(distribution) else self.package

    def __str__(self) -> str:
        return f"the {self.kind} {self.point.name!r} of the installed package {self.package} ({self.point.value})"

    def load(self) -> Any:
        """Imports the class; whatever goes wrong in its module is an error that names the package."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the package may import TensorFlow without `yt8m.lazy`
        try:
            return self.point.load()
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"cannot load {self}: {type(error).__name__}: {error}. Update or reinstall {self.package}, or choose "
                f"another {self.kind}."
            ) from error


@functools.cache
def installed() -> tuple[EntryPoint, ...]:
    """The entry points for this package of all installed packages; they are looked for once in a process.

    A package that is in several folders of sys.path counts as it is in the first.
    """
    if not any(map(_may_have_plug_ins, sys.path)):
        return ()
    from importlib.metadata import distributions  # slow to import, and most people have no plug-ins

    points: dict[str, list[EntryPoint]] = {}
    for distribution in distributions():
        if own_points := _points_of(distribution):
            points.setdefault(_normal(_name_of(distribution)), own_points)
    return tuple(point for package in sorted(points) for point in points[package])


def _may_have_plug_ins(folder: str) -> bool:
    """Whether a folder of sys.path has a package with entry points for this one; also if it is no folder, but a zip."""
    if folder.endswith(".egg") or os.path.isfile(folder):
        return True
    files = pathlib.Path(folder).glob("*.*-info/entry_points.txt")
    with contextlib.suppress(OSError):
        return any(b"[yt8m." in file.read_bytes() for file in files)
    return True


def _points_of(distribution: Distribution) -> list[EntryPoint]:
    try:
        return [point for point in distribution.entry_points if point.group.startswith("yt8m.")]
    except Exception as error:
        package = _name_of(distribution)
        logging.warning("the entry points of the installed package %s cannot be read: %s", package, error)
        return []


def _name_of(distribution: Distribution | None) -> str:
    """The name of a package, as its metadata have it; empty if they are missing or damaged."""
    try:
        is_named = distribution is not None and "Name" in distribution.metadata
        return distribution.name if distribution and is_named else ""
    except Exception:  # the versions of Python differ in what they raise
        return ""


def by_name(kind: str, group: str) -> dict[str, list[PlugIn]]:
    """{name: the plug-ins that have it}; a name that several packages have is refused when it is used."""
    plug_ins: dict[str, list[PlugIn]] = {}
    for point in installed() if group else ():
        if point.group == group:
            plug_ins.setdefault(point.name, []).append(PlugIn(kind, point))
    return plug_ins


def find(kind: str, group: str, name: str, *, is_built_in: bool) -> PlugIn | None:
    """The plug-in that a name means; None if no package has one of this name, or if the name is a built-in one.

    Args:
      is_built_in: whether the registry itself has an entry of this name. It counts; a plug-in of the same name is
        refused by a warning, so that no package changes or blocks what a built-in name means.
    """
    plug_ins = by_name(kind, group).get(name, [])
    _refuse_other_package(kind, name, [] if is_built_in else plug_ins, is_built_in)
    if is_built_in:
        warn_of_built_in(plug_ins)
        return None
    if len(plug_ins) > 1:
        owners = " and ".join(f"{plug_in.package} ({plug_in.point.value})" for plug_in in plug_ins)
        raise UsageError(
            f"the {kind} {name!r} is of several installed packages: {owners}. Uninstall one of them, or name the class "
            "as package.module:Class."
        )
    for plug_in in plug_ins:
        _chosen[kind, name] = plug_in
    return plug_ins[0] if plug_ins else None


def warn_of_built_in(plug_ins: list[PlugIn]) -> None:
    """Logs that these plug-ins are refused, because they have built-in names."""
    for plug_in in plug_ins:
        warn_once(
            f"{plug_in} is refused, because yt8m itself has one of this name, which is used. Name the "
            f"class as package.module:Class, or ask the authors of {plug_in.package} for another name"
        )


def warn_once(message: str) -> None:
    """Logs a warning, unless this process has logged the same."""
    if message not in _warnings:
        _warnings.add(message)
        logging.warning("%s", message)


def package_of(kind: str, name: str) -> str:
    """The package of the plug-in that this process has named so; empty if it is none."""
    return _chosen[kind, name].package if (kind, name) in _chosen else ""


def packages_of(texts: set[str]) -> dict[str, str]:
    """{kind and name: package and version} of the plug-ins among these names, to be saved with them.

    These are the plug-ins that this process has named, and those of files that it has read.
    """
    releases = {key: release for key, (release, _) in _expected.get().items()}
    releases |= {key: plug_in.release for key, plug_in in _chosen.items()}
    return {f"{kind} {name}": release for (kind, name), release in sorted(releases.items()) if name in texts}


def expect(packages: Any, path: str) -> None:
    """Notes whose classes the file `path` names: the result of `packages_of` when it was written.

    In the same context, these names are refused if they are those of another package here, or of none.
    """
    for key, release in packages.items() if isinstance(packages, Mapping) else ():
        kind, _, name = str(key).partition(" ")
        if isinstance(release, str) and _PACKAGE.fullmatch(release):  # else the file names no package
            _expected.set({**_expected.get(), (kind, name): (release, path)})


def is_expected(kind: str, name: str) -> bool:
    """Whether a file that was read in this context names a plug-in so, which may be missing here."""
    return (kind, name) in _expected.get()


@contextlib.contextmanager
def local_expectations() -> Iterator[None]:
    """Forgets, at the end of the block, what `expect` has noted in it."""
    token = _expected.set(_expected.get())
    try:
        yield
    finally:
        _expected.reset(token)


def _refuse_other_package(kind: str, name: str, plug_ins: list[PlugIn], is_built_in: bool) -> None:
    release, path = _expected.get().get((kind, name), ("", ""))
    package = release.partition(" ")[0]
    if not release or _normal(package) in [_normal(plug_in.package) for plug_in in plug_ins]:
        return
    others = ["yt8m itself"] * is_built_in + [plug_in.package for plug_in in plug_ins]
    here = f"; here the name is one of {' and '.join(others)}" if others else ""
    raise UsageError(
        f"{path} names the {kind} {name!r} of the package {release}, which {_state_here(package)}{here}. If you trust "
        f"that package, install it: pip install '{release.replace(' ', '==')}'"
    )


def _state_here(package: str) -> str:
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return f"has none here in its version {metadata.version(package)}"
    return "is not installed here"


def _normal(package: str) -> str:
    """The same text for all spellings of a package's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()
