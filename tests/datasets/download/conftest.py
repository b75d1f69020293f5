"""Makes the fixture `server`, a mirror of YouTube-8M on this machine, known to the tests of this folder."""

from datasets.download.download_runs import server

__all__ = ["server"]
