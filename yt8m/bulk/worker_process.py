"""The program of a worker process of DirectRunner: Beam's own, which here ends as soon as the job has ended.

Beam's worker goes on for up to a minute after its job was killed: until a connection times out that it still uses.
"""

from __future__ import annotations

import sys

from yt8m import child_processes

if __name__ == "__main__":
    child_processes.end_with(int(sys.argv[1]))
    from apache_beam.runners.worker import sdk_worker_main  # the import takes seconds, in which the job may be killed

    sdk_worker_main.main(sys.argv[:1])
