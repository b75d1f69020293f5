"""What a download is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from yt8m import options, storage
from yt8m.errors import UsageError
from yt8m.options import option

_PARTITION = re.compile(r"(\d+)/(video|frame)/(train|validate|test)")


@dataclass(frozen=True)
class DownloadConfig:
    """Which files, from where, to where, and how patiently."""

    partition: str = option(
        "", "what to fetch: VERSION/LEVEL/SPLIT, such as 2/frame/train or 3/frame/validate"
    )
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
                f"--shard={','.join(map(str, self.shard))}: expected X,Y with X from 1 to Y: "
                "--shard=1,100, say."
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
