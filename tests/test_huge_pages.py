"""Memory in huge pages: what is moved, what stays, and that its values do."""

from __future__ import annotations

import mmap
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from yt8m import huge_pages

SMALL, HUGE = mmap.PAGESIZE, 16 * mmap.PAGESIZE  # of the made-up page maps
ALONE, SHARED = 1 << 63 | 1 << 56, 1 << 63  # entries of pages in memory: of this process, and of others too
# Writes a block at each STEP bytes; prints how many of its huge pages were moved, and the result of a second call.
PROGRAM = """
import mmap, re
from yt8m import huge_pages

page = huge_pages.size()
block = mmap.mmap(-1, 16 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.madvise(mmap.MADV_NOHUGEPAGE)
for place in range(0, len(block), STEP):
    block[place] = place // STEP % 251
block.madvise(mmap.MADV_HUGEPAGE)

def bytes_in_huge_pages():
    \"\"\"Of the memory of the block, which is one of the ranges that have all its size.\"\"\"
    ranges = open("/proc/self/smaps").read().split("VmFlags")
    sizes = [list(map(int, re.findall(r"(?:^Size|^AnonHugePages): +([0-9]+)", one, re.M))) for one in ranges[:-1]]
    return max((huge << 10 for size, huge in sizes if size << 10 >= len(block)), default=0)

before = bytes_in_huge_pages()
huge_pages.move_memory(STOPPED)
moved = bytes_in_huge_pages() - before
again = huge_pages.move_memory(STOPPED)
assert all(block[place] == place // STEP % 251 for place in range(0, len(block), STEP))
print(moved // page, again)
"""


def moved_of_16(step: int, stopped: str = "lambda: False") -> tuple[int, int]:
    """How many of the 16 huge pages of a block became such, and the result of a second call."""
    program = PROGRAM.replace("STEP", str(step)).replace("STOPPED", stopped)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    moved, again = map(int, done.stdout.split())
    return moved, again


needs_huge_pages = pytest.mark.skipif(not huge_pages.size(), reason="this system moves no memory into huge pages")


@needs_huge_pages
def test_memory_in_use_is_moved_and_keeps_its_values() -> None:
    moved, again = moved_of_16(SMALL)
    assert moved >= 8  # the system may have few free huge pages
    assert again >= moved  # those of before are counted too


@needs_huge_pages
@pytest.mark.parametrize(("step", "stopped"), [(8 * SMALL, "lambda: False"), (SMALL, "lambda: True")])
def test_memory_that_is_hardly_in_use_stays_and_so_does_all_if_it_is_stopped(step: int, stopped: str) -> None:
    assert moved_of_16(step, stopped)[0] == 0


def addresses(folder: pathlib.Path, maps: list[str], entries: dict[int, int]) -> list[int]:
    """The addresses in use of a process with these maps and {number of a small page: entry}, in huge pages."""
    page_map = np.zeros(200, np.uint64)
    for number, entry in entries.items():
        page_map[number] = entry
    (folder / "maps").write_bytes("".join(f"{line}\n" for line in maps).encode("latin-1"))
    (folder / "page_map").write_bytes(page_map.tobytes())
    found = huge_pages.addresses_in_use(HUGE, lambda: False, str(folder / "maps"), str(folder / "page_map"))
    return [address // HUGE for address in found]


def line(first: int, end: int, words: str = "rw-p 00000000 00:00 0") -> str:
    """A line of /proc/self/maps for the small pages from `first` on."""
    return f"{first * SMALL:x}-{end * SMALL:x} {words}"


def pages(first: int, end: int, entry: int = ALONE) -> dict[int, int]:
    return dict.fromkeys(range(first, end), entry)


def test_huge_pages_begin_and_end_inside_the_memory(tmp_path: pathlib.Path) -> None:
    assert addresses(tmp_path, [line(15, 65)], pages(0, 200)) == [1, 2, 3]
    assert addresses(tmp_path, [line(16, 63)], pages(0, 200)) == [1, 2]
    assert addresses(tmp_path, [line(17, 31)], pages(0, 200)) == []


def test_what_is_used_by_three_quarters_is_taken(tmp_path: pathlib.Path) -> None:
    assert addresses(tmp_path, [line(0, 64)], pages(0, 12) | pages(16, 27) | pages(48, 64)) == [0, 3]


def test_pages_that_others_have_too_do_not_count(tmp_path: pathlib.Path) -> None:
    assert addresses(tmp_path, [line(0, 32)], pages(0, 16, SHARED) | pages(16, 32)) == [1]


def test_the_memory_of_files_and_of_other_kinds_stays(tmp_path: pathlib.Path) -> None:
    maps = [
        line(0, 16, "rw-p 00000000 08:01 77 /tmp/caf\xe9 file"),
        line(16, 32, "rw-s 00000000 00:00 0"),
        line(32, 48, "r--p 00000000 00:00 0"),
        line(48, 64, "rw-p 00000000 00:00 0 [stack]"),
        line(64, 80, "rw-p 00000000 00:00 0 [heap]"),
        line(80, 96, "rw-p 00000000 00:00 0 [anon: glibc: malloc arena]"),
        line(96, 112),
    ]
    assert addresses(tmp_path, maps, pages(0, 200)) == [4, 5, 6]


def test_many_huge_pages_are_looked_at_in_parts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_READ_AT_ONCE", 2)
    assert addresses(tmp_path, [line(16, 128)], pages(16, 48) | pages(96, 128)) == [1, 2, 6, 7]
    assert addresses(tmp_path, [line(160, 240)], pages(160, 200)) == [10, 11]  # the map ends before the memory does


def test_without_the_files_of_linux_nothing_is_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(huge_pages.addresses_in_use, "__defaults__", (str(tmp_path / "maps"), str(tmp_path / "none")))
    monkeypatch.setattr(huge_pages, "size", lambda: HUGE)
    assert huge_pages.move_memory() == 0


def test_a_system_without_huge_pages_looks_at_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "size", lambda: 0)
    monkeypatch.setattr(huge_pages, "addresses_in_use", None)
    assert huge_pages.move_memory() == 0


@needs_huge_pages
@pytest.mark.parametrize(
    ("enabled", "huge", "expected"),
    [
        ("always [madvise] never", "2097152", 2 << 20),
        ("[always] madvise never", "2097152", 2 << 20),
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
