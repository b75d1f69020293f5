"""The videos on this machine that requests may name: those of --videos, by their ids, and no others."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping

from yt8m.errors import RunError, UsageError
from yt8m.extractors import video_paths
from yt8m.serving.bodies import RefusedError


class NamedVideos:
    """The videos of a folder or a pattern. A video that is added while the service runs is found, too.

    Args:
      patterns: the value of --videos, as `yt8m predict` takes it; empty for no videos.
    """

    def __init__(self, patterns: str) -> None:
        self._patterns = patterns
        self._lock = threading.Lock()
        self._paths: Mapping[str, str] = {}
        if patterns:
            videos = video_paths.find(patterns)
            self._paths = videos.paths_by_id()
            for line in video_paths.describe_passed_over(videos.passed_over):
                print(line, file=sys.stderr)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def ids(self) -> list[str]:
        """The ids of the videos that there are now, sorted."""
        with self._lock:
            self._look_again()
            return sorted(self._paths)

    def path_of(self, video_id: str, where: str) -> str:
        """The path of a video; `where` names it in the request."""
        with self._lock:
            if video_id not in self._paths:
                self._look_again()
            path = self._paths.get(video_id)
        if path is None:
            raise RefusedError(404, f"{where}: the service has no such video; GET /videos lists those that it has.")
        return path

    def _look_again(self) -> None:
        try:
            self._paths = video_paths.find(self._patterns).paths_by_id()
        except UsageError:  # all were removed
            self._paths = {}
        except RunError as error:
            raise RefusedError(503, f"the videos cannot be listed: {error}") from error
