"""Processes that start at once, because they are forked from a server process that has imported TensorFlow.

`python fork_server.py MODULE` is the server. It reads requests from its standard input, one line of JSON for each:

- `{"start": TEXT, "out": FIFO, "err": FIFO}` runs `MODULE.main(TEXT)` in a new process, whose streams are the two named
  pipes, and prints the id of the process. With `module`, the `main` of that module runs instead; `environment` is added
  to the variables of the process.
- `{"wait": ID}` waits for the process, and prints its exit status.

The server opens no session of TensorFlow, because a session does not survive a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
_POLL = 0.02


class ForkServer:
    """Starts the server process, and sends it requests. Use it in a `with` block.

    Args:
      module: name of the module whose `main` takes a text and returns an exit status. The server calls its `warm_up`
        once; that imports what `main` needs, and starts no thread.
      folders: folders in which modules are found, besides the project and its tests.
    """

    def __init__(self, module: str, *folders: pathlib.Path) -> None:
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests/support", *folders)))
        environment = {**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "2"}
        self._popen = subprocess.Popen(
            [sys.executable, __file__, module],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *unused: object) -> None:
        self._popen.stdin.close()
        self._popen.wait()
        self._popen.stdout.close()

    def start(self, text: str) -> Forked:
        """Runs `main(text)` in a new process."""
        return self._start("out", "err", start=text)

    def start_joined(self, module: str, text: str, environment: dict[str, str]) -> Forked:
        """Runs `main(text)` of another module in a new process, whose streams are both read at `stdout`."""
        return self._start("out", "out", start=text, module=module, environment=environment)

    def _start(self, out: str, err: str, **request: Any) -> Forked:
        with tempfile.TemporaryDirectory() as folder:
            pipes = {name: os.path.join(folder, name) for name in (out, err)}
            for pipe in pipes.values():
                os.mkfifo(pipe)
            pid = self.ask(out=pipes[out], err=pipes[err], **request)
            return Forked(self, pid, *(open(pipe) for pipe in pipes.values()))

    def ask(self, **request: Any) -> int:
        """Sends a request to the server, and returns its answer."""
        print(json.dumps(request), file=self._popen.stdin, flush=True)
        return int(self._popen.stdout.readline())


class Forked:
    """A process that the server forked. It has the attributes and methods of a Popen that the tests use."""

    def __init__(self, fork_server: ForkServer, pid: int, stdout: Any, stderr: Any = None) -> None:
        self._server, self.pid, self.stdout, self.stderr = fork_server, pid, stdout, stderr
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process, unless the process has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def has_ended(self) -> bool:
        """Whether the process has ended, even if nobody has waited for it yet."""
        try:
            state = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    def poll(self) -> int | None:
        """The exit status; None if the process is still running."""
        if self.returncode is None and self.has_ended():
            self.returncode = self._server.ask(wait=self.pid)
        return self.returncode

    def wait(self, timeout: float = math.inf) -> int:
        """Waits until the process has ended; returns the exit status. Does not read the streams."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(_POLL)
        return status

    def communicate(self) -> tuple[str, str]:
        """Reads both streams to their ends, and waits until the process has ended; returns what was read."""
        if self.returncode is not None:
            return "", ""
        # Both are read at once: on a busy machine a process prints more than a pipe holds before its signal comes.
        with ThreadPoolExecutor(1) as pool:
            log_read = pool.submit(self.stderr.read)
            output, log = self.stdout.read(), log_read.result()
        self.returncode = self._server.ask(wait=self.pid)
        self.stdout.close()
        self.stderr.close()
        return output, log


def _serve(main: Callable[[str], int]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup pytest` ignores it, and so would all processes from here
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            status = os.waitpid(request["wait"], 0)[1]
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if not pid:
            os.environ.update(request.get("environment", {}))
            _run(importlib.import_module(request["module"]).main if "module" in request else main, request)
        print(pid, flush=True)


def _run(main: Callable[[str], int], request: dict[str, str]) -> None:
    """Runs `main` in the new process, with the pipes of the request as its streams, and ends the process."""
    status = 1
    try:
        # If both streams have one pipe, it is opened once: the test removes its name as soon as it has been opened.
        pipes = {path: os.open(path, os.O_WRONLY) for path in dict.fromkeys((request["out"], request["err"]))}
        os.dup2(pipes[request["out"]], 1)
        os.dup2(pipes[request["err"]], 2)
        for pipe in pipes.values():
            os.close(pipe)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        status = main(request["start"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    workload = importlib.import_module(sys.argv[1])
    workload.warm_up()
    _serve(workload.main)
