"""How storage fails, and who holds a lock."""

from __future__ import annotations

import datetime
import json
import os
import secrets
import socket
from typing import Any

from yt8m import json_text
from yt8m.errors import RunError


class NotFoundError(RunError):
    """There is no such file or folder."""


class Locked(RunError):  # noqa: N818 - it is a state of the file, and reads so where it is caught
    """Another process holds the lock.

    Attributes:
      holder: what it wrote down of itself (pid, host, since); empty where it had not done so yet.
    """

    def __init__(self, path: str, holder: dict[str, Any]) -> None:
        self.holder = holder
        who = "another process"
        if holder:
            who = f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"
        super().__init__(f"{path} is held by {who}. Wait until it ends, or stop it.")


def this_holder() -> bytes:
    """What this process writes into a lock file; never twice the same."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
    return json.dumps({**holder, "token": secrets.token_hex(8)}).encode()


def parse_holder(content: bytes) -> dict[str, Any]:
    """What a lock file says of its holder; empty where it says nothing readable."""
    try:
        holder = json_text.parse(content)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
