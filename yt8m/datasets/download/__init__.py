"""`yt8m download`: fetches the published shards from data.yt8m.org and checks the md5 of each.

A partition is one split of one level of one version, such as 2/frame/train. The server has a plan for each partition: a
JSON file with the name and the md5 of each file. --shard=X,Y chooses a part of the files by a hash of their names.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import os
import re
import string
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rich import filesize
from rich import progress as bars
from rich.console import Console

from yt8m import options, storage
from yt8m.datasets.download import transfer
from yt8m.datasets.download.transfer import Client, Job, StoppedError
from yt8m.errors import RunError, UsageError, refusing
from yt8m.options import option
from yt8m.storage.local import free_bytes
from yt8m.terminal import is_terminal
from yt8m.termination import terminable

T = TypeVar("T")

_PARTITION = re.compile(r"(\d+)/(video|frame)/(train|validate|test)")


def run(config: DownloadConfig) -> int:
    """Fetches the files that the flags name; returns the exit status.

    Raises:
      UsageError: a flag is wrong, or the disk has too little space; nothing was fetched.
      RunError: there is no plan, or some files failed; stderr lists the failed files.
    """
    client = Client(config.retries, config.backoff_seconds, config.stall_seconds)
    with terminable():
        _download(config, client, _plan_jobs(config, client))
    return 0


@dataclass(frozen=True)
class DownloadConfig(options.Checked):
    """The flags of `yt8m download`."""

    partition: str = option(
        "", "what to fetch: VERSION/LEVEL/SPLIT, such as 2/frame/train or 3/frame/validate", is_required=True
    )
    mirror: str = option("us", "the nearest mirror", choices=("us", "eu", "asia"))
    shard: tuple[int, ...] = option((), "X,Y: the X-th of Y parts of the files (1,100: one in a hundred)")
    out: str = option(".", "folder to write into", aliases=("dest",), is_path=True, is_local=True)
    jobs: int = option(8, "number of files that are fetched at the same time", minimum=1, maximum=64)
    dry_run: bool = option(False, "list the files that would be fetched, with their sizes, but fetch none")
    overwrite: bool = option(False, "replace files of the same name whose md5 is not the published one")
    retries: int = option(8, "number of retries in a row without a new byte, after which a file is given up", minimum=0)
    backoff_seconds: float = option(
        1.0, "seconds to wait before the second retry; the wait doubles with each retry, up to two minutes", minimum=0
    )
    stall_seconds: float = option(60.0, "seconds without data after which the connection is opened again", minimum=0.01)
    plan_url: str = option("http://data.yt8m.org", "server of the download plans")
    mirror_url: str = option("", "server of the files [http://MIRROR.data.yt8m.org]")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _PARTITION.fullmatch(self.partition):
            raise UsageError(
                f"--partition={self.partition}: expected VERSION/LEVEL/SPLIT with video or frame and train, "
                f"validate or test, such as --partition=2/frame/train."
            )
        if self.shard and not (len(self.shard) == 2 and 1 <= self.shard[0] <= self.shard[1]):
            shard_text = ",".join(map(str, self.shard))
            raise UsageError(f"--shard={shard_text}: expected X,Y with X from 1 to Y, such as --shard=1,100.")
        for name, url in (("plan_url", self.plan_url), ("mirror_url", self.mirror_url)):
            if url and not url.startswith(("http://", "https://")):
                raise UsageError(f"--{name}={url}: expected an address that begins with http:// or https://.")

    @property
    def plan_address(self) -> str:
        """The URL of the partition's plan."""
        version, level, split = self.partition.split("/")
        return f"{self.plan_url.rstrip('/')}/{version}/download_plans/{level}_{split}.json"

    def file_address(self, name: str) -> str:
        """The URL of the file that the plan calls `name`."""
        base = self.mirror_url or f"http://{self.mirror}.data.yt8m.org"
        return f"{base.rstrip('/')}/{self.partition}/{name}"


def _plan_jobs(config: DownloadConfig, client: Client) -> list[Job]:
    """Fetches the plan, and returns the files that the flags choose; raises as `run` does."""
    address = config.plan_address
    files = in_shard(parse_plan(client.content(address), address), config.shard)
    if not files:
        raise UsageError(
            f"--shard={','.join(map(str, config.shard))} selects no file of {config.partition}; "
            "choose another X of --shard=X,Y, or a smaller Y."
        )
    return [Job(config.file_address(name), os.path.join(config.out, saved_name(name)), md5) for name, md5 in files]


class _MissingFile(NamedTuple):
    """What is known about a file that is still to be fetched.

    Attributes:
      size: its size in bytes; None if the server does not say.
      received: number of bytes that earlier, interrupted downloads of the file left on the disk.
    """

    size: int | None
    received: int


def _download(config: DownloadConfig, client: Client, jobs: list[Job]) -> None:
    """Finds out which files are missing, and fetches them, unless --dry_run is given or the disk is too small."""
    workers = _Workers(client, config.jobs)

    def find_missing(job: Job) -> _MissingFile | None:
        if transfer.is_complete(job, config.overwrite or config.dry_run):
            return None
        received = os.path.getsize(job.partial) if os.path.exists(job.partial) else 0
        return _MissingFile(client.size(job.url), received)

    results = workers.map(find_missing, jobs)
    missing_files = {job: missing_file for job, missing_file in results.items() if missing_file}
    needed = sum(max((missing_file.size or 0) - missing_file.received, 0) for missing_file in missing_files.values())
    print(
        f"{config.partition}: {len(jobs)} files, {len(results) - len(missing_files)} there already, "
        f"{len(missing_files)} to fetch ({filesize.decimal(needed)})",
        flush=True,
    )
    if config.dry_run:
        for job, (size, _) in missing_files.items():
            print(f"{job.url} -> {job.target} ({'size not known' if size is None else filesize.decimal(size)})")
    elif needed > (free := free_bytes(config.out)):
        raise UsageError(
            f"--out={config.out} has {filesize.decimal(free)} free; the files take {filesize.decimal(needed)} more. "
            f"Fetch fewer files (--shard=1,100 selects one in a hundred), or choose another folder."
        )
    elif missing_files:
        _fetch_all(client, workers, missing_files)
    for target, reason in sorted(workers.failed.items()):
        print(f"failed: {os.path.basename(target)}: {reason}", file=sys.stderr)
    if workers.failed:
        raise RunError(f"{len(workers.failed)} of {len(jobs)} files failed; run the same command again to fetch them.")


def _fetch_all(client: Client, workers: _Workers, missing_files: Mapping[Job, _MissingFile]) -> None:
    """Fetches files. Shows a progress bar on a terminal; elsewhere it prints a line on stderr for each file."""
    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(binary_units=False),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    task = bar.add_task(
        f"0 of {len(missing_files)} files",
        total=sum(missing_file.size or 0 for missing_file in missing_files.values()) or None,
    )
    fetched_count, lock, has_bar = 0, threading.Lock(), is_terminal(sys.stderr)

    def fetch(job: Job) -> None:
        nonlocal fetched_count
        transfer.fetch(client, job, lambda count: bar.advance(task, count))
        with lock:
            fetched_count += 1
            text = f"{fetched_count} of {len(missing_files)} files"
            bar.update(task, description=text)
            if not has_bar:
                print(f"{os.path.basename(job.target)} ({text})", file=sys.stderr, flush=True)

    with bar if has_bar else contextlib.nullcontext():
        workers.map(fetch, missing_files)


class _Workers:
    """Threads that work on several files at the same time; if one file fails, the others continue."""

    def __init__(self, client: Client, count: int) -> None:
        self._client, self._count = client, count
        self.failed: dict[str, str] = {}

    def map(self, work: Callable[[Job], T], jobs: Iterable[Job]) -> dict[Job, T]:
        """Calls a function for each file; a `RunError` or `UsageError` that it raises is noted in `failed`."""
        results: dict[Job, T] = {}
        pool = concurrent.futures.ThreadPoolExecutor(self._count)
        try:
            futures = {pool.submit(work, job): job for job in jobs}
            for future in concurrent.futures.as_completed(futures):
                try:
                    results[futures[future]] = future.result()
                except (RunError, UsageError) as error:
                    self.failed[futures[future].target] = str(error)
                except StoppedError:
                    continue
        except BaseException:
            self._client.end()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return results


# The digits of the number in base 62 that is part of a published name; see `saved_name`.
_DIGITS = string.ascii_lowercase + string.ascii_uppercase + string.digits
_NAME = re.compile(r"([A-Za-z0-9_-]+)([A-Za-z0-9]{2})(\.tfrecord)")  # a published name; see `saved_name`
_MD5 = re.compile(r"[0-9a-f]{32}")


class PlannedFile(NamedTuple):
    """A file of a plan.

    Attributes:
      name: the published name, such as `trainaa.tfrecord`.
      md5: the md5 of its content, in hexadecimal.
    """

    name: str
    md5: str


def parse_plan(content: bytes, source: str) -> list[PlannedFile]:
    """Parses a plan; returns its files, sorted by name.

    Args:
      content: the plan, JSON such as `{"files": {"trainaa.tfrecord": "<md5>", ...}}`.
    """

    def refusal(_: Exception) -> Exception:
        start = content[:60].decode("utf-8", "backslashreplace")
        return RunError(
            f'{source} is not a download plan; expected JSON {{"files": {{name: md5}}}}, found {start!r}. Another '
            "server may have answered, such as a proxy or a login page: open the address in a browser, or check "
            "--plan_url."
        )

    with refusing(refusal):
        files = storage.parse_json(content)["files"]
        planned = sorted(PlannedFile(name, str(md5).lower()) for name, md5 in files.items())
    for name, md5 in planned:
        if not _NAME.fullmatch(name) or not _MD5.fullmatch(md5):
            raise RunError(
                f"{source}: the entry {name!r}: {md5!r} is not NAME.tfrecord and an md5 of 32 hexadecimal digits; "
                "check --plan_url."
            )
    if not planned:
        raise RunError(f"{source} lists no files; check --partition.")
    return planned


def in_shard(files: Iterable[PlannedFile], shard: tuple[int, ...]) -> list[PlannedFile]:
    """Chooses the files of one of Y parts, by the rule of YouTube-8M's download script.

    A file is in part X of Y if the md5 of its *name*, as an integer, is X - 1 modulo Y.

    Args:
      shard: (X, Y), with X from 1 to Y; empty for all files.
    """
    if not shard:
        return list(files)
    index, count = shard

    def number(name: str) -> int:
        return int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16)

    return [file for file in files if number(file.name) % count == index - 1]


def saved_name(name: str) -> str:
    """The name under which a published file is saved: trainaa.tfrecord becomes train0000.tfrecord.

    The last two characters of the published name before `.tfrecord` are a number in base 62, whose digits are a-z, A-Z
    and 0-9 in this order.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a published name")
    stem, count, end = match.groups()
    return f"{stem}{_DIGITS.index(count[0]) * 62 + _DIGITS.index(count[1]):04d}{end}"
