"""What a download is asked for.

How a download gets on: a bar on a terminal, a line a file elsewhere.

The command line of `yt8m download`: what to fetch, whether it fits, side by side, and what failed.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, TypeVar

from rich import progress as bars
from rich.console import Console

from yt8m import options, storage
from yt8m.commands.download import transfer
from yt8m.commands.download.client import Client, StoppedError
from yt8m.commands.download.transfer import Job, fetch, is_there
from yt8m.config import flags
from yt8m.errors import RunError, UsageError
from yt8m.options import option
from yt8m.program import terminable
from yt8m.storage.local import free_bytes

_PARTITION = re.compile(r"(\d+)/(video|frame)/(train|validate|test)")


@dataclass(frozen=True)
class DownloadConfig:
    """Which files, from where, to where, and how patiently."""

    partition: str = option("", "what to fetch: VERSION/LEVEL/SPLIT, such as 2/frame/train or 3/frame/validate")
    mirror: str = option("us", "the nearest mirror", choices=("us", "eu", "asia"))
    shard: tuple[int, ...] = option((), "X,Y: the X-th of Y parts of the files (1,100: one in a hundred)")
    dest: str = option(".", "folder to write into")
    jobs: int = option(8, "files that are fetched side by side", minimum=1, maximum=64)
    dry_run: bool = option(False, "say which files would be fetched and how large they are; fetch none")
    overwrite: bool = option(False, "replace files of the same name whose md5 is not the published one")
    retries: int = option(8, "tries in a row that may gain nothing before a file is given up", minimum=0)
    backoff_seconds: float = option(
        1.0, "wait before the second retry; it doubles with each, to two minutes", minimum=0
    )
    stall_seconds: float = option(
        60.0, "a connection that brings nothing for so long is given up and made anew", minimum=0.01
    )
    plan_url: str = option("http://data.yt8m.org", "server of the download plans")
    mirror_url: str = option("", "server of the files [http://MIRROR.data.yt8m.org]")

    def __post_init__(self) -> None:
        options.check(self)
        if not _PARTITION.fullmatch(self.partition):
            raise UsageError(
                f"--partition={self.partition}: expected VERSION/LEVEL/SPLIT with video or frame and train, "
                f"validate or test, such as --partition=2/frame/train."
            )
        if self.shard and not (len(self.shard) == 2 and 1 <= self.shard[0] <= self.shard[1]):
            raise UsageError(
                f"--shard={','.join(map(str, self.shard))}: expected X,Y with X from 1 to Y: --shard=1,100, say."
            )
        if storage.is_remote(self.dest):
            raise UsageError(
                f"--dest={self.dest}: downloads go to a local folder, where they can be resumed; copy them "
                "on by `gcloud storage rsync`."
            )
        for name in ("plan_url", "mirror_url"):
            url = getattr(self, name)
            if url and not url.startswith(("http://", "https://")):
                raise UsageError(f"--{name}={url}: expected an address that begins with http:// or https://.")

    @property
    def plan_address(self) -> str:
        """Where the plan of the partition is."""
        version, level, split = self.partition.split("/")
        return f"{self.plan_url.rstrip('/')}/{version}/download_plans/{level}_{split}.json"

    def file_address(self, name: str) -> str:
        """Where the file of that published name is."""
        base = self.mirror_url or f"http://{self.mirror}.data.yt8m.org"
        return f"{base.rstrip('/')}/{self.partition}/{name}"


class DownloadProgress:
    """Shows bytes, speed and time left; on stderr.

    Args:
      total_bytes: of all files, as far as they are known.
      files: how many there are.
    """

    def __init__(self, total_bytes: int, files: int) -> None:
        self._files, self._done, self._lock = files, 0, threading.Lock()
        self._bar = _bar() if sys.stderr.isatty() and files else None
        if self._bar:
            self._task = self._bar.add_task(f"0 of {files} files", total=total_bytes or None)

    def __enter__(self) -> DownloadProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """`count` more bytes, or fewer where it is negative."""
        if self._bar:
            self._bar.advance(self._task, count)

    def finished(self, name: str) -> None:
        """One file is there."""
        with self._lock:
            self._done += 1
            text = f"{self._done} of {self._files} files"
            if self._bar:
                self._bar.update(self._task, description=text)
            else:
                print(f"{name} ({text})", file=sys.stderr, flush=True)


def _bar() -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(binary_units=False),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def shown_bytes(count: int | None) -> str:
    """A size for people: `402.1 MB`."""
    if count is None:
        return "size not known"
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


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
    files = transfer.in_shard(transfer.parse_plan(client.content(address), address), config.shard)
    if not files:
        raise UsageError(f"--shard={','.join(map(str, config.shard))} holds no file of {config.partition}.")
    return [
        Job(config.file_address(one.name), os.path.join(config.dest, transfer.saved_name(one.name)), one.md5)
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
        with DownloadProgress(total, len(jobs)) as progress:

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
