"""POST /spans: the spans of time at which the model finds classes in the videos of a request."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from yt8m.datasets.extract.computing import Features
from yt8m.errors import RunError, UsageError
from yt8m.records.batches import Records
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shards import DamagedError
from yt8m.records.span_files import VideoSpans
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring import Scorer, film_spans, span_finder
from yt8m.scoring.film_spans import Joining, joining_for
from yt8m.scoring.video_features import VideoFeatures
from yt8m.serving.bodies import Parsed, RefusedError
from yt8m.serving.uploads import Upload


class SpanService:
    """Finds spans, one request after another; how cells are joined is read once for each rate of the features.

    Args:
      spans_from: the value of --spans_from.
      records: parses records as the model takes them.
    """

    def __init__(self, scorer: Scorer, spans_from: str, records: Records) -> None:
        self._scorer, self._spans_from, self._records = scorer, spans_from, records
        self._joinings: dict[float, Joining] = {}

    def _joining(self, per_second: float = 0.0) -> Joining:
        """How cells are joined; 0 for the rate of the training."""
        if per_second not in self._joinings:
            self._joinings[per_second] = joining_for(self._scorer, self._spans_from, per_second)
        return self._joinings[per_second]

    def of_parsed(self, parsed: Parsed, stated_rate: str = "") -> list[VideoSpans]:
        """The spans of each video in a body of records or JSON, which has no rate of its own.

        Args:
          stated_rate: the frames per second that the request says they have; empty if it does not.
        """
        try:
            if stated_rate:
                film_spans.refuse_stated_rate(stated_rate, self._joining())
            batch = self._batch_of(parsed)
            return list(span_finder.in_data(self._scorer, self._joining(), [batch]))
        except DamagedError as error:
            raise RefusedError(400, f"record {error.record}: {error.what}.") from error
        except (RunError, UsageError) as error:
            raise RefusedError(400, str(error)) from error

    def _batch_of(self, parsed: Parsed) -> NumpyBatch:
        if not self._scorer.takes.has_frames or self._scorer.takes.has_own_reader:
            raise RefusedError(400, "the model takes whole videos, which have no times: send video files, or features "
                               "to a model of frames.")  # fmt: skip
        if parsed.records:
            return self._records.parsed([(record, "the body", number) for number, record in enumerate(parsed.records)])
        batch = self._scorer.takes.batch_of_frames(parsed.features)
        return dataclasses.replace(batch, ids=parsed.ids)

    def of_videos(
        self, source: VideoFeatures, uploads: Sequence[Upload], extracted: Sequence[Features]
    ) -> list[VideoSpans]:
        """The spans of video files, from their features."""
        try:
            joining = self._joining(source.per_second)
            return [
                span_finder.of_features(self._scorer, joining, source, upload.name, features)
                for upload, features in zip(uploads, extracted, strict=True)
            ]
        except (RunError, UsageError) as error:
            raise RefusedError(400, str(error)) from error


def content_of(videos: Sequence[VideoSpans], names: Vocabulary) -> dict[str, Any]:
    """The content of an answer, to be sent as JSON."""
    return {
        "videos": [
            {
                "id": video.video,
                "seconds": video.seconds,
                "frames_per_second": video.per_second,
                "spans": [
                    {
                        "start": span.start,
                        "end": span.end,
                        "index": span.number,
                        "name": names.name(span.number),
                        "score": span.score,
                    }
                    for span in video.spans
                ],
            }
            for video in videos
        ]
    }
