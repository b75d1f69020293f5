"""The real command on a real port, real clients."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import numpy as np
import pytest
import requests
import small_exports
from small_exports import Predictions

from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.records.shards import framed

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = 4
WORDS = ["--port=0", "--max_frames=8", "--max_videos=12", "--max_megabytes=0.5", f"--max_requests={CLIENTS}"]
RECORDS = small_exports.frame_records(12)
LIMITS = np.tile([0.3, 0.5, 0.7], 10)  # of the classes: some scores reach them, others do not
BYTES = {"Content-Type": "application/octet-stream"}
RECORD_TYPES = ("application/octet-stream", "application/x-protobuf", "application/x-tfrecord")
JSON = {"Content-Type": "application/json"}


class Server(NamedTuple):
    pid: int
    url: str
    expected: Predictions

    def post(self, body: Any, headers: dict[str, str] = BYTES, path: str = "/predict") -> requests.Response:
        return requests.post(self.url + path, data=body, headers=headers)

    def half_sent(self) -> socket.socket:
        """A request of one record but for its last byte, which the server has begun to read."""
        opened = socket.create_connection(self.url.removeprefix("http://").split(":"))
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: {BYTES['Content-Type']}\r\n"
        opened.sendall(f"{head}Content-Length: {len(RECORDS[0])}\r\n\r\n".encode() + RECORDS[0][:-1])
        return opened

    def wait_for(self, at_work: int) -> None:
        while requests.get(f"{self.url}/health").json()["at_work"] != at_work:
            time.sleep(0.02)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Predictions]:
    """A model's folder, and what it says of the records."""
    folder = small_exports.export(tmp_path_factory.mktemp("served"), "FrameLevelLogisticModel")
    lines = [f"{index},{limit}" for index, limit in enumerate(LIMITS)]
    pathlib.Path(folder, "thresholds.csv").write_text("\n".join(["index,threshold", *lines]))
    return folder, small_exports.predictions(folder, RECORDS)


def check(server: Server, answer: requests.Response, rows: list[int]) -> None:
    """The classes and scores of these records, whatever else was asked at the time."""
    assert answer.status_code == 200, answer.text
    videos = answer.json()["videos"]
    assert [video["id"] for video in videos] == [f"v{row:02d}" for row in rows]
    for video, row in zip(videos, rows, strict=True):
        assert [one["index"] for one in video["classes"]] == server.expected.classes[row, :5].tolist()
        assert all(one["name"] == f"class {one['index']}" for one in video["classes"])  # 30: one's own
        scores = [one["score"] for one in video["classes"]]
        np.testing.assert_allclose(scores, server.expected.scores[row, :5], rtol=1e-5)
        reached = server.expected.scores[row] >= LIMITS[server.expected.classes[row]]
        assert [one["index"] for one in video["tags"]] == server.expected.classes[row][reached].tolist()
        assert [one["name"] for one in video["tags"]] == [f"class {one['index']}" for one in video["tags"]]


def features(row: int) -> list[list[float]]:
    """The dequantised frames of a record, as published."""
    lists = tf.train.SequenceExample.FromString(RECORDS[row]).feature_lists.feature_list
    parts = [
        np.array([np.frombuffer(frame.bytes_list.value[0], np.uint8) for frame in lists[name].feature])
        for name in ("rgb", "audio")
    ]
    return (np.concatenate(parts, axis=1).astype(float) * 4 / 255 + 4 / 512 - 2).tolist()


def one_of_many(server: Server, number: int) -> None:
    """A request of one of four kinds, and its answer."""
    row = number % len(RECORDS)
    if number % 4 == 0:
        check(server, server.post(RECORDS[row]), [row])
    elif number % 4 == 1:
        rows = [row, (row + 5) % len(RECORDS)]
        check(server, server.post(b"".join(framed(RECORDS[one]) for one in rows)), rows)
    elif number % 4 == 2:
        videos = [{"id": f"v{row:02d}", "rgb_and_audio": features(row)}]
        check(server, server.post(json.dumps({"videos": videos}), JSON), [row])
    else:
        other = small_exports.video_records(1)[0]
        error = server.post(other).json()["error"]
        assert re.match(r"record 0: .*a video-level record with the features", error)


def concurrent_requests_get_what_single_ones_get(server: Server) -> None:
    for number in range(4):
        one_of_many(server, number)
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda number: one_of_many(server, number), range(24)))
    best = server.post(RECORDS[3], path="/predict?top_k=1").json()["videos"][0]["classes"]
    assert [one["index"] for one in best] == [server.expected.classes[3, 0]]


def described(server: Server) -> None:
    """The description has what is answered, and nothing else."""
    text = requests.get(f"{server.url}/openapi.json").text
    assert "422" not in text
    paths = json.loads(text)["paths"]
    assert set(paths) == {"/predict", "/spans", "/health", "/ready", "/metrics", "/videos"}
    predict, schemas = paths["/predict"]["post"], json.loads(text)["components"]["schemas"]
    content = predict["requestBody"]["content"]
    assert set(content) == {"application/json", *RECORD_TYPES}
    video = content["application/json"]["schema"]["properties"]["videos"]["items"]
    frames = video["properties"]["rgb_and_audio"]
    assert (frames["maxItems"], frames["items"]["minItems"], frames["items"]["maxItems"]) == (8, 8, 8)
    assert [one["name"] for one in predict["parameters"]] == ["top_k"]
    names = {
        status: answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for status, answer in predict["responses"].items()
    }
    refusals = dict.fromkeys(("400", "404", "408", "413", "415", "500", "503"), "Refusal")
    assert names == {"200": "Prediction", **refusals}
    assert schemas["Refusal"]["properties"].keys() == {"error"}
    classes = schemas["PredictedClass"]["properties"]
    assert {name: kind["type"] for name, kind in classes.items()} == {
        "index": "integer",
        "name": "string",
        "score": "number",
    }


def operators_see_what_it_does(server: Server) -> None:
    assert requests.get(f"{server.url}/ready").json() == {"status": "ready"}
    answer = requests.get(f"{server.url}/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    figures = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    count = float(figures['yt8m_requests_total{method="POST",path="/predict",status="200"}'])
    assert count == requests.get(f"{server.url}/health").json()["answered"] > 20
    assert float(figures['yt8m_request_seconds_count{path="/predict"}']) >= count
    assert 0 < float(figures["yt8m_step_seconds_sum"]) < float(figures['yt8m_request_seconds_sum{path="/predict"}'])
    assert float(figures["yt8m_step_videos_sum"]) >= count
    assert figures["yt8m_parsers_replaced"] == figures["yt8m_at_work"] == figures["yt8m_videos_waiting"] == "0.0"
    assert requests.get(f"{server.url}/{count}").status_code == 404
    assert str(count) not in requests.get(f"{server.url}/metrics").text.replace(f" {count}", "")


def the_client_of_the_docs_works(server: Server, folder: pathlib.Path) -> None:
    (folder / "records").write_bytes(b"".join(map(framed, RECORDS[:2])))
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/users/serving.md").read_text(), re.DOTALL)
    code = code.replace("data/video/test/test0000.tfrecord", str(folder / "records"))
    printed = subprocess.run(
        [sys.executable, "-c", code.replace("http://127.0.0.1:8000", server.url)], capture_output=True, text=True
    )
    best = server.expected.classes[:2, :3].tolist()
    assert [re.findall(r"class (\d+)", line) for line in printed.stdout.splitlines()] == [
        [str(index) for index in row] for row in best
    ], printed.stderr


REFUSED = [
    ((b"", BYTES), 400, "the body is empty"),
    ((b"junk", BYTES), 400, "no tf.train.Example"),
    ((b"x", {"Content-Type": "text/plain"}), 415, "Content-Type text/plain: expected one of application/json"),
    ((b"x", {}), 415, "Content-Type none"),
    ((b"{", JSON), 400, "Invalid JSON"),
    ((b"x" * 600_000, BYTES), 413, "the body has more than 0.5 MB"),
    ((small_exports.frame_records(9, 9)[8], BYTES), 413, "9 frames; a video may have 8"),
    ((RECORDS[0], BYTES, "/predict?top_k=0"), 400, "top_k=0: expected a whole number"),
    ((RECORDS[0], BYTES, "/classify"), 404, "there are POST /predict and /spans, and GET /health"),
    ((RECORDS[0], BYTES, "/health"), 405, "there are POST /predict and /spans, and GET /health"),
]


def bad_requests_are_refused_in_one_sentence(server: Server) -> None:
    in_pieces = ((b"x" * 100_000 for _ in range(6)), BYTES), 413, "the body has more than 0.5 MB"
    for request, status, text in (*REFUSED, in_pieces):
        answer = server.post(*request)
        assert (answer.status_code, list(answer.json())) == (status, ["error"]), answer.text
        assert text in answer.json()["error"]
    check(server, server.post(RECORDS[1]), [1])


def a_full_server_says_so_and_one_that_is_stopped_answers_what_it_has(server: Server) -> None:
    with contextlib.ExitStack() as sockets:
        held = [sockets.enter_context(server.half_sent()) for _ in range(CLIENTS)]
        server.wait_for(CLIENTS)
        answer = server.post(RECORDS[0])
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert f"{CLIENTS} requests are in progress (--max_requests)" in answer.json()["error"]
        for one in held[1:]:
            one.close()
        server.wait_for(1)
        check(server, server.post(RECORDS[2]), [2])
        os.kill(server.pid, signal.SIGTERM)
        held[0].sendall(RECORDS[0][-1:])
        answer = http.client.HTTPResponse(held[0])
        answer.begin()
        assert json.load(answer)["videos"][0]["id"] == "v00"


def drive(pid: int, output: IO[str], exported: tuple[str, Predictions]) -> None:
    """All that is asked of the server in process `pid`, which is told to end at last, whatever happens."""
    first = output.readline()
    found = re.fullmatch(rf"serving {re.escape(exported[0])} at (http://127.0.0.1:\d+)\n", first)
    assert found, first
    server = Server(pid, found[1], exported[1])
    try:
        concurrent_requests_get_what_single_ones_get(server)
        described(server)
        operators_see_what_it_does(server)
        the_client_of_the_docs_works(server, pathlib.Path(exported[0]).parent)
        bad_requests_are_refused_in_one_sentence(server)
        a_full_server_says_so_and_one_that_is_stopped_answers_what_it_has(server)
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        raise


def check_end(status: int, out: str, log: str) -> None:
    assert status == 0, log
    assert re.fullmatch(r"stopped after \d+ answers\n", out)
    assert "is a program" in log
    assert "Traceback" not in log


def test_it_answers_refuses_and_ends_in_order(
    exported: tuple[str, Predictions], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """The command itself, in this process: what imports TensorFlow once need not do so twice."""
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one that comes late shall not end the tests
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, former))
    read, write = os.pipe()
    with open(read) as told, ThreadPoolExecutor(1) as client:
        with open(write, "w") as output, contextlib.redirect_stdout(output):
            driven = client.submit(drive, os.getpid(), told, exported)
            status = cli.main(["serve", f"--model={exported[0]}", *WORDS])
        driven.result()
        check_end(status, told.read(), capsys.readouterr().err)


@pytest.mark.long
@pytest.mark.heavy
def test_so_does_a_process_of_its_own(exported: tuple[str, Predictions]) -> None:
    words = [sys.executable, "-m", "yt8m", "serve", f"--model={exported[0]}", *WORDS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        drive(process.pid, process.stdout, exported)
        out, log = process.communicate()
    check_end(process.returncode, out, log)


def test_it_says_how_to_install_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert cli.main(["serve", "--model=m"]) == 2
    assert "run pip install -e '.[serve]' in the checkout of yt8m" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        ([], 2, "--model is missing"),
        (["--model={0}"], 2, "holds no saved_model.pb"),
        (["--model={0}/m", "--port=70000"], 2, "--port must be at most 65535"),
        (["--model={0}/m", "--host=no.such.host.invalid"], 1, "cannot listen on no.such.host.invalid"),
    ],
)
def test_what_cannot_be_served_says_why(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, part: str
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/saved_model.pb").touch()
    assert cli.main(["serve", *(word.format(tmp_path) for word in words)]) == status
    assert part in capsys.readouterr().err
