"""What the use of buckets needs to know for the whole process: where to keep copies, how long to try."""

from __future__ import annotations

import os
from dataclasses import dataclass

STAGE_BYTES = 20 << 30
RETRY_SECONDS = 300.0
GIVEN_RETRY = "YT8M_GS_RETRY_SECONDS"  # for tools, which have no such flag


@dataclass(frozen=True)
class Settings:
    """How buckets are used.

    Attributes:
      cache_dir: a local folder for copies; empty for `yt8m` in XDG_CACHE_HOME or ~/.cache.
      stage_cache_bytes: how much of the copies of shards stays there.
      gs_reading: how shards are read: `staged` through the cache, or `direct` by TensorFlow.
      gs_retry_seconds: how long one request is tried again where that can help.
    """

    cache_dir: str = ""
    stage_cache_bytes: int = STAGE_BYTES
    gs_reading: str = "staged"
    gs_retry_seconds: float = RETRY_SECONDS


_settings = Settings()


def configure(settings: Settings) -> None:
    """Makes `settings` those of this process."""
    global _settings
    _settings = settings


def current() -> Settings:
    """Those last given to `configure`."""
    return _settings


def cache_dir() -> str:
    """The local folder for copies; it may not exist yet."""
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.abspath(_settings.cache_dir or os.path.join(usual, "yt8m"))


def retry_seconds() -> float:
    """Seconds that one request may take with all its repetitions."""
    given = os.environ.get(GIVEN_RETRY, "")
    if _settings.gs_retry_seconds != RETRY_SECONDS or not given:
        return _settings.gs_retry_seconds
    try:
        return float(given)
    except ValueError:
        return RETRY_SECONDS
