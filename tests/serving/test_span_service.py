"""POST /spans: the spans of records and features are those of `yt8m predict --spans`; what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from span_runs import FILMS, SECONDS, TRAINED

import yt8m
from yt8m import scoring
from yt8m.serving import app
from yt8m.serving.bodies import JSON, RECORDS, RefusedError
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Service

pytestmark = pytest.mark.long


def rows_of(answer: dict[str, Any]) -> list[tuple[str, str, float, float, float]]:
    """(video, class, start, end, score) of the spans of an answer."""
    return [
        (video["id"], span["name"], span["start"], span["end"], span["score"])
        for video in answer["videos"]
        for span in video["spans"]
    ]


def request(
    service: Service, path: str, kind: str, body: bytes, method: str = "POST", query: str = ""
) -> tuple[int, dict[str, Any]]:
    """The status and the content of the application's answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode()}
    scope |= {"query_string": query.encode(), "headers": [(b"content-type", kind.encode())], "client": ("test", 1)}
    scope |= {"scheme": "http", "server": ("test", 80), "root_path": ""}
    asyncio.run(app.create(service)(scope, receive, send))
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(content)


def test_spans_are_those_of_predict(span_run: pathlib.Path) -> None:
    (shard,) = (span_run / "data" / "frame" / "validate").glob("*.tfrecord")
    with yt8m.load(span_run / "run") as model:
        expected = [
            (row["video"], row["class"], row["start"], row["end"], row["score"]) for row in model.spans(str(shard))
        ]
        (feature,) = model._scorer.takes.format.sizes()
    films = [
        {"id": f"v{number}", feature: np.load(span_run / f"v{number}.npy").tolist()} for number in range(TRAINED, FILMS)
    ]
    config = ServeConfig(train_dir=str(span_run / "run"))
    with (
        scoring.open(str(span_run / "run"), first_input="floats") as scorer,
        contextlib.closing(Service(scorer, config)) as service,
    ):
        bodies = [(RECORDS[0], shard.read_bytes()), (JSON, json.dumps({"videos": films}).encode())]
        for content_type, body in bodies:
            status, answer = request(service, "/spans", content_type, body)
            assert status == 200, answer
            assert [row[:4] for row in sorted(rows_of(answer))] == [row[:4] for row in sorted(expected)]
            np.testing.assert_allclose(
                [row[4] for row in sorted(rows_of(answer))], [row[4] for row in sorted(expected)], atol=1e-5
            )
            assert {video["seconds"] for video in answer["videos"]} == {SECONDS}
            assert {video["frames_per_second"] for video in answer["videos"]} == {1.0}
        assert request(service, "/spans", *bodies[1], query="frames_per_second=1")[0] == 200
        for stated, message in (("25", "frames_per_second=25: the model finds spans in features of 1 "), ("x", "'x'")):
            status, answer = request(service, "/spans", *bodies[1], query=f"frames_per_second={stated}")
            assert (status, message in answer["error"]) == (400, True)
        status, answer = request(service, "/spans", JSON, b"{}")
        assert (status, "videos" in answer["error"]) == (400, True)
        described = request(service, "/openapi.json", JSON, b"", "GET")[1]["paths"]["/spans"]["post"]
        assert set(described["requestBody"]["content"]) >= {JSON, RECORDS[0]}
        status, answer = request(service, "/spans", "video/mp4", b"x")
        assert (status, "extractors" in answer["error"]) == (415, True)
        other = Service(scorer, ServeConfig(train_dir="m", spans_from=str(span_run / "none.json")))
        with contextlib.closing(other), pytest.raises(RefusedError, match=r"spans_from.*none.json"):
            asyncio.run(_spans(other, JSON, bodies[1][1]))


async def _spans(service: Service, kind: str, body: bytes) -> Any:
    return await service.begin_spans(kind, body, [])
