"""Prints the files of tests that are nearest to some files of the project: those of the same names in the same rooms.

python tests/campaigns/nearest.py yt8m/readers/base.py    the tests of one file
python tests/campaigns/nearest.py --since=main            those of every file that differs from main
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]


def nearest(path: pathlib.Path) -> list[pathlib.Path]:
    """The tests of a file, whose path is relative to the project: of a test file, itself; of other files, none."""
    if path.suffix != ".py" or path.parts[0] not in ("yt8m", "tests"):
        return []
    if path.parts[0] == "tests":
        return [path] if path.name.startswith("test_") and (ROOT / path).exists() else []
    folder = ROOT / "tests" / pathlib.Path(*path.parts[1:-1])
    if path.stem == "__init__":
        own = [f"test_{folder.name}.py", f"test_{folder.name}_*.py"]
    else:
        own = [f"test_{path.stem}.py", f"test_{path.stem}_*.py"]
    return sorted({test.relative_to(ROOT) for pattern in own for test in folder.glob(pattern)})


def changed(since: str) -> list[pathlib.Path]:
    """The files that differ from a commit, committed or not, and the new ones that git does not ignore."""
    commands = (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"])
    lines = [subprocess.check_output(["git", "-C", ROOT, *command], text=True).splitlines() for command in commands]
    return [pathlib.Path(name) for names in lines for name in names]


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--since", help="a commit")
    asked = parser.parse_args(words)
    files = [*asked.files, *(changed(asked.since) if asked.since else [])]
    print(*dict.fromkeys(str(test) for path in files for test in nearest(path)))


if __name__ == "__main__":
    main()
