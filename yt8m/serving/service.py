"""Runs the model on the content of requests. Requests that arrive during a step of the model share the next step.

A `Batcher` joins the items (the videos) of concurrent requests into one call of the model. One thread makes the calls,
one after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from yt8m.datasets.extract.computing import Features
from yt8m.errors import RunError, UsageError
from yt8m.records.batches import Records
from yt8m.records.film_windows import windows_for
from yt8m.records.opened_data import open_data
from yt8m.records.record_parser import Raw
from yt8m.records.shards import DamagedError
from yt8m.records.span_files import VideoSpans
from yt8m.records.thresholds import Tagger
from yt8m.scoring import Scorer
from yt8m.scoring.film_scores import score_film, score_films
from yt8m.scoring.model_input import Videos
from yt8m.scoring.scorer import ScoredClasses, best_classes, tags
from yt8m.scoring.video_predictions import VideoScores
from yt8m.serving import bodies, span_service
from yt8m.serving.bodies import BodyFeatures, BodyLimits, Parsed, RefusedError
from yt8m.serving.monitoring import Monitor
from yt8m.serving.named_videos import NamedVideos
from yt8m.serving.parsing import Parsers, ParserSettings
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.span_service import SpanService
from yt8m.serving.uploads import Upload
from yt8m.serving.video_uploads import VideoScorer

T = TypeVar("T")  # an item
A = TypeVar("A")  # the answer for an item

OnResult = Callable[[Any, Exception | None], None]  # called with (result, None), or with (None, error)


class CallThread:
    """A thread that makes calls in the order of the requests, and passes the results to the event loop of the caller.

    An executor would do the same with two futures per call, which triples the time of a short call.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._make_calls, name=name)
        self._thread.start()

    def call(self, compute: Callable[[], Any], on_result: OnResult) -> None:
        """Calls `compute` in the thread, then `on_result` in the event loop of the caller, unless that loop was closed.

        Args:
          on_result: called with (the result of `compute`, None) or, if `compute` failed, with (None, its error).
        """
        loop = asyncio.get_running_loop()

        def make() -> None:
            result, error = None, None
            try:
                result = compute()
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(on_result, result, error)

        self._calls.put(make)

    def _make_calls(self) -> None:
        while (make := self._calls.get()) is not None:
            make()
            del make  # frees the items of the call, instead of keeping them until the next call

    def close(self) -> None:
        """Drops the calls that have not begun, without an `on_result`; waits for the current call; ends the thread."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
        self._calls.put(None)
        self._thread.join()


class BatchedRequest(asyncio.Future[list[A]], Generic[T, A]):
    """A request: a future whose result is one answer for each item. Cannot be cancelled while a call computes these."""

    def __init__(self, items: Sequence[T]) -> None:
        super().__init__()
        self.items, self.is_computed = items, False

    def cancel(self, msg: Any = None) -> bool:
        """Cancels the request if it still waits for a call; returns whether it was cancelled."""
        return not self.is_computed and super().cancel(msg)


class Batcher(Generic[T, A]):
    """Joins the items of concurrent requests into calls. If no call is in progress, a request starts a call at once.

    Args:
      most: largest number of items per call; a request with more items gets a call of its own.
    """

    def __init__(self, compute: Callable[[list[T]], list[A]], most: int, thread: CallThread) -> None:
        self._compute, self._most, self._thread = compute, most, thread
        self._waiting: deque[BatchedRequest[T, A]] = deque()
        # Requests of a call that failed. Each of them gets a call of its own, to find those that cause the error.
        self._retried: deque[BatchedRequest[T, A]] = deque()
        self._in_call: Sequence[BatchedRequest[T, A]] = []

    @property
    def waiting(self) -> int:
        """Number of items that wait for a call."""
        return sum(len(request.items) for request in (*self._retried, *self._waiting))

    def ask(self, items: Sequence[T]) -> BatchedRequest[T, A]:
        """Requests answers for `items`. The future gets an error of `compute` only if these items cause the error."""
        request = BatchedRequest[T, A](items)
        self._waiting.append(request)
        if not self._in_call:
            self._begin_call()
        return request

    def _begin_call(self) -> None:
        """Starts the next call, if a request waits for one."""
        self._in_call = self._take_requests()
        for request in self._in_call:
            request.is_computed = True
        if self._in_call:
            items = [item for request in self._in_call for item in request.items]
            self._thread.call(lambda: self._compute(items), self._end_call)

    def _take_requests(self) -> Sequence[BatchedRequest[T, A]]:
        """Removes and returns the requests of the next call: the oldest, and as many later ones as fit into a call."""
        while self._retried:
            request = self._retried.popleft()
            if not request.done():
                return [request]
        group: list[BatchedRequest[T, A]] = []
        room = self._most
        while self._waiting and (not group or len(self._waiting[0].items) <= room):
            request = self._waiting.popleft()
            if not request.done():
                group.append(request)
                room -= len(request.items)
        return group

    def _end_call(self, answers: Iterable[A], error: Exception | None) -> None:
        """Distributes the answers of a call to its requests, then starts the next call."""
        if error is None:
            remaining_answers = iter(answers)
            for request in self._in_call:
                request.set_result(list(itertools.islice(remaining_answers, len(request.items))))
        elif len(self._in_call) == 1:
            self._in_call[0].set_exception(error)
        else:  # at least one of the requests caused the error: each gets a call of its own
            for request in self._in_call:
                request.is_computed = False
            self._retried.extend(self._in_call)
        self._begin_call()


async def _finish(thread: CallThread, compute: Callable[[], T]) -> T:
    """The result of a call in a thread. If the calling task is cancelled, waits for the end of the call first."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def end(result: Any, error: Exception | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    thread.call(compute, end)
    try:
        await asyncio.wait({future})
    except asyncio.CancelledError:
        await asyncio.wait({future})
        future.exception()  # marks the exception as retrieved, so asyncio does not log it
        raise
    return future.result()


# The answer for one video: its id, and the scores of all classes, float32 [classes].
Answer = tuple[str, NDArray[np.float32]]


class FilmAnswer(tuple[str, NDArray[np.float32]]):
    """The answer for a film, which was scored in windows of `window_frames` frames; see `records.film_windows`."""

    window_frames: int

    def __new__(cls, video_id: str, scores: NDArray[np.float32], window_frames: int) -> FilmAnswer:
        """Makes an answer with the score of each class in its best window."""
        answer = super().__new__(cls, (video_id, scores))
        answer.window_frames = window_frames
        return answer


class Service:
    """Parses the bodies of requests, and computes the predictions for their videos."""

    def __init__(self, scorer: Scorer, config: ServeConfig) -> None:
        self.config, self.scorer = config, scorer
        self.at_work = self.answered = 0
        classes = open_data(None, vocabulary=config.vocabulary)
        self._names, self._tagger = scorer.names_for(classes), scorer.tagger(config.thresholds)
        self._film_windows = windows_for(scorer.takes.format, scorer.takes.folder, config.tags_of)
        self._records_of_body = Records([], scorer.takes.format, max_frames=scorer.takes.max_frames)
        self.limits = BodyLimits(config.max_videos, config.max_frames)
        self.features = BodyFeatures(tuple(scorer.takes.format.sizes().items()), scorer.takes.has_frames)
        self.video_scorer = VideoScorer(scorer, config, self.limits, self._film_windows, NamedVideos(config.videos))
        self._parsers = Parsers(ParserSettings(self.limits, self.features, config.body_size))
        self._thread = CallThread("model")  # one thread, because a step uses all cores
        self._video_thread = CallThread("videos")  # extracts the features of videos, while the model works
        self._spans = SpanService(scorer, config.spans_from, self._records_of_body)
        self._records = Batcher(self._score_records, config.max_videos, self._thread)
        self._features = Batcher(self._score_features, config.max_videos, self._thread)
        self.monitor = Monitor(
            at_work=lambda: self.at_work,
            videos_waiting=lambda: self._records.waiting + self._features.waiting,
            parsers_replaced=lambda: self._parsers.replaced,
        )

    def close(self) -> None:
        """Kills the children that parse, waits for the current step of the model, and ends the model's thread."""
        self._parsers.close()
        self._video_thread.close()
        self._thread.close()
        self.video_scorer.close()

    def why_not_ready(self) -> str:
        """The reason why a new request would wait long or be refused; empty if it would be answered soon."""
        if self.at_work >= self.config.max_requests:
            return f"{self.at_work} requests are in progress (--max_requests)."
        if not self._parsers.are_alive():
            return "a process that parses bodies has ended."
        if self.monitor.step_seconds() > self.config.timeout:
            return f"a step of the model has taken {self.monitor.step_seconds():.0f} seconds (--timeout)."
        return ""

    def begin_videos(self, uploads: Sequence[Upload]) -> asyncio.Future[list[Answer]]:
        """Begins the work on video files; see `begin` for the future."""
        self.video_scorer.refuse_unfit(uploads)
        return asyncio.create_task(self._score_videos(uploads))

    async def _score_videos(self, uploads: Sequence[Upload]) -> list[Answer]:
        extracted = await _finish(self._video_thread, lambda: self.video_scorer.extract(uploads))
        predictions = await _finish(self._thread, lambda: self._score_extracted(uploads, extracted))
        return [
            FilmAnswer(each.path, each.scores, round(each.window_seconds * self.video_scorer.per_second))
            if each.window_seconds
            else (each.path, each.scores)
            for each in predictions
        ]

    def _score_extracted(self, uploads: Sequence[Upload], extracted: Sequence[Features]) -> list[VideoScores]:
        with self.monitor.step(len(uploads)):
            return self.video_scorer.score(uploads, extracted)

    def begin_spans(
        self, content_type: str, body: bytes | bytearray, uploads: Sequence[Upload], stated_rate: str = ""
    ) -> asyncio.Future[list[VideoSpans]]:
        """Begins to find the spans in a body, or in video files if there are some; see `begin` for the future.

        Args:
          stated_rate: frames per second of the features in the body, as the request says it; empty if it does not.
        """
        if uploads:
            self.video_scorer.refuse_unfit(uploads)
            return asyncio.create_task(self._find_spans_in_videos(uploads))
        return asyncio.create_task(self._find_spans(content_type, body, stated_rate))

    async def _find_spans(self, content_type: str, body: bytes | bytearray, stated_rate: str) -> list[VideoSpans]:
        if bodies.is_light(content_type, body):
            parsed = bodies.parse_body(content_type, bytes(body), self.features, self.limits)
        else:
            parsed = await self._parsers.parse(content_type, body)
        return await _finish(self._thread, lambda: self._spans.of_parsed(parsed, stated_rate))

    async def _find_spans_in_videos(self, uploads: Sequence[Upload]) -> list[VideoSpans]:
        extracted = await _finish(self._video_thread, lambda: self.video_scorer.extract(uploads))
        source = self.video_scorer.source
        return await _finish(self._thread, lambda: self._spans.of_videos(source, uploads, extracted))

    def content_of_spans(self, videos: Sequence[VideoSpans]) -> dict[str, Any]:
        """Counts an answer of /spans, and returns its content, to be sent as JSON."""
        self.answered += 1
        return span_service.content_of(videos, self._names)

    def begin(self, content_type: str, body: bytes | bytearray) -> asyncio.Future[list[Answer]]:
        """Begins the work on a body.

        A light body is parsed here, because a child would need half a millisecond more, as long as a small model takes.

        Args:
          body: the bytes.

        Returns:
          A future of one answer for each video. If it is cancelled, it ends only when no thread or child works on the
          body any more.
        """
        if not bodies.is_light(content_type, body):
            return asyncio.create_task(self._parse_in_child(content_type, body))
        return self._begin_scoring(bodies.parse_body(content_type, bytes(body), self.features, self.limits))

    async def _parse_in_child(self, content_type: str, body: bytes | bytearray) -> list[Answer]:
        """Lets a child parse the body, then scores the videos. If cancelled, waits for a step that computes scores."""
        request = self._begin_scoring(await self._parsers.parse(content_type, body))
        try:
            await asyncio.wait({request})
        except asyncio.CancelledError:
            request.cancel()
            await asyncio.wait({request})
            request.cancelled() or request.exception()  # marks the exception as retrieved, so asyncio does not log it
            raise
        return request.result()

    def _begin_scoring(self, parsed: Parsed) -> BatchedRequest[Any, Answer]:
        if parsed.records:
            return self._records.ask(parsed.records)
        return self._features.ask(list(zip(parsed.ids, parsed.features, strict=True)))

    def content_of(self, answers: Sequence[Answer], top_k: int) -> dict[str, Any]:
        """Counts an answer of /predict, and returns its content, to be sent as JSON."""
        self.answered += 1
        return {"videos": [self._as_json(answer, top_k) for answer in answers]}

    def _as_json(self, answer: Answer, top_k: int) -> dict[str, Any]:
        video_id, scores = answer
        fields: dict[str, Any] = {"id": video_id, "classes": self._with_names(best_classes(scores, top_k))}
        if isinstance(answer, FilmAnswer):
            fields["window_frames"] = answer.window_frames
        return fields if self._tagger is None else {**fields, "tags": self._tags(scores, self._tagger)}

    def _tags(self, scores: NDArray[np.float32], tagger: Tagger) -> list[dict[str, Any]]:
        entries = self._with_names(tags(scores, tagger))
        for tag in entries:
            if (count := tagger.few_positives(tag["index"])) is not None:
                tag["few_positives"] = count
        return entries

    def _with_names(self, classes: ScoredClasses) -> list[dict[str, Any]]:
        return [{"index": index, "name": self._names.name(index), "score": score} for index, score in classes]

    def _score_records(self, records: list[bytes]) -> list[Answer]:
        raws = [(record, "the body", number) for number, record in enumerate(records)]
        return self._score_films_of_records(raws, self._score(raws))

    def _score_films_of_records(self, raws: list[Raw], answers: list[Answer]) -> list[Answer]:
        """Replaces the answers for films among records, if the model scores films in windows."""
        windows, takes = self._film_windows, self.scorer.takes
        if windows is None or not takes.has_frames or takes.has_own_reader:
            return answers
        # A frame has at least a byte for each value, so a short record need not be parsed.
        rows = [row for row, (record, _, _) in enumerate(raws) if len(record) > windows.longest * takes.width]
        if rows and len(answers) == len(raws):
            batch = takes.arranged(self._records_of_body.parsed([raws[row] for row in rows]))
            scores = np.stack([answers[row][1] for row in rows])
            for film in score_films(self.scorer, batch, scores, windows):
                answers[rows[film]] = FilmAnswer(answers[rows[film]][0], scores[film], windows.size)
        return answers

    def _score_features(self, videos: list[tuple[str, NDArray[np.float32]]]) -> list[Answer]:
        ids, features = zip(*videos, strict=True)
        scored = self._score(self.scorer.takes.batch_of_frames(features))
        answers: list[Answer] = [(video_id, scores) for video_id, (_, scores) in zip(ids, scored, strict=True)]
        windows = self._film_windows
        for row, frames in enumerate(features):
            if windows is not None and windows.are_for(len(frames)):
                answers[row] = FilmAnswer(ids[row], score_film(self.scorer, frames, windows), windows.size)
        return answers

    def _score(self, videos: Videos) -> list[Answer]:
        """Runs one step of the model; an error of the model on these videos becomes a refusal with status 400."""
        try:
            with self.monitor.step(len(videos)):
                ids, scores = self.scorer.scores(videos)
        except DamagedError as error:
            raise RefusedError(400, f"record {error.record}: {error.what}.") from error
        except (RunError, UsageError) as error:
            raise RefusedError(400, str(error)) from error
        return list(zip(ids, scores, strict=True))
