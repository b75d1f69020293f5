"""`make fuzz`: many random changes of shards and records, seeded; counts what came of them."""

from __future__ import annotations

import argparse
import collections
import contextlib
import pathlib
import random
import sys
import tempfile
import time

import fault_shards
from fault_shards import LEVELS
from faults import mutations

from yt8m.datasets.verification import DeepCheck

_PARSED, _READ, _BORNE = 12, 40, 100  # one change in so many goes through the graph too


class Campaign:
    """All that the changes go through.

    Args:
      folder: for the shard that is changed.
      seed: of the changes.
      stack: closes the sessions.
    """

    def __init__(self, folder: pathlib.Path, seed: int, stack: contextlib.ExitStack) -> None:
        self._random, self._path = random.Random(seed), folder / "x.tfrecord"
        self._shards = {level: fault_shards.sound(level, mutations.COUNT) for level in LEVELS}
        self._parsers = {level: mutations.parser(level) for level in LEVELS}
        self._readers = {level: mutations.GraphReader(level, self._path) for level in LEVELS}
        self._borne = {level: mutations.GraphReader(level, self._path, max_bad_records=1) for level in LEVELS}
        for closed in (*self._parsers.values(), *self._readers.values(), *self._borne.values()):
            stack.callback(closed.close)
        self.counts: collections.Counter[str] = collections.Counter()

    def step(self, number: int) -> None:
        """One change, of a shard or of a record in an otherwise sound shard."""
        level = LEVELS[number % len(LEVELS)]
        if number % 2:
            self._shard(level, number // 2)
        else:
            self._record(level, number // 2)

    def _shard(self, level: str, number: int) -> None:
        sound = self._shards[level]
        outcome = mutations.check_shard(self._path, self._changed(fault_shards.shard(sound)), sound)
        self.counts[f"shard: {outcome}"] += 1
        if number % _READ == 0:
            per_record = 2 if level == "segment" else 1
            told = mutations.check_graph(self._readers[level], self._path, per_record)
            self.counts[f"shard in the graph: {told}"] += 1
        if number % _BORNE == 0:
            self._bear(level)

    def _bear(self, level: str) -> None:
        """With --max_bad_records=1 a shard never fails; what is read stands before the damage."""
        found, _ = mutations.read(self._path)
        ids, error = self._borne[level].ids()
        assert error is None, error
        assert len(ids) <= (2 if level == "segment" else 1) * len(found)
        self.counts["shard with a bad record borne"] += 1

    def _record(self, level: str, number: int) -> None:
        payload = self._changed(self._shards[level][0])
        self.counts[f"record: {mutations.check_record(payload, DeepCheck({}))}"] += 1
        if number % _PARSED == 0:
            bad = self._parsers[level].first_bad([payload])
            self.counts[f"record in the graph: {'read' if bad is None else 'named'}"] += 1

    def _changed(self, whole: bytes) -> bytes:
        draw = self._random
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            data = draw.randbytes(draw.randint(1, 24))
            change = mutations.Change(
                draw.choice(mutations.KINDS), draw.randrange(1 << 20), draw.randrange(1 << 20), data
            )
            whole = change.of(whole)
        return whole


def main() -> int:
    """Runs the campaign; the first change that breaks a law raises, with its number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        campaign = Campaign(pathlib.Path(folder), given.seed, stack)
        for number in range(given.mutations):
            try:
                campaign.step(number)
            except Exception:
                print(f"change {number} of seed {given.seed} broke a law", file=sys.stderr)
                raise
    for what, count in sorted(campaign.counts.items()):
        print(f"{count:8d}  {what}")
    print(f"{given.mutations} changes, seed {given.seed}, {time.monotonic() - start:.0f} s: every law held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
