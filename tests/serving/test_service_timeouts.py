"""Requests that do not arrive, and a model that does not answer, in time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from reader_records import video_record
from serving.tiny_service import TinyModel

from yt8m.scoring.model_input import Videos
from yt8m.serving import app
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Service

KIND = "application/octet-stream"
RECORD = video_record(id=[b"x"], labels=[1], mean_rgb=np.ones(3))
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Waiting(TinyModel):
    """A model whose step takes until it is let go."""

    def __init__(self) -> None:
        super().__init__(3, 4)
        self.go = threading.Event()

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], np.ndarray]:
        assert self.go.wait(600)
        return ["x"], np.array([[0, 0.5, 0, 0]], np.float32)


async def asked(
    application: Any, receive: Receive, method: str = "POST", path: str = "/predict"
) -> tuple[int, dict[str, Any]]:
    """What the application answers, called as a server calls it."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", KIND.encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    await application(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


async def whole() -> dict[str, Any]:
    return {"type": "http.request", "body": RECORD, "more_body": False}


async def never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


@pytest.mark.promise("X6")
def test_what_takes_too_long_is_given_up_and_stays_at_work_until_it_has_ended() -> None:
    model = Waiting()
    with contextlib.closing(Service(model, ServeConfig(train_dir="m", timeout=0.1, max_requests=1))) as service:
        application = app.create(service)

        async def run() -> list[tuple[int, dict[str, Any]]]:
            model.go.set()
            await service.begin(KIND, RECORD)  # has no time limit
            model.go.clear()
            found = [await asked(application, never)]
            service.config = dataclasses.replace(service.config, timeout=2)
            found += [await asked(application, receive) for receive in (gone, whole, whole)]
            assert service.at_work == 1
            found.append(await asked(application, whole, "GET", "/ready"))
            service.config = dataclasses.replace(service.config, timeout=60)
            model.go.set()
            while service.at_work:
                await asyncio.sleep(0.01)
            return [*found, await asked(application, whole), await asked(application, whole, "GET", "/ready")]

        late, cut, slow, full, not_ready, answered, ready = asyncio.run(run())
        figures = service.monitor.text().decode()
    assert late == (408, {"error": "the body did not arrive within 0.1 seconds (--timeout)."})
    assert cut == (400, {"error": "the client closed the connection before the whole body had arrived."})
    assert slow == (503, {"error": "no answer within 2 seconds (--timeout)."})
    assert full == (503, {"error": "1 requests are in progress (--max_requests); try again."})
    assert not_ready == (503, {"error": "1 requests are in progress (--max_requests)."})
    assert answered[0] == 200
    assert answered[1]["videos"][0]["classes"][0]["index"] == 1
    assert ready == (200, {"status": "ready"})
    assert 'yt8m_requests_total{method="POST",path="/predict",status="503"} 2.0' in figures
    assert "yt8m_step_videos_count 3.0" in figures
    assert "yt8m_at_work 0.0" in figures
