"""The HTTP application and server: routes, limits, error answers, and the listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from absl import logging
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from yt8m import __version__
from yt8m.commands.serve import ServeConfig
from yt8m.commands.serve.bodies import JSON, RECORDS, FeaturesBody, RefusedError
from yt8m.commands.serve.service import Service
from yt8m.errors import RunError


def create(service: Service) -> FastAPI:
    """The HTTP application; every answer is JSON, and that of a refused request is `{"error": one sentence}`."""
    app = FastAPI(title="yt8m", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """That the service runs, and which model it serves."""
        counts = {"at_work": service.at_work, "answered": service.answered}
        return {"status": "ok", "model": service.model.folder, **counts}

    @app.post("/predict", openapi_extra={"requestBody": _described()})
    async def predict(request: Request, top_k: str = "") -> JSONResponse:
        """The best classes of each video in the body: records, or features as JSON."""
        return await _answered(service, request, top_k)

    @app.exception_handler(RefusedError)
    async def refuse(_: Request, error: RefusedError) -> JSONResponse:
        return _refusal(error.status, str(error))

    @app.exception_handler(HTTPException)
    async def no_such(request: Request, error: HTTPException) -> JSONResponse:
        what = f"{request.method} {request.url.path}: {error.detail}"
        return _refusal(error.status_code, f"{what}; there are POST /predict and GET /health.")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        logging.error("%s %s failed: %r", request.method, request.url.path, error)
        return _refusal(500, "the service failed on this request; its log says why.")

    return app


def _described() -> dict[str, Any]:
    """The schema of /predict's bodies for /openapi.json. FastAPI cannot derive it, because it does not parse them."""
    features = FeaturesBody.model_json_schema(ref_template="#/components/schemas/{model}")
    video = features.pop("$defs")["VideoFeatures"]
    features["properties"]["videos"]["items"] = video
    records = {"schema": {"type": "string", "format": "binary"}}
    return {"required": True, "content": {JSON: {"schema": features}, **dict.fromkeys(RECORDS, records)}}


def _refusal(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status, {"Retry-After": "1"} if status == 503 else None)


async def _answered(service: Service, request: Request, top_k: str) -> JSONResponse:
    """Answers one request, as one of at most `max_requests` at the same time.

    Raises:
      RefusedError: there are too many requests, this one is not valid, or it takes too long.
    """
    config = service.config
    if service.at_work >= config.max_requests:
        await _arrived(request, 0, config)
        raise RefusedError(503, f"{config.max_requests} requests are at work (--max_requests); try again.")
    service.at_work += 1
    try:
        body, length = await _arrived(request, config.body_size, config)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, *RECORDS):
            raise RefusedError(415, f"Content-Type {kind or 'none'}: expected one of {', '.join((JSON, *RECORDS))}.")
        if length > len(body):
            raise RefusedError(413, f"the body has more than {config.max_megabytes:g} MB (--max_megabytes).")
        if not body:
            raise RefusedError(400, "the body is empty: expected records, or features as JSON.")
        if top_k and not (top_k.isascii() and top_k.isdigit() and int(top_k[:9]) > 0):
            raise RefusedError(400, f"top_k={top_k}: expected a whole number of at least 1.")
        answer = service.predict(kind, body, int(top_k[:9] or config.top_k))
        return JSONResponse(await asyncio.wait_for(answer, config.timeout))
    except TimeoutError:
        raise RefusedError(503, f"no answer within {config.timeout:g} seconds (--timeout).") from None
    finally:
        service.at_work -= 1


async def _arrived(request: Request, most: int, config: ServeConfig) -> tuple[bytes, int]:
    """The first `most` bytes of the body, and the number of bytes received.

    The rest of a body that is too large is read and dropped, because a client sees no answer while it is still sending.
    Reading stops after four times the allowed size.

    Raises:
      RefusedError: the body did not arrive in time, or the connection ended.
    """
    kept, length = bytearray(), 0
    try:
        async with asyncio.timeout(config.timeout):
            async for piece in request.stream():
                kept += piece[: max(most - length, 0)]
                length += len(piece)
                if length > 4 * config.body_size:
                    break
    except TimeoutError:
        text = f"the body did not arrive within {config.timeout:g} seconds (--timeout)."
        raise RefusedError(408, text) from None
    except ClientDisconnect:
        raise RefusedError(400, "the connection ended within the body.") from None
    return bytes(kept), length


_BACKLOG = 128  # connections that the system queues before they are accepted


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Opens a listening socket; yields it and its address as a URL. Call it before the slow loading of the model.

    Raises:
      RunError: the address does not belong to this machine, or the port is in use.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.create_server(place[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise RunError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; choose another by --host and --port."
        ) from error
    with opened:
        name = f"[{host}]" if ":" in host else host
        yield opened, f"http://{name}:{opened.getsockname()[1]}"


def run(app: FastAPI, opened: socket.socket, timeout: float, max_connections: int) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the requests in progress and returns.

    Args:
      app: the HTTP application.
      opened: the listening socket.
      timeout: seconds that the requests in progress have to finish.
      max_connections: limit of connections; uvicorn itself answers 503 on further ones.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=math.ceil(timeout),
    )
    # uvicorn shuts down and then raises the signal again, which would change the exit status of the process.
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        uvicorn.Server(config).run(sockets=[opened])
    finally:
        signal.signal(signal.SIGTERM, former)
