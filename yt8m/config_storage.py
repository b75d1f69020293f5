"""How gs:// paths are used; training, evaluation and inference have the same options for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from yt8m import options
from yt8m.options import option
from yt8m.storage import settings


@dataclass(frozen=True)
class StorageConfig:
    """Only read where a path begins with gs://."""

    cache_dir: str = option("", "local folder for copies of what is in buckets; ~/.cache/yt8m if not named")
    stage_cache_bytes: int = option(
        settings.STAGE_BYTES, "bytes of shards from buckets that are kept there; the oldest go", minimum=1
    )
    gs_reading: str = option(
        "staged",
        "how shards in buckets are read: staged in that cache ahead of time, or by TensorFlow itself",
        choices=("staged", "direct"),
    )
    gs_retry_seconds: float = option(
        settings.RETRY_SECONDS, "how long a request to a bucket is tried again", minimum=0.0
    )

    def __post_init__(self) -> None:
        options.check(self)

    def use(self) -> None:
        """Makes these the settings of this process."""
        settings.configure(settings.Settings(**dataclasses.asdict(self)))
