"""Clients that mean harm: bodies that are long to parse, headers that never end, and SIGTERM in the middle of each.

The short forms run against a model without TensorFlow (tiny_service.py), the long ones also against a real one.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests
import small_exports
from reader_records import video_record
from serving.tiny_service import CLASSES, STUCK, empty_fields, scores_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES = {"Content-Type": "application/octet-stream"}
TINY = [sys.executable, "tests/serving/tiny_service.py"]
AFTER = 120.0  # seconds after --timeout that a process which was told to end has on a busy machine; 4 are usual


class Service:
    """A service in a process of its own."""

    def __init__(self, *words: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        self._timeout = float(next(word for word in words if word.startswith("--timeout=")).partition("=")[2])
        self._process = subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.url = self._process.stdout.readline().split()[-1]
        host, port = self.url.removeprefix("http://").split(":")
        self.address = (host, int(port))
        self.log = ""

    def post(self, body: bytes) -> requests.Response:
        return requests.post(f"{self.url}/predict", data=body, headers=BYTES)

    def health(self) -> dict:
        return requests.get(f"{self.url}/health", timeout=AFTER).json()

    def half_sent(self, count: int) -> list[socket.socket]:
        """Connections that have sent half of their headers."""
        made = []
        for _ in range(count):
            made.append(socket.create_connection(self.address))
            made[-1].sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Ty")
        return made

    def terminated(self) -> int:
        """The status after SIGTERM."""
        self._process.send_signal(signal.SIGTERM)
        _, self.log = self._process.communicate(timeout=self._timeout + AFTER)
        return self._process.returncode

    def wait_until_closed(self) -> None:
        """Returns when it takes no more connections."""
        with contextlib.suppress(ConnectionError):
            while True:
                socket.create_connection(self.address).close()
                time.sleep(0.02)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def served(*words: str) -> Iterator[Service]:
    with contextlib.closing(Service(*words)) as service:
        yield service


@pytest.fixture
def many_files() -> Iterator[None]:
    """Leave to open as many files as the system allows."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def hostile_bodies(size: int) -> list[bytes]:
    """Six bodies of `size` bytes that are all empty fields, at the root and at each depth below it."""
    return [empty_fields(size, depth) for depth in range(6)]


def good_requests_are_answered_right(service: Service, count: int, clients: int) -> None:
    draw = np.random.default_rng(0)
    features = draw.normal(size=(count, 3)).astype(np.float32)
    records = [video_record(id=[b"v%d" % row], labels=[], mean_rgb=features[row]) for row in range(count)]
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(service.post, records))
    for row, (answer, scores) in enumerate(zip(answers, scores_of(features), strict=True)):
        assert answer.status_code == 200, answer.text
        (video,) = answer.json()["videos"]
        assert video["id"] == f"v{row}"
        assert [one["index"] for one in video["classes"]] == np.argsort(-scores, kind="stable")[:CLASSES].tolist()
        np.testing.assert_allclose([one["score"] for one in video["classes"]], np.sort(scores)[::-1], atol=1e-6)


def while_health_is_asked(service: Service, action: Callable[[], None]) -> int:
    """The number of answers of /health that began and ended during an action."""
    done = threading.Event()

    def ask() -> int:
        count = 0
        while not done.is_set():
            assert service.health()["status"] == "ok"
            count += not done.is_set()
        return count

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            action()
        finally:
            done.set()
        return asked.result()


@pytest.mark.promise("P9")
@pytest.mark.promise("X6")
def test_a_service_lives_through_all_of_them_at_once(many_files: None) -> None:
    words = ("--timeout=30", "--max_megabytes=1", "--max_videos=8", "--max_frames=1", "--max_requests=8")
    with served(*TINY, *words, "--access_log") as service:
        half = service.half_sent(70)  # of which 64 have room
        good_requests_are_answered_right(service, 80, clients=8)
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(service.post, hostile_bodies(900_000)))
            assert {answer.status_code for answer in answers} == {413}
            half += service.half_sent(70)
            assert service.health()["at_work"] == 0
            assert requests.get(f"{service.url}/ready").json() == {"status": "ready"}
            ended = [pool.submit(service.post, body) for body in hostile_bodies(900_000)]
            assert service.terminated() == 0
            for one in ended:
                one.exception()
        for each in half:
            each.close()
    assert service.log.count("POST /predict -> 200") == 80
    assert re.search(r"INFO 127.0.0.1 GET /ready -> 200 in \d+\.\d ms", service.log)
    assert "Traceback" not in service.log


@pytest.mark.heavy
@pytest.mark.promise("X6")
def test_headers_that_do_not_end_make_room() -> None:
    with served(*TINY, "--timeout=60", "--max_requests=1") as service:
        (waiting,) = service.half_sent(1)
        assert service.health()["at_work"] == 0  # by then its bytes were read
        half = service.half_sent(8)  # as many as have room: the first is closed for the last
        assert waiting.recv(1000).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        for one in (waiting, *half):
            one.close()


@pytest.mark.heavy
@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_a_body_in_broken_chunks_is_answered(pause: float) -> None:
    with served(*TINY, "--timeout=60") as service:
        with socket.create_connection(service.address) as client:
            client.sendall(
                b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
            )
            time.sleep(pause)
            client.sendall(b"zz\r\n")
            answer = b"".join(iter(lambda: client.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.count(b"HTTP/1.1 400") == 1
        assert answer.endswith(b'or its headers are longer than 16 kB."}')
        assert service.health()["at_work"] == 0
        figures = requests.get(f"{service.url}/metrics").text
        assert service.terminated() == 0
    assert 'yt8m_requests_total{method="POST",path="/predict",status="400"} 1.0' in figures
    assert 'status="400"' not in figures.replace('path="/predict",status="400"', "")
    assert "Traceback" not in service.log


@pytest.mark.promise("X6")
@pytest.mark.heavy
def test_headers_that_do_not_end_get_408() -> None:
    with served(*TINY, "--timeout=1", "--max_requests=1") as service:
        half = service.half_sent(8)
        for one in half:
            assert one.recv(1000).endswith(b'{"error": "the headers did not arrive within 1 seconds."}')
        with socket.create_connection(service.address) as silent:
            assert silent.recv(1000) == b""  # nothing was asked, so nothing is answered
        with socket.create_connection(service.address) as other:
            other.sendall(b"no HTTP\r\n\r\n")
            assert other.recv(1000).endswith(
                b'{"error": "this is not an HTTP/1.1 request, or its headers are longer than 16 kB."}'
            )
        figures = requests.get(f"{service.url}/metrics").text
        assert 'yt8m_requests_total{method="other",path="other",status="408"} 8.0' in figures
        for one in half:
            one.close()


@pytest.mark.heavy
@pytest.mark.promise("P9")
def test_a_step_that_does_not_end_does_not_keep_the_process() -> None:
    with served(*TINY, "--timeout=2") as service, ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(service.post, video_record(id=[b"x"], labels=[], mean_rgb=[STUCK] * 3))
        assert stuck.result().status_code == 503
        assert service.health()["at_work"] == 1
        while (ready := requests.get(f"{service.url}/ready")).status_code == 200:
            time.sleep(0.05)  # the step began a little after its request
        assert "step of the model" in ready.json()["error"]
        late = socket.create_connection(service.address)
        late.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n"
        )
        ended = pool.submit(service.terminated)
        service.wait_until_closed()
        time.sleep(0.5)
        # Its body ends after the signal: its own time is not over when that of the process is, unless one of the
        # two was held up meanwhile; then another time was over first, and the answer names the flag as well.
        late.sendall(b'{"videos": [{"rgb_and_audio":[[0,0,0]]}]}')
        assert ended.result() == 1
        answer = late.recv(1000)
        assert b'{"error":"' in answer
        assert answer.endswith(b' (--timeout)."}')
        late.close()
    assert "not end in time" in service.log
    assert "Traceback" not in service.log


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of a service with a real model."""
    folder = small_exports.export(tmp_path_factory.mktemp("served"), "FrameLevelLogisticModel")
    return [sys.executable, "-m", "yt8m", "serve", f"--model={folder}", "--port=0", "--timeout=30"]


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("P9")
def test_six_bodies_of_thirty_megabytes(real: list[str]) -> None:
    with served(*real) as service, ThreadPoolExecutor(6) as pool:
        bodies = hostile_bodies(30_000_000)
        answers: list[requests.Response] = []
        assert while_health_is_asked(service, lambda: answers.extend(pool.map(service.post, bodies))) > 0
        assert {answer.status_code for answer in answers} <= {413, 503}
        ended = [pool.submit(service.post, body) for body in bodies]
        while service.health()["at_work"] == 0:
            pass
        assert service.terminated() == 0
        for one in ended:
            one.exception()


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("P9")
def test_six_hundred_connections_with_half_a_header(real: list[str], many_files: None) -> None:
    with served(*real) as service, contextlib.ExitStack() as sockets:
        for one in service.half_sent(600):
            sockets.enter_context(one)
        assert service.health()["status"] == "ok"
        assert service.terminated() == 0


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.promise("P9")
def test_two_hundred_good_requests_at_once_with_a_signal_among_them(real: list[str]) -> None:
    records = small_exports.frame_records(200)
    expected = small_exports.predictions(real[4].partition("=")[2], records)

    def check(row: int, answer: requests.Response) -> None:
        assert answer.status_code == 200, answer.text
        (video,) = answer.json()["videos"]
        assert [one["index"] for one in video["classes"]] == expected.classes[row, :5].tolist()
        scores = [one["score"] for one in video["classes"]]
        np.testing.assert_allclose(scores, expected.scores[row, :5], rtol=1e-5)

    with served(*real, "--max_requests=200") as service, ThreadPoolExecutor(200) as pool:
        for row, answer in enumerate(pool.map(service.post, records)):
            check(row, answer)
        asked = [pool.submit(service.post, record) for record in records]
        while service.health()["answered"] < 250:
            pass
        assert service.terminated() == 0
        answers = [one.result() for one in asked if one.exception() is None]
        assert len(answers) > 50
        for row, one in enumerate(asked):
            if one.exception() is None:  # others were not accepted any more
                check(row, one.result())
