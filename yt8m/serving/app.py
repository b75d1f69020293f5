"""The HTTP application: its routes, limits and refusals, and their description at /openapi.json."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from absl import logging
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from yt8m import file_kinds
from yt8m.errors import suggestion
from yt8m.serving import docs_page
from yt8m.serving.bodies import JSON, RECORDS, RefusedError, features_body, names_body, names_in
from yt8m.serving.monitoring import Observed
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Answer, Service
from yt8m.serving.uploads import FORM, Upload, files_of_form, unpack_gzip
from yt8m.serving.video_uploads import VIDEO_TYPES, is_video
from yt8m.version import __version__

# The end of the message about a path or a method that the service does not have.
_ROUTES_TEXT = "there are POST /predict and /spans, and GET /health, /ready, /metrics, /videos, /docs, /openapi.json."
# Seconds for which the body of a request is received and dropped, before the request is refused because too many are in
# progress. Clients read no answer while they are sending.
_DROP_SECONDS = 2.0
_GZIP = b"\x1f\x8b"  # the first bytes of a body that is compressed, also if no header says so
_GZIP_ENCODINGS = ("gzip", "x-gzip")


class _Answer(BaseModel):
    """The base class of answers; it forbids fields that the class of an answer does not declare."""

    model_config = ConfigDict(extra="forbid")


class PredictedClass(_Answer):
    """A class that the model predicts for a video, with its index, its name and its score from 0 to 1."""

    index: int
    name: str
    score: float


class Tag(PredictedClass):
    """A class whose score reaches its threshold.

    `few_positives` is the number of videos with the label on which the threshold was chosen, if it is below 20, because
    the threshold may then be far off; otherwise it is missing.
    """

    few_positives: int | None = None


class VideoClasses(_Answer):
    """The best classes of a video, best first, and its tags.

    The tags are the classes whose scores reach the thresholds of the model. `tags` is missing if there are no
    thresholds. `id` is the video's id from the request, or from its record. `window_frames` is there if the video has
    more frames than those on which the model was trained: it was then scored in windows of so many frames, and each
    class has the score of its best window.
    """

    id: str
    classes: list[PredictedClass]
    tags: list[Tag] | None = None
    window_frames: int | None = None


class Prediction(_Answer):
    """The answer of /predict: the classes of each video, in the order of the request."""

    videos: list[VideoClasses]


class SpanOfClass(PredictedClass):
    """A span of time, in seconds, at which the model finds a class; its score is the mean over the span."""

    start: float
    end: float


class VideoWithSpans(_Answer):
    """The spans of a video of some seconds, by their starts; `id` as in the answer of /predict.

    Times are counted by `frames_per_second`: of records and features in a body that of the model, unless the request
    says another one, which is refused (/spans?frames_per_second=N).
    """

    id: str
    seconds: float
    frames_per_second: float
    spans: list[SpanOfClass]


class SpansFound(_Answer):
    """The answer of /spans: the spans of each video, in the order of the request."""

    videos: list[VideoWithSpans]


class Refusal(_Answer):
    """The answer to a request that is refused: one sentence that says why it is refused."""

    error: str


class Health(_Answer):
    """The answer of /health, with counts of the requests to /predict.

    `status` is always `ok`: a service that does not run gives no answer. `model` is the path of the model's weights.
    `at_work` is the number of requests in progress, including those that got no answer within --timeout and on which
    the service still works. `answered` is the number of requests that got predictions since the service started.
    """

    status: str
    model: str
    at_work: int
    answered: int


class NamesOfVideos(_Answer):
    """The answer of /videos: the names of the videos on the machine of the service that requests may name."""

    videos: list[str]


class Readiness(_Answer):
    """The answer of /ready; `status` is always `ready`, because a service that is not ready refuses with 503."""

    status: str


# {HTTP status of a refusal: when a request to /predict gets it}, for /openapi.json
_REASONS = {
    400: "The body or `top_k` is not valid.",
    404: "The service has no video of this name.",
    408: "The body did not arrive in time.",
    413: "The body exceeds a limit.",
    415: "The content type is not supported.",
    500: "The service failed; its log says why.",
    503: "Too many requests are in progress (with Retry-After), or the model did not answer in time.",
}


def _describe_refusal(status: int, reason: str) -> dict[str, Any]:
    """The description of the answer with an HTTP status for /openapi.json; `reason` says when a request gets it."""
    seconds = {"description": "number of seconds after which to try again", "schema": {"type": "integer"}}
    headers = {"headers": {"Retry-After": seconds}} if status == 503 else {}
    return {"model": Refusal, "description": reason, **headers}


def create(service: Service) -> Observed:
    """Creates the HTTP application of the service. Its answers are JSON, except for /metrics."""
    app = FastAPI(title="yt8m", version=__version__, docs_url=None, redoc_url=None)
    _add_error_handlers(app)
    _add_status_routes(app, service)

    refusals: dict[int | str, dict[str, Any]] = {
        status: _describe_refusal(status, reason) for status, reason in _REASONS.items()
    }

    async def predict(request: Request) -> JSONResponse:
        """The best classes of each video in the body; the body holds records, or features as JSON."""
        return await _answer(service, request, _begin, service.content_of)

    async def spans(request: Request) -> JSONResponse:
        """The spans of time at which each video in the body shows classes; the body is that of /predict."""
        return await _answer(service, request, _begin_spans, lambda videos, _: service.content_of_spans(videos))

    # The first route answers requests. The second route is there for its description in /openapi.json alone: FastAPI's
    # routes are slower, by a tenth of the time of a request.
    app.add_route("/predict", predict, methods=["POST"])
    app.post("/predict", response_model=Prediction, responses=refusals, openapi_extra=_describe_body(service))(predict)
    app.add_route("/spans", spans, methods=["POST"])
    body_alone = {"requestBody": _describe_body(service)["requestBody"]}
    app.post("/spans", response_model=SpansFound, responses=refusals, openapi_extra=body_alone)(spans)
    page = docs_page.make_page(app.openapi())
    app.add_route("/docs", lambda _: HTMLResponse(page, headers=docs_page.HEADERS), methods=["GET"])
    return Observed(app, service.monitor, service.config.access_log)


def _add_status_routes(app: FastAPI, service: Service) -> None:
    """Adds the routes /health, /ready and /metrics."""

    @app.get("/health", response_model=Health)
    async def health() -> JSONResponse:
        """Whether the service runs, which model it serves, and its counts of requests."""
        counts = {"at_work": service.at_work, "answered": service.answered}
        return JSONResponse({"status": "ok", "model": service.scorer.weights, **counts})

    @app.get(
        "/ready",
        response_model=Readiness,
        responses={503: _describe_refusal(503, "A request would be refused, or wait long.")},
    )
    async def ready() -> JSONResponse:
        """Whether a request would be answered now."""
        why_not = service.why_not_ready()
        return _refusal_answer(503, why_not) if why_not else JSONResponse({"status": "ready"})

    @app.get("/videos", response_model=NamesOfVideos)
    async def videos() -> JSONResponse:
        """The names of the videos of --videos; none without this flag."""
        named_videos = service.video_scorer.named_videos
        return JSONResponse({"videos": await asyncio.to_thread(named_videos.ids) if named_videos else []})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(service.monitor.text(), media_type=CONTENT_TYPE_LATEST)


def _add_error_handlers(app: FastAPI) -> None:
    """Makes the application answer every error with a status and a JSON text that says what is wrong."""

    @app.exception_handler(RefusedError)
    async def refuse(_: Request, error: RefusedError) -> JSONResponse:
        return _refusal_answer(error.status, str(error))

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> JSONResponse:
        text = f"{request.method} {request.url.path}: {error.detail}; {_ROUTES_TEXT}"
        answer = _refusal_answer(error.status_code, text)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def report_failure(request: Request, error: Exception) -> JSONResponse:
        logging.error("%s %s failed: %r", request.method, request.url.path, error)
        return _refusal_answer(500, "the service failed on this request; its log says why.")


def _describe_body(service: Service) -> dict[str, Any]:
    """The description of the body and the parameter of /predict for /openapi.json.

    FastAPI cannot derive it, because this project parses the body and the parameter itself.
    """
    records = {"schema": {"type": "string", "format": "binary"}}
    content: dict[str, Any] = dict.fromkeys(RECORDS, records)
    if service.video_scorer.has_extractors:
        content |= {
            f"{VIDEO_TYPES}*": records,
            FORM: {"schema": {"type": "object", "additionalProperties": records["schema"]}},
        }
    features = features_body(service.features, service.limits).model_json_schema()
    features["properties"]["videos"]["items"] = features.pop("$defs")["Video"]
    of_names = names_body(service.limits).model_json_schema()
    content[JSON] = {"schema": {"anyOf": [features, of_names]} if service.video_scorer.named_videos else features}
    top_k = {
        "name": "top_k",
        "in": "query",
        "required": False,
        "description": "number of classes of each video",
        "schema": {"type": "integer", "minimum": 1, "default": service.config.top_k},
    }
    return {"requestBody": {"required": True, "content": content}, "parameters": [top_k]}


def _refusal_answer(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status, {"Retry-After": "1"} if status == 503 else None)


async def _answer(
    service: Service,
    request: Request,
    begin: Callable[[Service, Request, str, bytearray], asyncio.Future[Any]],
    content_of: Callable[[Any, int], dict[str, Any]],
) -> JSONResponse:
    """Answers a request to /predict or /spans. At most `max_requests` requests are in progress at the same time.

    A request that takes too long is refused, but counts as in progress as long as a thread or a child process works on
    it.

    Args:
      begin: begins the work on a body.
      content_of: makes the content of the answer of the result, and of `top_k`.
    """
    config = service.config
    if service.at_work >= config.max_requests:
        with contextlib.suppress(RefusedError):
            await _read_body(request, 0, config, _DROP_SECONDS)
        raise RefusedError(503, f"{config.max_requests} requests are in progress (--max_requests); try again.")
    service.at_work += 1
    work: asyncio.Future[Any] | None = None
    try:
        content_type, body, top_k = await _read_request(request, config)
        work = begin(service, request, content_type, body)
        await asyncio.wait({work}, timeout=config.timeout)
        if not work.done():
            raise RefusedError(503, f"no answer within {config.timeout:g} seconds (--timeout).")
        return JSONResponse(content_of(work.result(), top_k))
    except asyncio.CancelledError:  # the server cancels requests at its shutdown, and would log a traceback of this
        raise RefusedError(503, "the service is shutting down, and there was no answer in time (--timeout).") from None
    finally:
        if work is None or work.done():
            service.at_work -= 1
        else:
            work.add_done_callback(lambda ended: _count_ended(service, ended))
            is_cancelled = isinstance(work, asyncio.Task) and work.cancelling()
            if not is_cancelled:  # a second `cancel` would interrupt the cleanup after the first
                work.cancel()


def _uploads(service: Service, request: Request, content_type: str, body: bytearray) -> list[Upload]:
    """The video files that a body holds or names; none if it holds records or features."""
    if content_type == JSON and (names := names_in(body, service.limits)):
        if not service.video_scorer.named_videos:
            raise RefusedError(
                400, "the body names videos, of which the service has none: start it with --videos=FOLDER."
            )
        return [Upload(name, None) for name in names]
    if content_type == FORM:
        return files_of_form(bytes(body), request.headers["content-type"], service.config.max_videos)
    is_unnamed_video = content_type in RECORDS and is_video(bytes(body[: file_kinds.SAMPLE_BYTES]))
    if content_type.startswith(VIDEO_TYPES) or is_unnamed_video:
        return [Upload(request.query_params.get("id", ""), bytes(body))]
    return []


def _begin(service: Service, request: Request, content_type: str, body: bytearray) -> asyncio.Future[list[Answer]]:
    """Begins to score a body, whatever it holds."""
    if uploads := _uploads(service, request, content_type, body):
        return service.begin_videos(uploads)
    return service.begin(content_type, body)


def _begin_spans(service: Service, request: Request, content_type: str, body: bytearray) -> asyncio.Future[Any]:
    """Begins to find the spans in a body, whatever it holds."""
    rate = request.query_params.get("frames_per_second", "")
    return service.begin_spans(content_type, body, _uploads(service, request, content_type, body), rate)


def _count_ended(service: Service, ended: asyncio.Future[Any]) -> None:
    """Called when the work on a refused request has ended: the request is no longer in progress."""
    service.at_work -= 1
    if not ended.cancelled():
        ended.exception()  # marks the exception as retrieved; otherwise asyncio would log it


_QUERY = ("top_k", "id")  # the parameters of a query
_QUERY_OF_SPANS = ("frames_per_second", "id")


async def _read_request(request: Request, config: ServeConfig) -> tuple[str, bytearray, int]:
    """Reads and checks a request; returns (content type, body, top_k)."""
    body, length = await _read_body(request, config.body_size, config, config.timeout)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_GZIP_ENCODINGS):
        raise RefusedError(415, f"Content-Encoding {encoding}: expected gzip, or a body that is not compressed.")
    if length > len(body):
        raise RefusedError(413, f"the body has more than {config.max_megabytes:g} MB (--max_megabytes).")
    if encoding in _GZIP_ENCODINGS:
        body = await asyncio.to_thread(unpack_gzip, body, config.body_size)
        if len(body) > config.body_size:
            raise RefusedError(413, f"unpacked, the body has more than {config.max_megabytes:g} MB (--max_megabytes).")
    elif body.startswith(_GZIP):
        raise RefusedError(415, "the body is compressed by gzip: add the header Content-Encoding: gzip.")
    known_names = _QUERY_OF_SPANS if request.url.path == "/spans" else _QUERY
    for name in request.query_params:
        if name not in known_names:
            end = suggestion(name, known_names, ".")
            expected = f"{known_names[0]}, or {known_names[1]} of a video"
            raise RefusedError(400, f"no query parameter is {name[:80]!r}; expected {expected}{end}")
    top_k = request.query_params.get("top_k", str(config.top_k))
    if content_type not in (JSON, *RECORDS, FORM) and not content_type.startswith(VIDEO_TYPES):
        expected = ", ".join((JSON, *RECORDS, FORM, f"{VIDEO_TYPES}mp4"))
        raise RefusedError(415, f"Content-Type {content_type or 'none'}: expected one of {expected}.")
    if not body:
        raise RefusedError(400, "the body is empty: expected records, or features as JSON.")
    if not (top_k.isascii() and top_k.isdigit() and int(top_k[:9]) > 0):
        raise RefusedError(400, f"top_k={top_k}: expected a whole number of at least 1.")
    return content_type, body, int(top_k[:9])


async def _read_body(request: Request, most: int, config: ServeConfig, seconds: float) -> tuple[bytearray, int]:
    """Reads the body of a request.

    The rest of a body that is too large is read and dropped, because clients read no answer while they are sending.
    Reading stops after four times the size that --max_megabytes allows.

    Args:
      most: number of bytes to keep.

    Returns:
      (the first `most` bytes of the body, number of bytes received).
    """
    body, length = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece[: max(most - length, 0)]
                length += len(piece)
                if length > 4 * config.body_size:
                    break
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {seconds:g} seconds (--timeout).") from None
    except ClientDisconnect:
        raise RefusedError(400, "the client closed the connection before the whole body had arrived.") from None
    return body, length
