"""`yt8m serve --model=DIR`: serves a model over HTTP. Requests have records or features; answers have named classes.

`app` is the HTTP application, and `connections` the HTTP server that calls it. `parsing` starts child processes, which
parse request bodies with `bodies`. `service` runs the model, and `monitoring` counts requests. `_serve` imports most of
these modules late, so that a wrong flag is reported at once.
"""

from __future__ import annotations

import contextlib
import importlib.util

from yt8m.errors import missing_extra
from yt8m.serving.serve_config import ServeConfig


def run(config: ServeConfig) -> int:
    """Serves until SIGTERM or Ctrl-C; after SIGTERM, prints how many requests got predictions, and returns status 0.

    Raises:
      KeyboardInterrupt: Ctrl-C stopped the server.
      UsageError: there is no such model, vocabulary or file of thresholds, the vocabulary does not fit the model, the
        form of --host is not valid, or the packages for HTTP are not installed.
      RunError: the model or its thresholds cannot be loaded, the server cannot listen on the address, or the child
        processes that parse do not start.
    """
    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise missing_extra("yt8m serve", "FastAPI with uvicorn and prometheus-client", "serve")
    answered = _serve(config)
    print(f"stopped after {answered} answers", flush=True)
    return 0


def _serve(config: ServeConfig) -> int:
    """Serves until SIGTERM; returns the number of requests that got predictions. Raises like `run`."""
    from yt8m import scoring
    from yt8m.serving import app, connections
    from yt8m.serving.service import Service

    with (
        connections.LastResort(config.timeout) as last_resort,
        connections.listening(config.host, config.port) as (socket, address),
        scoring.open(config.train_dir, config.checkpoint, trust_code=config.trust_code) as scorer,
        contextlib.closing(Service(scorer, config)) as service,
    ):
        rules = connections.Rules(config.timeout, 8 * config.max_requests, service.monitor.refused)
        connections.run(app.create(service), socket, rules, last_resort, f"serving {scorer.weights} at {address}")
        return service.answered
