"""The description at /openapi.json is true: real requests get the answers that it describes."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from jsonschema import Draft202012Validator
from reader_records import frame_record, video_record
from serving.test_server_attacks import TINY, Service, served
from serving.tiny_service import BROKEN, SIZE, STUCK

JSON, RECORD = "application/json", "application/octet-stream"
GOOD = video_record(id=[b"x"], labels=[], mean_rgb=[0.5] * SIZE)
LONG = frame_record({"id": [b"x"]}, {"rgb/floats": [[0.0] * SIZE] * 9})


class Description:
    """The description that a service gives of itself."""

    def __init__(self, service: Service) -> None:
        self._told = requests.get(f"{service.url}/openapi.json").json()

    def schema(self, *path: str) -> Draft202012Validator:
        found: Any = self._told["paths"]
        for part in path:
            found = found[part]
        return Draft202012Validator({**found["schema"], "components": self._told["components"]})

    def check(self, answer: requests.Response, path: str = "/predict", method: str = "post") -> None:
        """The answer has a status, a content type, headers and a body that are described."""
        kind, *_ = answer.headers["Content-Type"].split(";")
        place = (path, method, "responses", str(answer.status_code))
        self.schema(*place, "content", kind).validate(answer.json())
        headers = self._told["paths"][path][method]["responses"][str(answer.status_code)].get("headers", {})
        assert list(headers) == (["Retry-After"] if answer.status_code == 503 else [])
        for name in headers:
            self.schema(*place, "headers", name).validate(int(answer.headers[name]))

    def accepts(self, body: Any) -> bool:
        """Whether a body of JSON is described."""
        return self.schema("/predict", "post", "requestBody", "content", JSON).is_valid(body)


def post(service: Service, body: bytes, kind: str = RECORD, query: str = "") -> requests.Response:
    return requests.post(f"{service.url}/predict{query}", data=body, headers={"Content-Type": kind})


def videos(*frames: list[list[Any]], **more: Any) -> dict[str, Any]:
    return {"videos": [{"id": "x", "rgb_and_audio": one, **more} for one in frames]}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    words = ("--timeout=60", "--max_megabytes=0.1", "--max_videos=4", "--max_frames=8")
    with served(*TINY, *words) as service:
        yield service
        assert service.terminated() == 0


@pytest.mark.promise("X6")
def test_each_status_has_the_body_that_is_described(service: Service) -> None:
    told = Description(service)
    for status, body, kind, query in (
        (200, GOOD, RECORD, ""),
        (200, GOOD, "application/x-protobuf", "?top_k=2"),
        (200, json.dumps(videos([[0, 1, 2]])).encode(), JSON, ""),
        (400, b"junk", RECORD, ""),
        (400, GOOD, RECORD, "?top_k=none"),
        (400, GOOD, RECORD, "?topk=2"),
        (400, b"{", JSON, ""),
        (413, b"x" * 200_000, RECORD, ""),
        (413, LONG, RECORD, ""),
        (415, b"x", "text/plain", ""),
        (415, gzip.compress(GOOD), RECORD, ""),
        (500, video_record(id=[b"x"], labels=[], mean_rgb=[BROKEN] * SIZE), RECORD, ""),
    ):
        answer = post(service, body, kind, query)
        assert answer.status_code == status, answer.text
        told.check(answer)
    for path in ("/health", "/ready"):
        told.check(requests.get(service.url + path), path, "get")
    metrics = requests.get(f"{service.url}/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain;")
    described = requests.get(f"{service.url}/openapi.json").json()["paths"]["/metrics"]["get"]["responses"]
    assert list(described["200"]["content"]) == ["text/plain"]


def test_a_body_in_gzip_is_unpacked_within_the_limits(service: Service) -> None:
    def send(body: bytes, encoding: str) -> requests.Response:
        headers = {"Content-Type": RECORD, **({"Content-Encoding": encoding} if encoding else {})}
        return requests.post(f"{service.url}/predict", body, headers=headers)

    plain, packed = send(GOOD, "").json(), gzip.compress(GOOD)
    assert send(packed, "gzip").json() == send(packed, "X-GZIP").json() == plain
    assert send(gzip.compress(GOOD[:9]) + gzip.compress(GOOD[9:]), "gzip").json() == plain
    for body, encoding, status, text in (
        (packed, "", 415, "add the header Content-Encoding: gzip"),
        (packed, "br", 415, "Content-Encoding br"),
        (packed[:-3], "gzip", 400, "its gzip ends early"),
        (GOOD, "gzip", 400, "not gzip"),
        (gzip.compress(bytes(10_000_000)), "gzip", 413, "--max_megabytes"),
    ):
        answer = send(body, encoding)
        assert answer.status_code == status
        assert text in answer.text


def test_features_have_the_names_of_the_model(service: Service) -> None:
    by_name = {"videos": [{"id": "x", "mean_rgb": [0.5] * SIZE}]}
    answer = post(service, json.dumps(by_name).encode(), JSON)
    assert answer.json() == post(service, json.dumps(videos([[0.5] * SIZE])).encode(), JSON).json()
    assert Description(service).accepts(by_name)


def test_the_page_of_docs_has_every_path_and_needs_no_other_server(service: Service) -> None:
    answer = requests.get(f"{service.url}/docs")
    assert answer.headers["Content-Type"].startswith("text/html")
    for text in ("POST /predict", "GET /ready", "mean_rgb", "application/octet-stream", "503"):
        assert text in answer.text
    assert "<script" not in answer.text
    assert "http" not in answer.text.partition("<h1>")[2].replace("HTTP", "")


def test_a_model_without_extractors_takes_no_video(service: Service) -> None:
    video = b"\0\0\0\x18ftypmp42" + bytes(100)
    for kind in ("video/mp4", RECORD):
        answer = post(service, video, kind)
        assert answer.status_code == 415
        assert "extractors" in answer.text


@pytest.mark.heavy
@pytest.mark.promise("X6")
def test_so_have_those_of_time_and_of_many_requests() -> None:
    with served(*TINY, "--timeout=1", "--max_requests=1") as service:
        told = Description(service)
        with socket.create_connection(service.address) as half:
            half.sendall(f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: {RECORD}\r\n".encode())
            half.sendall(b"Content-Length: 9\r\n\r\nhalf")
            head, _, body = half.makefile("rb").read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"content-type: application/json" in head
        told.schema("/predict", "post", "responses", "408", "content", JSON).validate(json.loads(body))
        while service.health()["at_work"] == 0:  # until a step that does not end has begun in time
            slow = post(service, video_record(id=[b"x"], labels=[], mean_rgb=[STUCK] * SIZE))
        full = post(service, GOOD)
        ready = requests.get(f"{service.url}/ready")
        assert [slow.status_code, full.status_code, ready.status_code] == [503] * 3
        told.check(slow)
        told.check(full)
        told.check(ready, "/ready", "get")


def test_bodies_of_json_are_taken_as_described(service: Service) -> None:
    """The description and the service accept the same bodies."""
    fine = videos([[0, 1, 2.5]], [[0, 0, 0]] * 2)
    told = Description(service)
    for body, is_fine in (
        (fine, True),
        ({"videos": [{"rgb_and_audio": [[1, 2, 3]]}]}, True),
        (videos(*[[[0, 0, 0]]] * 4), True),
        (videos(*[[[0, 0, 0]]] * 5), False),
        (videos([[0, 0, 0]] * 9), False),
        (videos([[0, 0]]), False),
        (videos([[0, 0, 0, 0]]), False),
        (videos([["0", 0, 0]]), False),
        (videos([[None, 0, 0]]), False),
        (videos([]), False),
        (videos(), False),
        (videos([[0, 0, 0]], more=1), False),
        ({**fine, "more": 1}, False),
        ([], False),
        ({}, False),
    ):
        answer = post(service, json.dumps(body).encode(), JSON)
        assert (answer.status_code == 200, told.accepts(body)) == (is_fine, is_fine), (body, answer.text)
        told.check(answer)
