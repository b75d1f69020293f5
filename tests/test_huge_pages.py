"""Memory in huge pages: what is moved, what stays, and that its values do."""

from __future__ import annotations

import mmap
import os
import pathlib
import subprocess
import sys

import pytest

from yt8m import huge_pages

MEGABYTE = 1 << 20
PAGE = huge_pages.size() or 2 * MEGABYTE
PROGRAM = """
import mmap
from yt8m import huge_pages

def memory():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines[1:]}

def filled(step):
    block = mmap.mmap(-1, 16 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_NOHUGEPAGE)
    for place in range(0, len(block), step):
        block[place] = place // step % 251
    block.madvise(mmap.MADV_HUGEPAGE)
    return block

page, before = huge_pages.size(), memory()
block = filled(STEP)
moved, between = huge_pages.move_memory(page, STOPPED), memory()
again = huge_pages.move_memory(page, STOPPED)
assert all(block[place] == place // STEP % 251 for place in range(0, len(block), STEP))
print(moved, again, (between["AnonHugePages"] - before["AnonHugePages"]) // page)
"""


def moves(step: int, stopped: str = "lambda: False") -> tuple[int, int, int]:
    """The pages moved first and again, and how many of 16 that have a value at each `step` bytes became huge ones."""
    program = PROGRAM.replace("STEP", str(step)).replace("STOPPED", stopped)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    moved, again, huge = map(int, done.stdout.split())
    return moved, again, huge


def can_move() -> bool:
    """Whether this system moves memory when asked."""
    if not huge_pages.size():
        return False
    block = mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.write(bytes(4 * PAGE))
    return huge_pages.move_memory(PAGE) > 0


needs_huge_pages = pytest.mark.skipif(not can_move(), reason="this system moves no memory into huge pages (Linux 6.1)")


@needs_huge_pages
def test_memory_in_use_is_moved_and_keeps_its_values() -> None:
    moved, again, huge = moves(os.sysconf("SC_PAGE_SIZE"))
    assert huge >= 14  # a free huge page may be lacking
    assert moved >= huge
    assert again >= huge  # those of before are counted too


@needs_huge_pages
def test_memory_that_is_hardly_in_use_stays_as_small_as_it_is() -> None:
    assert moves(8 * os.sysconf("SC_PAGE_SIZE"))[2] <= 4  # other memory of the process is moved too


@needs_huge_pages
def test_who_stops_it_moves_nothing() -> None:
    assert moves(os.sysconf("SC_PAGE_SIZE"), "lambda: True") == (0, 0, 0)


@pytest.mark.parametrize(
    ("enabled", "huge", "expected"),
    [
        ("always [madvise] never", "2097152", 2 * MEGABYTE),
        ("[always] madvise never", "2097152", 2 * MEGABYTE),
        ("always madvise [never]", "2097152", 0),
        ("[always] madvise never", "536870912", 0),  # ARM with small pages of 64 kB
        ("[always] madvise never", "", 0),
    ],
)
def test_the_size_follows_the_settings_of_the_system(
    enabled: str, huge: str, expected: int, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "enabled").write_text(enabled + "\n")
    (tmp_path / "hpage_pmd_size").write_text(huge + "\n")
    assert huge_pages.size(str(tmp_path)) == expected


def test_a_system_without_huge_pages_has_none(tmp_path: pathlib.Path) -> None:
    assert huge_pages.size(str(tmp_path)) == 0
