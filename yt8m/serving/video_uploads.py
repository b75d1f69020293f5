"""Scores video files that requests send or name, if the extractors of the model's features are on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from yt8m import file_kinds
from yt8m.datasets.extract.computing import Features
from yt8m.errors import RunError, UsageError
from yt8m.records.film_windows import FilmWindows
from yt8m.scoring import Scorer, video_features, video_predictions
from yt8m.scoring.video_features import VideoFeatures
from yt8m.scoring.video_predictions import VideoScores
from yt8m.serving.bodies import BodyLimits, RefusedError
from yt8m.serving.named_videos import NamedVideos
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.uploads import Upload
from yt8m.storage import copies

VIDEO_TYPES = "video/"  # the beginning of the content types of a video as the body of a request


def is_video(start: bytes) -> bool:
    """Whether a file with these first bytes is a container of videos."""
    kind = file_kinds.find_kind(start)
    return kind is not None and kind.is_video


class VideoScorer:
    """Extracts the features of videos as the training data were made, and scores them.

    The extractors are opened with the first video, because a service may never get one. One thread may extract while
    another one scores.
    """

    def __init__(
        self,
        scorer: Scorer,
        config: ServeConfig,
        limits: BodyLimits,
        windows: FilmWindows | None,
        named_videos: NamedVideos,
    ) -> None:
        self.named_videos = named_videos
        if named_videos and not scorer.takes.extractors:
            raise UsageError(
                f"--videos={config.videos}: {config.train_dir} does not name the extractors of its features, so the "
                "service takes records and JSON, no videos. Leave out --videos."
            )
        self._scorer, self._config, self._limits, self._windows = scorer, config, limits, windows
        self._source: VideoFeatures | None = None

    @property
    def has_extractors(self) -> bool:
        """Whether the model names the extractors of its features."""
        return bool(self._scorer.takes.extractors)

    @property
    def source(self) -> VideoFeatures:
        """What computes the features of videos."""
        return self._opened()

    @property
    def per_second(self) -> float:
        """Number of frames a second of the features."""
        return self._opened().per_second

    def close(self) -> None:
        """Closes the extractors, and ends the processes that decode."""
        if self._source is not None:
            self._source.close()

    def refuse_unfit(self, uploads: Sequence[Upload]) -> None:
        """Refuses files that are too many or no videos, before a thread works on them."""
        if not self.has_extractors:
            raise RefusedError(
                415, "the model does not name the extractors of its features, so it takes records and JSON, no videos."
            )
        if len(uploads) > self._limits.max_videos:
            raise self._limits.refuse_videos(str(len(uploads)))
        for number, upload in enumerate(uploads):
            if upload.content is None:
                continue
            kind = file_kinds.find_kind(upload.content[: file_kinds.SAMPLE_BYTES])
            if kind is None or not kind.is_video:
                observation = f"it is {kind.description}" if kind else "its first bytes are not those of a video"
                raise RefusedError(
                    415, f"video {number} {upload.name!r}: {observation}; expected an mp4, webm, mkv, avi, ...."
                )

    def extract(self, uploads: Sequence[Upload]) -> list[Features]:
        """The features of each video."""
        source = self._opened()
        with copies.private_folder("yt8m-serve-") as folder:
            paths = [self._path_of(upload, number, folder) for number, upload in enumerate(uploads)]
            extracted = [features for _, features in source.extract_features(paths)]
        for number, features in enumerate(extracted):
            where = f"video {number} {uploads[number].name!r}"
            if features.bad:
                raise RefusedError(400, f"{where}: {features.bad}.")
            if len(features.arrays[0]) > self._limits.max_frames:
                raise self._limits.refuse_frames(f"more than {self._limits.max_frames}", where)
        return extracted

    def _path_of(self, upload: Upload, number: int, folder: str) -> str:
        """The path of a video, which is written into a folder unless it is on this machine."""
        if upload.content is None:
            return self.named_videos.path_of(upload.name, f"video {number} {upload.name!r}")
        path = os.path.join(folder, f"video{number}")
        with open(path, "wb") as file:
            file.write(upload.content)
        return path

    def _opened(self) -> VideoFeatures:
        if self._source is None:
            try:
                self._source = video_features.for_model(
                    self._scorer.takes,
                    {},
                    trust_code=self._config.trust_code,
                    most_frames=self._limits.max_frames + 1,
                    decoding_seconds=self._config.timeout,
                )
            except (RunError, UsageError) as error:
                raise RefusedError(415, f"this service takes no videos: {error}") from error
        return self._source

    def score(self, uploads: Sequence[Upload], extracted: Sequence[Features]) -> list[VideoScores]:
        """The scores of each video."""
        source = self._opened()
        return [
            video_predictions.score_video(self._scorer, source, upload.name, features, self._windows)
            for upload, features in zip(uploads, extracted, strict=True)
        ]
