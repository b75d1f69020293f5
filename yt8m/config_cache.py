"""What a cache of parsed videos is for, and what it cannot do."""

from __future__ import annotations

from typing import Any

from yt8m.errors import UsageError

CACHE_HELP = "local folder that keeps videos as they were parsed, for every later pass over them"


def check_cache(data: Any) -> None:
    """Refuses, where there is to be a cache, what does not go with it.

    Args:
      data: a DataConfig.
    """
    if not data.cache:
        return
    given = f"--cache={data.cache}"
    if data.frame_features:
        raise UsageError(
            f"{given} keeps videos, and --frame_features reads frames, which are bytes before and "
            "after parsing: nothing would be saved. Leave out one of the two."
        )
    for path, what in ((data.cache, "a local folder"), (data.data_pattern, "local shards")):
        if "gs://" in path:
            raise UsageError(
                f"{given} needs {what}, and {path} is in a bucket; copy it here, or leave it out."
            )
    if data.max_bad_records or data.nan_policy != "refuse":
        raise UsageError(
            f"{given} parses a record once, and so cannot tell in each pass what --max_bad_records leaves "
            "out and --nan_policy=zero sets to 0. Leave out one of the two."
        )
