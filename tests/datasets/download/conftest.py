"""The server for the tests of this folder."""

from datasets.download.download_runs import server

__all__ = ["server"]
