"""Nothing maps a file into memory whose pages a disk, or another process, can take away: SIGBUS ends the process."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The header alone is read from the map; a file that this process has just written, and that nobody else knows.
ALLOWED = {"yt8m/records/row_file.py": "mmap_mode", "yt8m/runner/failed_input.py": "mmap.mmap"}


def test_memory_maps_are_where_they_are_allowed() -> None:
    found = {
        (str(path.relative_to(ROOT)), use)
        for path in (ROOT / "yt8m").rglob("*.py")
        for use in re.findall(r"mmap_mode|mmap\.mmap|np\.memmap\(", path.read_text())
    }
    assert found == set(ALLOWED.items())
