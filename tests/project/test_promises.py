"""Every promise of docs/developers/promises.md is kept by a test that bears its mark."""

from __future__ import annotations

import ast
import itertools
import pathlib
import re

import pytest

from yt8m import runner
from yt8m.runner import signals
from yt8m.runner.cluster import peers
from yt8m.serving import connections

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/developers/promises.md"
IDS = re.compile(r"\b([ICOPNFX]\d{1,2})\b")
HEAVY = "heavy"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")

EXPECTED = {
    f"{letter}{number}"
    for letter, count in {"I": 12, "C": 12, "O": 4, "P": 9, "N": 3, "F": 2, "X": 7}.items()
    for number in range(1, count + 1)
}


def rows() -> list[tuple[str, list[tuple[str, str]]]]:
    """(id of the promise, the tests that the row names) for each row of the tables of the page."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and IDS.fullmatch(cells[0]):
            found.append((cells[0], TEST.findall(cells[-1])))
    return found


def ids_of(decorated: ast.AST) -> set[str]:
    """The promises in the marks of a test or a file; with `HEAVY` if the mark `heavy` is among the marks."""
    marked = decorated.elts if isinstance(decorated, ast.List) else [decorated]
    heavy = {HEAVY} if "pytest.mark.heavy" in map(ast.unparse, marked) else set()
    return heavy | {
        str(argument.value)
        for node in ast.walk(decorated)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


def marks() -> dict[str, dict[str, set[str]]]:
    """{file: {name of a test: the promises that it is marked with}}."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        body = ast.parse(path.read_text()).body
        whole = [
            ids_of(node.value)
            for node in body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        ]
        found[str(path.relative_to(ROOT))] = {
            node.name: set().union(*whole, *map(ids_of, node.decorator_list))
            for node in body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
    return found


MARKS = marks()


def test_the_page_has_every_promise() -> None:
    assert {name for name, _ in rows()} == EXPECTED


@pytest.mark.parametrize("promise", sorted(EXPECTED))
def test_each_promise_names_tests_that_bear_its_mark(promise: str) -> None:
    of_rows = [tests for name, tests in rows() if name == promise]
    assert all(of_rows), f"a row of {promise} names no test"
    for path, test in itertools.chain(*of_rows):
        assert path in MARKS, f"{promise} names {path}, which is not there"
        tests = [test] if test else list(MARKS[path])
        assert test in ("", *MARKS[path]), f"{promise} names {path}::{test}, which is not there"
        assert any(promise in MARKS[path][each] for each in tests), f"{path}::{test} lacks the mark {promise}"


def test_each_row_has_a_quick_test() -> None:
    """A quick test is one that `make test` runs."""
    names_of_slow_rows = [
        promise
        for promise, tests in rows()
        if not any(
            promise in ids and HEAVY not in ids
            for path, test in tests
            for name, ids in MARKS[path].items()
            if test in ("", name)
        )
    ]
    assert names_of_slow_rows == []


def test_every_mark_is_a_promise_of_the_page() -> None:
    used = {name for tests in MARKS.values() for ids in tests.values() for name in ids}
    assert used <= {*EXPECTED, HEAVY}


def seconds_of(pattern: str) -> tuple[float, ...]:
    """The numbers in the one place of the page that matches the pattern."""
    (match,) = re.finditer(pattern, PAGE.read_text())
    return tuple(map(float, match.groups()))


def test_the_page_states_the_times_of_the_code() -> None:
    """No test waits so long: the tests of these promises set shorter times, and check that those take effect."""
    grace, after_grace = seconds_of(r"within its grace period of (\d+) s plus (\d+) s")
    assert grace == runner.RunnerConfig(model_dir="a_run").stop_grace_seconds
    assert after_grace == signals._AFTER_CLOSE_SECONDS
    until_named, notice = seconds_of(r"name it within (\d+) s \((\d+) s, or half of `--stall_timeout`")
    assert peers.NOTICE_SECONDS == notice < until_named
    (until_ended,) = seconds_of(r"if a process dies, the others name it and end within (\d+) s")
    assert until_ended >= peers.DEAD_SECONDS + 1.0  # it looks every second
    (until_frozen_is_named,) = seconds_of(r"a process that is frozen is named after at most (\d+) s")
    assert until_frozen_is_named >= peers.NOTICE_SECONDS
    (after_timeout,) = seconds_of(r"It is gone within `--timeout` plus (\d+) s")
    assert after_timeout > connections._LAST_SECONDS
