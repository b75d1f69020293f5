"""Runs the model on requests. Requests that arrive during one step share the next."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError, UsageError
from yt8m.records.shards import DamagedError
from yt8m.scoring import Scorer
from yt8m.scoring.best_classes import ScoredClasses, best_classes, tags
from yt8m.scoring.model_input import Videos
from yt8m.serving.bodies import RECORDS, RefusedError
from yt8m.serving.monitoring import Monitor
from yt8m.serving.parsing import Parsers, ParserSettings
from yt8m.serving.server import ServeConfig

T = TypeVar("T")
A = TypeVar("A")


# The answer for one video: its id, and the scores of all classes.
Answer = tuple[str, NDArray[np.float32]]


class Service:
    """Answers the bodies of requests.

    Attributes:
      config: the flags, including the limits.
      scorer: the model.
      monitor: counts what the service does.
      at_work: number of requests in progress, and of requests that were given up but whose work has not ended.
      answered: number of requests answered so far, excluding refused ones.
    """

    def __init__(self, scorer: Scorer, config: ServeConfig) -> None:
        self.config, self.scorer = config, scorer
        self.at_work = self.answered = 0
        self._names, self._tagger = scorer.names_for(config.vocabulary), scorer.tagger(config.thresholds)
        self._parsers = Parsers(
            ParserSettings(config.max_videos, config.max_frames, scorer.takes.width, config.body_size)
        )
        self._thread = ThreadPoolExecutor(1, "model")  # one thread, because a step uses all cores
        self._records = Batcher(self._of_records, config.max_videos, self._thread)
        self._features = Batcher(self._of_features, config.max_videos, self._thread)
        self.monitor = Monitor(
            at_work=lambda: self.at_work,
            videos_waiting=lambda: self._records.waiting + self._features.waiting,
            parsers_replaced=lambda: self._parsers.replaced,
        )

    def close(self) -> None:
        """Ends the parsers, waits for the current step to end, then stops the model's thread."""
        self._parsers.close()
        self._thread.shutdown(cancel_futures=True)

    def why_not_ready(self) -> str:
        """The reason why a new request would wait long or be refused; empty if there is none."""
        if self.at_work >= self.config.max_requests:
            return f"{self.at_work} requests are in progress (--max_requests)."
        if not self._parsers.are_alive():
            return "a process that parses bodies has ended."
        if self.monitor.step_seconds() > self.config.timeout:
            return f"a step of the model has taken {self.monitor.step_seconds():.0f} seconds (--timeout)."
        return ""

    async def predict(self, kind: str, body: bytes | bytearray, top_k: int) -> dict[str, Any]:
        """The best classes of each video in a body of this content type; raises `RefusedError`.

        If the caller is cancelled, this returns only when no thread or child works on the body any more.
        """
        parsed = await self._parsers.parse(kind, body)
        if kind in RECORDS:
            answers = await self._records.ask(parsed.records)
        else:
            scored = await self._features.ask(parsed.features)
            answers = [(video_id, scores) for video_id, (_, scores) in zip(parsed.ids, scored, strict=True)]
        self.answered += 1
        return {"videos": [self._as_json(answer, top_k) for answer in answers]}

    def _as_json(self, answer: Answer, top_k: int) -> dict[str, Any]:
        video_id, scores = answer
        shown = {"id": video_id, "classes": self._with_names(best_classes(scores, top_k))}
        return shown if self._tagger is None else {**shown, "tags": self._with_names(tags(scores, self._tagger))}

    def _with_names(self, classes: ScoredClasses) -> list[dict[str, Any]]:
        return [{"index": index, "name": self._names.name(index), "score": score} for index, score in classes]

    def _of_records(self, records: list[bytes]) -> list[Answer]:
        return self._scored([(record, "the body", number) for number, record in enumerate(records)])

    def _of_features(self, videos: list[NDArray[np.float32]]) -> list[Answer]:
        return self._scored(self.scorer.takes.of_joined_frames(videos))

    def _scored(self, videos: Videos) -> list[Answer]:
        try:
            with self.monitor.step(len(videos)):
                ids, scores = self.scorer.scores(videos)
        except DamagedError as error:
            raise RefusedError(400, f"record {error.record}: {error.what}.") from error
        except (RunError, UsageError) as error:
            raise RefusedError(400, str(error)) from error
        return list(zip(ids, scores, strict=True))


class _Asked(NamedTuple, Generic[T, A]):
    items: Sequence[T]
    answer: asyncio.Future[list[A]]


class Batcher(Generic[T, A]):
    """Gathers the items of concurrent requests into calls; a call starts at once, even if it is not full.

    Args:
      compute: returns one answer for each item; called in the executor, one call at a time.
      most: largest number of items per call; a request with more gets a call of its own.
      executor: runs the calls.
    """

    def __init__(self, compute: Callable[[list[T]], list[A]], most: int, executor: Executor) -> None:
        self._compute, self._most, self._executor = compute, most, executor
        self._waiting: deque[_Asked[T, A]] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Number of items that wait for a call."""
        return sum(len(request.items) for request in self._waiting)

    async def ask(self, items: Sequence[T]) -> list[A]:
        """The answers for `items`. Raises an error of `compute` only if these items cause it.

        If the caller is cancelled, waiting items are dropped; items in a call are not, and this returns after the call.
        """
        request = _Asked(items, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            await asyncio.wait({request.answer})
        except asyncio.CancelledError:
            if any(waiting_request is request for waiting_request in self._waiting):
                request.answer.cancel()
            await asyncio.wait({request.answer})
            request.answer.cancelled() or request.answer.exception()  # reads the exception, since nobody else does
            raise
        return request.answer.result()

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._next())
        finally:
            self._worker = None

    def _next(self) -> list[_Asked[T, A]]:
        """Removes and returns the longest-waiting request and as many later ones as fit, without cancelled ones."""
        group: list[_Asked[T, A]] = []
        room = self._most
        while self._waiting and (not group or len(self._waiting[0].items) <= room):
            request = self._waiting.popleft()
            if not request.answer.done():
                group.append(request)
                room -= len(request.items)
        return group

    async def _answer(self, group: list[_Asked[T, A]]) -> None:
        items = [item for request in group for item in request.items]
        loop = asyncio.get_running_loop()
        try:
            answers = iter(await loop.run_in_executor(self._executor, self._compute, items) if items else [])
        except Exception as error:
            if len(group) > 1:  # one of the requests caused the error: compute each on its own
                for request in group:
                    await self._answer([request])
            elif not group[0].answer.done():
                group[0].answer.set_exception(error)
            return
        for request in group:
            part = list(itertools.islice(answers, len(request.items)))
            if not request.answer.done():
                request.answer.set_result(part)
