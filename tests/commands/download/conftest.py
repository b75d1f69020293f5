"""The server for the tests of this folder."""

from download_runs import server

__all__ = ["server"]
