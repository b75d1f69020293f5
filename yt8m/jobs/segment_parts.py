"""Rankings of several processes, each of some of the files, as the one that a single process would make."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.jobs import segment_inference
from yt8m.jobs.segment_ranking import SegmentRanking
from yt8m.tools.segment_lists import HEADER


def write(file: IO[Any], ranking: SegmentRanking) -> None:
    """Writes one process' lists, a line a class: each segment and its score as a key, the least the best."""
    for number, segments, keys in ranking.scored_lines():
        pairs = (b"%s %d" % pair for pair in zip(segments, keys.tolist(), strict=True))
        file.write(b"%d,%s\n" % (number, b" ".join(pairs)))


def join(file: IO[Any], parts: Sequence[str], most: int) -> None:
    """Writes the lists of all processes, one class in memory at a time.

    Args:
      file: what is written.
      parts: of the processes, in the order of their files; empty where one had no file.
      most: segments of a class.

    Raises:
      RunError: the parts list other classes, or there is no segment.
    """
    file.write(HEADER + b"\n")
    count = 0
    for number, segments in _lines([part for part in parts if storage.size(part)], most):
        file.write(b"%d,%s\n" % (number, b" ".join(segments)))
        count += len(segments)
    if not count:
        raise RunError(segment_inference.NO_SEGMENT)


def _lines(parts: Sequence[str], most: int) -> Iterator[tuple[int, list[bytes]]]:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(storage.open_read(part)) for part in parts]
        for lines in itertools.zip_longest(*files, fillvalue=b""):
            numbers, _, lists = zip(*(line.partition(b",") for line in lines), strict=True)
            if len(set(numbers)) > 1:
                raise RunError(
                    f"{parts[0]} and the other parts list different classes; give each process the same "
                    "--segment_label_ids_file, with the same content."
                )
            yield int(numbers[0]), _best(lists, most)


def _best(lists: Sequence[bytes], most: int) -> list[bytes]:
    """The best of all lists; of equal scores that of the earlier list, for its files came first."""
    words = [one for text in lists for one in text.split()]
    keys = np.array(words[1::2], np.bytes_).astype(np.int64)
    order = np.argsort(keys, kind="stable")[:most]
    return list(dict.fromkeys(words[2 * place] for place in order.tolist()))
