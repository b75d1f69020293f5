"""Requests that come while the model works share its next step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
A = TypeVar("A")


class _Asked(NamedTuple, Generic[T, A]):
    items: Sequence[T]
    answer: asyncio.Future[list[A]]


class Batcher(Generic[T, A]):
    """Gathers items of concurrent requests; nobody waits for a batch to fill.

    Args:
      compute: an answer for each item; called in the executor, one call at a time.
      most: items of one call; a request of more is a call of its own.
      executor: where it is called.
    """

    def __init__(self, compute: Callable[[list[T]], list[A]], most: int, executor: Executor) -> None:
        self._compute, self._most, self._executor = compute, most, executor
        self._waiting: deque[_Asked[T, A]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[T]) -> list[A]:
        """The answers for `items`; raises what `compute` raised for them, whoever shared their batch."""
        asked = _Asked(items, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await asked.answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._next())
        finally:
            self._worker = None

    def _next(self) -> list[_Asked[T, A]]:
        """The longest waiting, and as many behind it as fit; without those that gave up."""
        group: list[_Asked[T, A]] = []
        room = self._most
        while self._waiting and (not group or len(self._waiting[0].items) <= room):
            asked = self._waiting.popleft()
            if not asked.answer.done():
                group.append(asked)
                room -= len(asked.items)
        return group

    async def _answer(self, group: list[_Asked[T, A]]) -> None:
        items = [item for asked in group for item in asked.items]
        try:
            found = await self._call(items)
        except Exception as error:
            if len(group) > 1:  # one of them is at fault, and the others shall not feel it
                for asked in group:
                    await self._answer([asked])
                return
            for asked in group:
                if not asked.answer.done():
                    asked.answer.set_exception(error)
            return
        place = 0
        for asked in group:
            if not asked.answer.done():
                asked.answer.set_result(found[place : place + len(asked.items)])
            place += len(asked.items)

    async def _call(self, items: list[T]) -> list[A]:
        if not items:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._compute, items)
