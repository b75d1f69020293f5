"""`yt8m.cores`: the affinity of a real process, and control groups as files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from fractions import Fraction

import pytest

from yt8m import cores

HERE = pathlib.Path(cores.__file__).parent
# Prints what the parts of the package take for the number of cores, from the place where they count it.
PROGRAM = """
from yt8m import cores
from yt8m.datasets.extract import ExtractConfig
config = ExtractConfig(out="o", videos="v", extractors=("inception",))
print(cores.usable(), config.processes)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to cores")
def test_a_process_that_is_bound_to_a_core_uses_one() -> None:
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    assert done.stdout.split() == ["1", "1"]


def groups_in(folder: pathlib.Path, listed: str, files: dict[str, str]) -> Fraction | None:
    for name, content in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "own").write_text(listed)
    return cores.group_quota(str(folder / "groups"), str(folder / "own"))


@pytest.mark.parametrize(
    ("listed", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/job/step\n", {"job/step/cpu.max": "max 100000\n", "job/cpu.max": "150000 100000\n"}, Fraction(3, 2)),
        ("0::/job/step\n", {"job/step/cpu.max": "50000 100000\n", "job/cpu.max": "200000 100000\n"}, Fraction(1, 2)),
        # A container sees the path of its host, which does not exist inside it.
        ("0::/docker/0123\n", {"cpu.max": "200000 100000\n"}, Fraction(2)),
        (
            "5:cpuset:/\n4:cpu,cpuacct:/job\n0::/\n",
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"},
            Fraction(3),
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("4:memory:/job\n", {"memory/job/cpu.max": "1 1\n"}, None),
        ("nonsense\n", {"cpu.max": "nonsense"}, None),
        ("", {}, None),
    ],
)
def test_the_quota_of_control_groups(
    tmp_path: pathlib.Path, listed: str, files: dict[str, str], expected: Fraction | None
) -> None:
    assert groups_in(tmp_path, listed, files) == expected


def test_a_missing_list_of_groups_sets_no_limit(tmp_path: pathlib.Path) -> None:
    assert cores.group_quota(str(tmp_path), str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("quota", "expected"), [(None, 8), (Fraction(3, 2), 2), (Fraction(1, 10), 1), (Fraction(20), 8)]
)
def test_the_smaller_of_both_counts(monkeypatch: pytest.MonkeyPatch, quota: Fraction | None, expected: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "group_quota", lambda: quota)
    assert cores.usable() == expected


def test_no_other_module_counts_cores() -> None:
    names = ("cpu_count", "sched_getaffinity")
    counting = [path for path in HERE.rglob("*.py") if any(name in path.read_text() for name in names)]
    assert counting == [HERE / "cores.py"]
