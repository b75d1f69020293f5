"""A model and the limits of what it is asked."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import record_reader, vocabulary
from yt8m.errors import RunError
from yt8m.graph.saved_model import SavedModel
from yt8m.tools.serve import ServeConfig
from yt8m.tools.serve.batcher import Batcher
from yt8m.tools.serve.bodies import RefusedError, features_in, records_in

JSON = "application/json"
RECORDS = ("application/octet-stream", "application/x-protobuf", "application/x-tfrecord")

# Of one video: its id, classes and scores, best first.
Answer = tuple[str, NDArray[np.int32], NDArray[np.float32]]


class Service:
    """Answers the bodies of requests; those that come while the model works share its next step.

    Attributes:
      config: the limits.
      at_work: requests now.
      answered: requests so far, refused ones not counted.
    """

    def __init__(self, model: SavedModel, config: ServeConfig) -> None:
        self.config, self.model = config, model
        self.at_work = self.answered = 0
        self._names = vocabulary.of(model.num_classes)
        self._thread = ThreadPoolExecutor(1, "model")  # a step takes all cores by itself
        self._records = Batcher(self._of_records, config.max_videos, self._thread)
        self._features = Batcher(self._of_features, config.max_videos, self._thread)

    def close(self) -> None:
        """Lets the step at work end, and its thread with it."""
        self._thread.shutdown(cancel_futures=True)

    async def predict(self, kind: str, body: bytes, top_k: int) -> dict[str, Any]:
        """The best classes of each video in a body of this content type; raises `RefusedError`."""
        limits = (self.config.max_videos, self.config.max_frames)
        if kind in RECORDS:
            records = await asyncio.to_thread(records_in, body, *limits)
            answers = await self._records.ask(records)
        else:
            size = self.model.feature_size
            if size is None:
                raise RefusedError(415, "this model takes records alone; export it anew for features.")
            ids, features = await asyncio.to_thread(features_in, body, size, *limits)
            found = await self._features.ask(features)
            answers = [(video_id, *answer[1:]) for video_id, answer in zip(ids, found, strict=True)]
        self.answered += 1
        return {"videos": [self._told(answer, top_k) for answer in answers]}

    def _told(self, answer: Answer, top_k: int) -> dict[str, Any]:
        video_id, classes, scores = answer
        best = zip(classes[:top_k].tolist(), scores[:top_k].tolist(), strict=True)
        told = [{"index": index, "name": self._names.name(index), "score": score} for index, score in best]
        return {"id": video_id, "classes": told}

    def _of_records(self, records: list[bytes]) -> list[Answer]:
        try:
            found = self.model.predict(records)
        except RunError as error:
            raise RefusedError(400, str(error)) from error
        if len(found.video_ids) != len(records):
            raise RefusedError(
                400, "this model was trained on rated segments and takes them out of records; send features."
            )
        ids = [record_reader.id_text(video_id) for video_id in found.video_ids]
        return list(zip(ids, found.classes, _numbers(found.scores), strict=True))

    def _of_features(self, videos: list[NDArray[np.float32]]) -> list[Answer]:
        counts = np.array([len(video) for video in videos], np.int32)
        frames = np.zeros((len(videos), counts.max(), videos[0].shape[1]), np.float32)
        for row, video in enumerate(videos):
            frames[row, : len(video)] = video
        scores = _numbers(self.model.score(frames, counts))
        classes = np.argsort(-scores, axis=1, kind="stable").astype(np.int32)
        return [("", order, row[order]) for order, row in zip(classes, scores, strict=True)]


def _numbers(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(scores).all():
        raise RefusedError(400, "the model gives no finite score for these features.")
    return scores
