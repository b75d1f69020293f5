"""The workers that run the tests: nothing is lost or run twice, whatever happens to a worker."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree
from typing import Any

import forked_workers
import pytest

SUPPORT = pathlib.Path(forked_workers.__file__).parent

CONFTEST = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import forked_workers, pytest

def pytest_addoption(parser):
    forked_workers.add_option(parser)

def pytest_configure(config):
    forked_workers.configure(config)

@pytest.fixture(scope="session")
def served(tmp_path_factory):
    yield tmp_path_factory.mktemp("served")
    with open({{log!r}}, "a") as log:
        log.write("closed\\n")

@pytest.fixture(autouse=True)
def noted(request, served):
    with open({{log!r}}, "a") as log:
        log.write(request.node.nodeid + "\\n")
"""

DYING = """
import os, signal, warnings

def test_before():
    print("words of a test")
    warnings.warn("of a test")

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after():
    assert 1 + 1 == 3

def test_last():
    pass
"""

GOOD = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_it(number, tmp_path):
    assert "worker" in str(tmp_path)
"""


def run(
    tmp_path: pathlib.Path, *words: str, dying: str = DYING, conftest: str = "", **how: Any
) -> tuple[subprocess.CompletedProcess[str], list[str], dict[str, str]]:
    """Runs the tests below in two workers; what it said, the tests that were begun, and {name: outcome}."""
    log, report = tmp_path / "log", tmp_path / "report.xml"
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("{log!r}", repr(str(log))) + conftest)
    for name, text in {"a/test_dying.py": dying, "a/test_good.py": GOOD, "b/test_others.py": GOOD}.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    command = [sys.executable, "-m", "pytest", "--workers=2", f"--junitxml={report}", f"--basetemp={tmp_path}/base"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, *words, "tests"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, **how
    )
    found = {
        case.get("classname", "").rpartition(".")[2] + "::" + case.get("name", ""): "failed" if len(case) else "passed"
        for case in xml.etree.ElementTree.parse(report).iter("testcase")
    }
    return done, log.read_text().splitlines(), found


def test_a_worker_that_dies_costs_its_test_alone(tmp_path: pathlib.Path) -> None:
    done, begun, found = run(tmp_path)
    assert done.returncode == 1, done.stdout
    bad = {"test_dying::test_dies", "test_dying::test_after"}
    good = {"test_dying::test_before", "test_dying::test_last"}
    good |= {f"{name}::test_it[{number}]" for name in ("test_good", "test_others") for number in range(5)}
    assert found == {**dict.fromkeys(bad, "failed"), **dict.fromkeys(good, "passed")}
    tests = [line for line in begun if "::" in line]
    assert len(tests) == len(set(tests)) == 14
    assert begun.count("closed") == 2  # the fixtures of the two workers that lived to the end
    assert "signal 9" in done.stdout
    assert "2 failed, 12 passed, " in done.stdout
    assert "UserWarning: of a test" in done.stdout
    assert "words of a test" not in done.stdout


@pytest.mark.heavy
def test_the_first_failure_may_end_it(tmp_path: pathlib.Path) -> None:
    done, begun, found = run(tmp_path, "-x", "-k", "after or last or test_it")
    assert done.returncode == 1, done.stdout
    assert found["test_dying::test_after"] == "failed"
    assert "test_dying::test_last" not in found
    assert begun.count("closed") == 2


INTERRUPTED = """
import os, signal, time

def test_interrupts():
    os.killpg(0, signal.SIGINT)
    time.sleep(60)
"""


@pytest.mark.heavy
def test_control_c_ends_all_and_closes_what_they_hold(tmp_path: pathlib.Path) -> None:
    done, begun, _ = run(tmp_path, "-k", "interrupts", dying=INTERRUPTED, start_new_session=True)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout + done.stderr
    assert begun.count("closed") == 1
    assert "KeyboardInterrupt" in done.stdout


HANGING = """
import signal, threading, time

def test_waits():
    started = threading.Thread(target=time.sleep, args=(2,), name="the sleeper")
    started.start()
    time.sleep(600)

def test_waits_in_c():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)

def test_last():
    pass
"""


@pytest.mark.heavy
def test_tests_that_hang_have_failed_and_show_where(tmp_path: pathlib.Path) -> None:
    """Of the two that wait, one hears the alarm of pytest-timeout, and the other does not."""
    conftest = "\nforked_workers._DEAF_SECONDS = forked_workers._LOOK_SECONDS = 0.5\n"
    done, _, found = run(tmp_path, "--timeout=1", "-k", "waits or last", dying=HANGING, conftest=conftest)
    states = {"test_waits": "failed", "test_waits_in_c": "failed", "test_last": "passed"}
    assert found == {f"test_dying::{name}": state for name, state in states.items()}, done.stdout
    assert "Timeout (>1.0s)" in done.stdout
    assert "the sleeper" in done.stdout
    assert "signal 9" in done.stdout


@pytest.mark.parametrize("last", ["a", ""])
def test_the_longest_file_of_a_folder_comes_first_and_then_the_fullest_folder(last: str) -> None:
    paths = ["a/1", "a/2", "a/2", "b/1", "b/2", "b/2", "c/1"]
    files = forked_workers.Files(paths, [1, 1, 1, 1, 5, 1, 1])
    expected = [("a", [1, 2]), ("a", [0])] if last else []
    assert files.take(last) == (expected[0] if expected else ("b", [4, 5]))
    if expected:
        assert files.take("a") == expected[1]
        assert files.take("a") == ("b", [4, 5])
    files.give_back([6])
    assert files.take("b") == ("b", [6])
    assert files.take("b") == ("b", [3])


def test_the_file_of_a_test_with_a_high_limit_comes_first(tmp_path: pathlib.Path) -> None:
    limited = "import pytest\n\n@pytest.mark.timeout(60)\ndef test_last():\n    pass\n"
    done, begun, _ = run(tmp_path, "--workers=1", dying=limited)
    assert done.returncode == 0, done.stdout
    assert [line.partition("::")[0] for line in begun[:2]] == ["tests/a/test_dying.py", "tests/a/test_good.py"]
