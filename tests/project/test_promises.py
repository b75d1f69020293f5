"""Every promise of docs/developers/promises.md is kept by a test that bears its mark."""

from __future__ import annotations

import re

import promises
import pytest

from yt8m import runner
from yt8m.runner import signals
from yt8m.runner.cluster import peers
from yt8m.serving import connections

EXPECTED = {
    f"{letter}{number}"
    for letter, count in {"I": 12, "C": 12, "O": 4, "P": 9, "N": 3, "F": 2, "X": 7}.items()
    for number in range(1, count + 1)
}


def test_the_page_has_every_promise_and_leaves_the_lists_of_tests_to_the_marks() -> None:
    assert set(promises.ids()) == EXPECTED
    rows = [line for line in promises.PAGE.read_text().splitlines() if promises.ROW.match(line)]
    assert [row for row in rows if "`tests/" in row] == []


@pytest.mark.parametrize("promise", sorted(EXPECTED))
def test_each_promise_has_a_quick_test(promise: str) -> None:
    """A quick test is one that `make test` runs."""
    assert any(promise in ids and promises.HEAVY not in ids for ids in promises.marks().values())


def test_every_mark_is_a_promise_of_the_page() -> None:
    assert {name for ids in promises.marks().values() for name in ids} <= {*EXPECTED, promises.HEAVY}


def test_the_lists_are_printed_by_promise(capsys: pytest.CaptureFixture[str]) -> None:
    promises.main()
    blocks = dict(re.findall(r"^(\w+)\n((?:  .*\n)+)", capsys.readouterr().out, re.MULTILINE))
    assert set(blocks) == EXPECTED
    assert (
        "  tests/runner/test_callbacks.py::test_evaluation_takes_the_next_checkpoint_where_one_is_deleted"
        in blocks["C7"]
    )


def seconds_of(pattern: str) -> tuple[float, ...]:
    """The numbers in the one place of the page that matches the pattern."""
    (match,) = re.finditer(pattern, promises.PAGE.read_text())
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
