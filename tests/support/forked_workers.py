"""Tests in several processes, which are forked from one that has collected them: `pytest --workers=3`.

The workers of pytest-xdist each import TensorFlow and collect all tests, which takes as long as thousands of tests.
Here one process collects, and its forked workers have at once what it has imported. It opens no session of TensorFlow,
because a session does not survive a fork.

A worker takes whole files, whose tests often share a trained run: first the longest of the folder where it is, and then
of the folder that has most left to do. If a worker dies, its test has failed, and a new one does the rest of its file.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import mmap
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing import connection
from typing import Any

import pytest
from _pytest.config import create_terminal_writer

_SECONDS = {True: 10.0, False: 0.15}  # of a test that is marked `long`, and of another, roughly
_SHARE_OF_LIMIT = 1 / 40  # that a test with a limit of its own takes, roughly: the longest are thousands of kills
# A test that takes so much longer than its limit does not listen to pytest-timeout: it waits in C code, for instance.
_DEAF_SECONDS = 60.0
_LOOK_SECONDS = 5.0


class Files:
    """The files of tests that no worker has taken yet.

    Args:
      paths: for each test the path of its file, relative to the folder of all tests; tests of a file stand together.
      seconds: for each test about how long it takes.
    """

    def __init__(self, paths: list[str], seconds: list[float]) -> None:
        files: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            files.setdefault(path, []).append(index)
        self._seconds = seconds
        self._folders: dict[str, list[list[int]]] = {}
        for path, tests in files.items():
            self._folders.setdefault(path.partition("/")[0], []).append(tests)
        for folder in self._folders.values():
            folder.sort(key=self._weight)
        self._returned: list[list[int]] = []

    def _weight(self, tests: list[int]) -> float:
        return sum(self._seconds[test] for test in tests)

    def take(self, last: str = "") -> tuple[str, list[int]]:
        """A folder, that of the last file if it has another, and the tests of a file; ("", []) if all are taken."""
        if self._returned:
            return last, self._returned.pop()
        if not self._folders.get(last):
            left = {name: sum(map(self._weight, files)) for name, files in self._folders.items() if files}
            last = max(left, key=lambda name: left[name], default="")
        return last, self._folders[last].pop() if last else []

    def give_back(self, tests: list[int]) -> None:
        """Takes back what a worker that died had not begun."""
        if tests:
            self._returned.append(tests)


class Worker:
    """A forked process, as the process that has collected the tests sees it."""

    def __init__(self, number: int, loop: ForkedLoop) -> None:
        self.folder, self.running, self.left = "", -1, collections.deque[int]()
        self.began = 0.0  # when the test that runs began
        self.reports: list[Any] | None = None  # of the test that runs; None before the first test
        self.link, its_link = connection.Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # OpenBLAS has threads, and ends them before a fork
            self.pid = os.fork()
        if not self.pid:
            try:
                self.link.close()
                _become_worker(loop, its_link, number)
            finally:
                os._exit(1)
        its_link.close()

    def send_file(self, files: Files, is_stopped: bool) -> None:
        """Sends the tests of the next file, none if there is none."""
        self.folder, tests = ("", []) if is_stopped else files.take(self.folder)
        self.left.extend(tests)
        with contextlib.suppress(OSError):  # it died: the end of its link is noticed
            self.link.send(tests)

    def ended(self) -> str:
        """Waits for the end of the process; says how it ended."""
        self.link.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return f"status {status}" if status >= 0 else f"signal {-status}"


class ForkedLoop:
    """The plugin, in place of pytest's own loop over the tests."""

    def __init__(self, count: int) -> None:
        self.count, self.stop, self.session = count, mmap.mmap(-1, 1), None
        self._numbers = itertools.count()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        config = session.config
        if config.option.collectonly or not session.items:
            return None
        if session.testsfailed and not config.option.continue_on_collection_errors:
            return None
        self.session = session
        config._tmp_path_factory.getbasetemp()
        paths = [os.path.relpath(item.path, config.rootpath / "tests") for item in session.items]
        self._run(Files(paths, [_expected_seconds(item) for item in session.items]))
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _run(self, files: Files) -> None:
        workers = {worker.link: worker for worker in (self._start(files) for _ in range(self.count))}
        try:
            while workers:
                for link in connection.wait(list(workers), _LOOK_SECONDS):
                    if not self._receive(workers[link], files):
                        worker = workers.pop(link)
                        if self._bury(worker, files):
                            new = self._start(files)
                            workers[new.link] = new
                self._kill_deaf(workers.values())
        except BaseException:
            self.stop[0] = 1
            for worker in workers.values():
                worker.ended()
            raise

    def _start(self, files: Files) -> Worker:
        worker = Worker(next(self._numbers), self)
        worker.send_file(files, self._is_stopped())
        return worker

    def _kill_deaf(self, workers: Iterable[Worker]) -> None:
        """Kills each worker whose test has not ended though its time is over; its test has failed."""
        for worker in workers:
            if worker.running >= 0:
                limit = _limit(self.session.items[worker.running])
                if limit and time.monotonic() - worker.began > limit + _DEAF_SECONDS:
                    os.kill(worker.pid, signal.SIGKILL)

    def _is_stopped(self) -> bool:
        self.stop[0] = bool(self.session.shouldfail or self.session.shouldstop)
        return bool(self.stop[0])

    def _receive(self, worker: Worker, files: Files) -> bool:
        """Does what a message asks for; False at the end of the worker."""
        try:
            kind, content = worker.link.recv()
        except (EOFError, OSError):
            return False
        hook = self.session.config.hook
        if kind == "next":
            worker.send_file(files, self._is_stopped())
        elif kind == "start":
            worker.running, worker.reports, worker.began = worker.left.popleft(), [], time.monotonic()
        elif kind == "report":
            worker.reports.append(hook.pytest_report_from_serializable(config=self.session.config, data=content))
        elif kind == "end":
            self._tell(worker)
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=content)
        self._is_stopped()
        return True

    def _tell(self, worker: Worker) -> None:
        """Tells all plugins of the test that has ended; what is printed of several tests at once would be mixed."""
        item, hook = self.session.items[worker.running], self.session.config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in worker.reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        worker.running = -1

    def _bury(self, worker: Worker, files: Files) -> bool:
        """Reports the test in which a worker died; whether a new one should take its place."""
        how = worker.ended()
        if worker.running < 0 and how == "status 0":
            return False
        if worker.reports is None:
            raise RuntimeError(f"a process that was to run tests ended before the first one: {how}")
        files.give_back(list(worker.left))
        if worker.running >= 0:
            item = self.session.items[worker.running]
            seconds = time.monotonic() - worker.began
            text = f"the process that ran this test ended after {seconds:.0f} s: {how}"
            worker.reports.append(pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))
            self._tell(worker)
        return not self._is_stopped()


def _limit(item: pytest.Item) -> float:
    """The seconds that pytest-timeout gives a test; 0 for no limit."""
    marker = item.get_closest_marker("timeout")
    if marker is not None and marker.args:
        return float(marker.args[0])
    return float(item.config.getoption("timeout") or item.config.getini("timeout") or 0)


def _expected_seconds(item: pytest.Item) -> float:
    """About how long a test takes, by its marks."""
    own_limit = _limit(item) if item.get_closest_marker("timeout") else 0.0
    return own_limit * _SHARE_OF_LIMIT or _SECONDS[item.get_closest_marker("long") is not None]


class _Terminal:
    """Stands for the terminal of a worker: pytest-timeout writes there where the threads of a test are."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def _tw(self) -> Any:
        return create_terminal_writer(self._config, sys.stderr)  # captured, and so shown with the test


class _Sender:
    """The plugin of a worker that sends what the process that collected is to hear."""

    def __init__(self, config: pytest.Config, link: Any) -> None:
        self._config, self._link = config, link

    def pytest_runtest_logstart(self) -> None:
        self._link.send(("start", None))

    def pytest_runtest_logfinish(self) -> None:
        self._link.send(("end", None))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._link.send(("report", data))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        where = {"filename": warning_message.filename, "lineno": warning_message.lineno}
        words = f"{warning_message.category.__name__}: {warning_message.message}"  # the warning may not be picklable
        sent = warnings.WarningMessage(message=UserWarning(words), category=UserWarning, **where)
        content = {"warning_message": sent, "when": when, "nodeid": nodeid, "location": location}
        self._link.send(("warning", content))


def _become_worker(loop: ForkedLoop, link: Any, number: int) -> None:
    """Runs tests, and ends the process."""
    status = 1
    try:
        _work(loop.session, link, loop.stop, number)
        status = 0
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass  # the process that collected was told to end, and says so
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _work(session: pytest.Session, link: Any, stop: mmap.mmap, number: int) -> None:
    """What a worker does: all tests of the files that it is sent."""
    config = session.config
    _prepare(config, number)
    config.pluginmanager.register(_Sender(config, link))
    tests = _tests(session, link)
    try:
        item = next(tests, None)
        while item is not None:
            # The next one is known before this one runs: fixtures that both use stay.
            following = next(tests, None)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = None if stop[0] or session.shouldfail or session.shouldstop else following
    finally:
        session._setupstate.teardown_exact(None)


def _tests(session: pytest.Session, link: Any) -> Iterator[pytest.Item]:
    while tests := link.recv():
        for index in tests[:-1]:
            yield session.items[index]
        link.send(("next", None))
        yield session.items[tests[-1]]


def _prepare(config: pytest.Config, number: int) -> None:
    """Gives a worker its own captured streams and its own temporary folder; what it finds is printed by the other."""
    for name in ("terminalreporter", "junitxml", "lfplugin", "nfplugin", "stepwiseplugin"):
        if plugin := config.pluginmanager.getplugin(name):
            config.pluginmanager.unregister(plugin)
    config.pluginmanager.register(_Terminal(config), "terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    folder = config._tmp_path_factory.getbasetemp() / f"worker{number}"
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder
    forks = sys.modules.get("yt8m.forks")
    if forks is not None:
        forks._is_copy_of_user = False  # nothing ran before this fork


def configure(config: pytest.Config) -> None:
    if config.option.workers > 0:
        config.pluginmanager.register(ForkedLoop(config.option.workers), "forked_workers")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run the tests in this number of forked processes")
