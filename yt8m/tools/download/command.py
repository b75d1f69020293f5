"""The command line of `yt8m download`: what to fetch, whether it fits, side by side, and what failed."""

from __future__ import annotations

import concurrent.futures
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from yt8m import flags
from yt8m.errors import RunError, UsageError
from yt8m.program import terminable
from yt8m.storage.partial import free_bytes
from yt8m.tools.download import plan
from yt8m.tools.download.client import Client, StoppedError
from yt8m.tools.download.config import DownloadConfig
from yt8m.tools.download.progress import Progress, shown_bytes
from yt8m.tools.download.transfer import Job, fetch, is_there

T = TypeVar("T")


class _Seen(NamedTuple):
    """What is known of a file before it is fetched; `size` None where the server does not say."""

    is_there: bool
    size: int | None
    partial: int


def main(argv: list[str]) -> int:
    """Fetches what the flags ask for; returns the exit status.

    Raises:
      UsageError: the flags cannot be, or the disk has no room; nothing was fetched.
      RunError: no plan, or some files failed; they were listed on the error stream.
    """
    purpose = "Fetches shards of YouTube-8M and checks their md5. Started again, it goes on where it ended."
    config = flags.read(DownloadConfig, "yt8m download", purpose, argv)
    client = Client(config.retries, config.backoff_seconds, config.stall_seconds)
    with terminable():
        return _Download(config, client).run(_jobs(config, client))


def _jobs(config: DownloadConfig, client: Client) -> list[Job]:
    address = config.plan_address
    files = plan.in_shard(plan.parse(client.content(address), address), config.shard)
    if not files:
        raise UsageError(f"--shard={','.join(map(str, config.shard))} holds no file of {config.partition}.")
    return [
        Job(config.file_address(one.name), os.path.join(config.dest, plan.saved_name(one.name)), one.md5)
        for one in files
    ]


class _Download:
    """The steps, and what failed in any of them."""

    def __init__(self, config: DownloadConfig, client: Client) -> None:
        self._config, self._client = config, client
        self._failed: dict[str, str] = {}

    def run(self, jobs: Sequence[Job]) -> int:
        """Looks, checks the room, fetches; raises `RunError` where a file failed."""
        seen = self._side_by_side(jobs, self._look)
        wanted = [job for job in jobs if job in seen and not seen[job].is_there]
        present = len(seen) - len(wanted)
        missing = sum(max((seen[job].size or 0) - seen[job].partial, 0) for job in wanted)
        print(
            f"{self._config.partition}: {len(jobs)} files, {present} there already, "
            f"{len(wanted)} to fetch ({shown_bytes(missing)})",
            flush=True,
        )
        if self._config.dry_run:
            for job in wanted:
                print(f"{job.url} -> {job.target} ({shown_bytes(seen[job].size)})")
        else:
            _refuse_without_room(self._config.dest, missing)
            self._fetch_all(wanted, sum(seen[job].size or 0 for job in wanted))
        return self._report(len(jobs))

    def _look(self, job: Job) -> _Seen:
        if is_there(job, self._config.overwrite or self._config.dry_run):
            return _Seen(True, None, 0)
        partial = os.path.getsize(job.partial) if os.path.exists(job.partial) else 0
        return _Seen(False, self._client.size(job.url), partial)

    def _fetch_all(self, jobs: Sequence[Job], total: int) -> None:
        with Progress(total, len(jobs)) as progress:

            def one(job: Job) -> None:
                fetch(self._client, job, progress.advance)
                progress.finished(os.path.basename(job.target))

            self._side_by_side(jobs, one)

    def _side_by_side(self, jobs: Sequence[Job], work: Callable[[Job], T]) -> dict[Job, T]:
        """The results of `work`; failures are kept, and the others go on."""
        done: dict[Job, T] = {}
        pool = concurrent.futures.ThreadPoolExecutor(self._config.jobs)
        try:
            futures = {pool.submit(work, job): job for job in jobs}
            for future in concurrent.futures.as_completed(futures):
                try:
                    done[futures[future]] = future.result()
                except (RunError, UsageError) as error:
                    self._failed[futures[future].target] = str(error)
                except StoppedError:
                    continue
        except BaseException:
            self._client.end()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return done

    def _report(self, count: int) -> int:
        if not self._failed:
            return 0
        for target, reason in sorted(self._failed.items()):
            print(f"failed: {os.path.basename(target)}: {reason}", file=sys.stderr)
        raise RunError(f"{len(self._failed)} of {count} files failed; run the same command again to go on.")


def _refuse_without_room(dest: str, needed: int) -> None:
    free = free_bytes(dest)
    if needed > free:
        raise UsageError(
            f"--dest={dest} has {shown_bytes(free)} free; the files take {shown_bytes(needed)} more. "
            f"Take fewer (--shard=1,100 takes one in a hundred), or another folder."
        )
