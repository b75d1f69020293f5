"""Gathers the items of concurrent requests into calls, which one thread makes one after another."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
A = TypeVar("A")

Then = Callable[[Any, Exception | None], None]  # takes the result of a call, or None and its error


class CallThread:
    """A thread that makes calls in their order and hands the results to the event loop that asked for them.

    An executor does the same by two futures a call, which takes three times as long for a call that is short.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._make_calls, name=name)
        self._thread.start()

    def call(self, compute: Callable[[], Any], then: Then) -> None:
        """Calls `compute` in the thread, and afterwards `then` in the running event loop, unless that was closed."""
        loop = asyncio.get_running_loop()

        def make() -> None:
            result, error = None, None
            try:
                result = compute()
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(then, result, error)

        self._calls.put(make)

    def _make_calls(self) -> None:
        while (make := self._calls.get()) is not None:
            make()
            del make  # and with it the items of the call

    def close(self) -> None:
        """Drops the calls that wait, and returns when the current one has ended."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
        self._calls.put(None)
        self._thread.join()


class BatchedRequest(asyncio.Future[list[A]], Generic[T, A]):
    """The items of a request; the result is one answer for each. It cannot be cancelled while a call computes it."""

    def __init__(self, items: Sequence[T]) -> None:
        super().__init__()
        self.items, self.is_computed = items, False

    def cancel(self, msg: Any = None) -> bool:
        """Gives up the request if it still waits for a call; says whether it did."""
        return not self.is_computed and super().cancel(msg)


class Batcher(Generic[T, A]):
    """Gathers the items of concurrent requests into calls; a call starts at once, even if it is not full.

    Args:
      compute: returns one answer for each item; called in the thread, one call at a time.
      most: largest number of items per call; a request with more gets a call of its own.
      thread: makes the calls.
    """

    def __init__(self, compute: Callable[[list[T]], list[A]], most: int, thread: CallThread) -> None:
        self._compute, self._most, self._thread = compute, most, thread
        self._waiting: deque[BatchedRequest[T, A]] = deque()
        self._retried: deque[BatchedRequest[T, A]] = deque()  # each gets a call of its own
        self._in_call: Sequence[BatchedRequest[T, A]] = []

    @property
    def waiting(self) -> int:
        """Number of items that wait for a call."""
        return sum(len(request.items) for request in (*self._retried, *self._waiting))

    def ask(self, items: Sequence[T]) -> BatchedRequest[T, A]:
        """A request for the answers to `items`. It ends with an error of `compute` only if these items cause it."""
        request = BatchedRequest[T, A](items)
        self._waiting.append(request)
        if not self._in_call:
            self._begin()
        return request

    def _begin(self) -> None:
        """Starts the next call, if a request waits for one."""
        self._in_call = self._next()
        for request in self._in_call:
            request.is_computed = True
        if self._in_call:
            items = [item for request in self._in_call for item in request.items]
            self._thread.call(lambda: self._compute(items), self._end)

    def _next(self) -> Sequence[BatchedRequest[T, A]]:
        """Removes and returns the longest-waiting request and as many later ones as fit, without cancelled ones."""
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

    def _end(self, answers: Iterable[A], error: Exception | None) -> None:
        """Hands out the answers of a call, then starts the next."""
        if error is None:
            remaining_answers = iter(answers)
            for request in self._in_call:
                request.set_result(list(itertools.islice(remaining_answers, len(request.items))))
        elif len(self._in_call) == 1:
            self._in_call[0].set_exception(error)
        else:  # one of the requests caused the error: compute each on its own
            for request in self._in_call:
                request.is_computed = False
            self._retried.extend(self._in_call)
        self._begin()
