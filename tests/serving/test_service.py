"""Which bodies are parsed in the service, and which by its child processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal

import numpy as np
import pytest
from reader_records import video_record
from serving.tiny_service import TinyModel, scores_of

from yt8m.records.shards import framed
from yt8m.serving.bodies import JSON, RECORDS, RefusedError
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Answer, Service

FEATURES = np.array([0.25, 0.5, 1], np.float32)
RECORD = video_record(id=[b"x"], labels=[1], mean_rgb=FEATURES)
VIDEO = {"id": "x", "rgb_and_audio": [FEATURES.tolist()]}


def answers(service: Service, kind: str, body: bytes, seconds: float = 60) -> list[Answer]:
    async def ask() -> list[Answer]:
        return await asyncio.wait_for(service.begin(kind, body), seconds)

    return asyncio.run(ask())


def body_of(kind: str, videos: int) -> bytes:
    return framed(RECORD) * videos if kind in RECORDS else json.dumps({"videos": [VIDEO] * videos}).encode()


@pytest.mark.parametrize("kind", [pytest.param(RECORDS[0], marks=pytest.mark.heavy), JSON])
def test_a_light_body_needs_no_child(kind: str) -> None:
    heavy = 900
    with contextlib.closing(Service(TinyModel(), ServeConfig(train_dir="m", max_videos=1000))) as service:
        children = [child._process.pid for child in service._parsers._children]
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        light = answers(service, kind, body_of(kind, 2))
        with pytest.raises(TimeoutError):  # which ends a child
            answers(service, kind, body_of(kind, heavy), 0.05)
        assert service._parsers.replaced == 1
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        found = answers(service, kind, body_of(kind, heavy))
        assert [len(light), len(found)] == [2, heavy]
        for video_id, scores in (*light, *found):
            assert video_id == "x"
            np.testing.assert_array_equal(scores, scores_of(FEATURES[np.newaxis])[0])
        with pytest.raises(RefusedError):
            answers(service, kind, b"{")
