"""The server for the tests of this folder."""

from commands.download.download_runs import server

__all__ = ["server"]
