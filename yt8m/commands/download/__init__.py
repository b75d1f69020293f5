"""`yt8m download`: the published shards from data.yt8m.org, each checked by its md5."""

from __future__ import annotations

from yt8m.commands.download.command import main

__all__ = ["main"]
