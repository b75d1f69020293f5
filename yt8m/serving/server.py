"""`yt8m serve --model=DIR`: serves a model over HTTP. Requests have records or features; answers have named classes.

`app` is the HTTP application, and `connections` the HTTP server that calls it. `parsing` starts child processes, which
parse request bodies with `bodies`. `service` runs the model, and `monitoring` counts requests. `_serve` imports most of
these modules late, so that a wrong flag is reported at once.
"""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass

from yt8m import options
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.errors import missing_extra
from yt8m.options import option, path_option
from yt8m.records import thresholds
from yt8m.scoring.predictions import PredictConfig


def run(config: ServeConfig) -> int:
    """Serves until SIGTERM or Ctrl-C; after SIGTERM, prints how many requests got predictions, and returns status 0.

    Args:
      config: the flags.

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


@dataclass(frozen=True)
class ServeConfig(options.Checked):
    """The flags of `yt8m serve`."""

    train_dir: str = same_as(PredictConfig, "train_dir", flag="model", aliases=("train_dir",))
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    trust_code: bool = same_as(OfCheckpoint, "trust_code")
    vocabulary: str = path_option("CSV of the classes' names, with the columns index,name; by default the model's own")
    thresholds: str = path_option(thresholds.HELP)
    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 for all addresses of this machine")
    port: int = option(8000, "port to listen on; 0 for a free one", minimum=0, maximum=65535)
    top_k: int = option(5, "number of classes of a video in an answer, unless the request gives one", minimum=1)
    max_frames: int = option(300, "largest number of frames of a video", minimum=1)
    max_videos: int = option(64, "largest number of videos in a request, and in a step of the model", minimum=1)
    max_megabytes: float = option(32.0, "largest size of a request's body, in MB", minimum=0.001, maximum=1024)
    max_requests: int = option(64, "largest number of requests in progress; further ones are answered 503", minimum=1)
    access_log: bool = option(False, "write a line to the log for each answer")
    timeout: float = option(
        30.0, "seconds for a request to arrive, and as many for its answer", minimum=0.1, maximum=3600
    )

    @property
    def body_size(self) -> int:
        """The limit on the bytes of a request body."""
        return int(self.max_megabytes * 1e6)
