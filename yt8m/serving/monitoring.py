"""Metrics of the service for Prometheus at /metrics, and a log line for each answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from absl import logging
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

# The types of a scope or a message, and of an application, in the ASGI specification.
Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

# Requests with other paths or methods are counted as `other`. If each path had its own count, clients could create any
# number of time series.
_PATHS = ("/predict", "/health", "/ready", "/metrics", "/openapi.json")
_METHODS = ("GET", "POST")
# The upper limits of the buckets of the histograms.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_VIDEOS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_NO_ANSWER = 499  # the status that is counted and logged if a client disconnected before its answer


class Monitor:
    """Counts the requests and the steps of the model of a service, as metrics for Prometheus."""

    def __init__(self, **gauges: Callable[[], float]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # no second series with the time of creation for each metric
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        shared: Any = {"namespace": "yt8m", "registry": self._registry}
        self._requests = Counter("requests", "Answers by status.", ["method", "path", "status"], **shared)
        self._latency = Histogram(
            "request_seconds", "From the headers of a request to its answer.", ["path"], buckets=_SECONDS, **shared
        )
        self._videos = Histogram("step_videos", "Videos in a step of the model.", buckets=_VIDEOS, **shared)
        self._steps = Histogram("step_seconds", "Duration of a step of the model.", buckets=_SECONDS, **shared)
        for name, current_value in gauges.items():
            Gauge(name, _GAUGES[name], **shared).set_function(current_value)
        self._step_began: float | None = None

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """Counts an answer of the application.

        Args:
          method: the method of the request, such as GET.
        """
        path = path if path in _PATHS else "other"
        self._requests.labels(method if method in _METHODS else "other", path, str(status)).inc()
        self._latency.labels(path).observe(seconds)

    def refused(self, status: int) -> None:
        """Counts a refusal of a request that was not passed to the application; `status` is its HTTP status."""
        self._requests.labels("other", "other", str(status)).inc()

    @contextlib.contextmanager
    def step(self, videos: int) -> Iterator[None]:
        """Counts and times the step of the model that runs inside the `with` block, on `videos` videos."""
        self._videos.observe(videos)
        self._step_began = time.monotonic()
        try:
            yield
        finally:
            self._steps.observe(self.step_seconds())
            self._step_began = None

    def step_seconds(self) -> float:
        """Seconds since the current step of the model began; 0 if there is none."""
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


_GAUGES = {
    "at_work": "Requests in progress, including timed-out requests whose work has not ended.",
    "videos_waiting": "Parsed videos that wait for a step of the model.",
    "parsers_replaced": "Processes that were killed or died while they parsed a body, and were replaced.",
}


class Observed:
    """An ASGI application that passes requests to another application, and counts the answers of the latter."""

    def __init__(self, app: Asgi, monitor: Monitor, logs: bool) -> None:
        self._app, self._monitor, self._logs = app, monitor, logs

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Answers one request; see the ASGI specification for the arguments."""
        began, status = time.monotonic(), _NO_ANSWER

        async def send_and_record(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_and_record)
        finally:
            seconds = time.monotonic() - began
            self._monitor.answered(scope["method"], scope["path"], status, seconds)
            if self._logs:
                _log_answer(scope, status, seconds)


def _log_answer(scope: Message, status: int, seconds: float) -> None:
    """Logs a line for one answer.

    The line has the path with its escapes, such as %0A, as the client sent it. So it has no control characters.
    """
    path = scope.get("raw_path", b"").decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    client = (scope.get("client") or ("unknown",))[0]
    target = f"{path}?{query}" if query else path
    logging.info("%s %s %s -> %d in %.1f ms", client, scope["method"], target, status, 1000 * seconds)
