"""The parts of an evaluation that are joined by key: they hold every entry once, and none is large."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import beam as bench
from yt8m.eval_util.average_precision import class_average_precisions, precision_sum

VIDEOS = 50_000


@pytest.fixture(scope="module", autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


@pytest.fixture(scope="module")
def entries() -> tuple[np.ndarray, np.ndarray]:
    """The packed entries of 50,000 videos whose classes are as unequal as those of YouTube-8M."""
    return bench.entries(VIDEOS)


def test_the_parts_hold_every_entry_once(entries: tuple[np.ndarray, np.ndarray]) -> None:
    from yt8m.bulk import pipelines

    for cut in (pipelines.parts_by_class, pipelines.parts_by_score):
        parts = [np.frombuffer(part, np.uint64) for _, part in cut(entries[0])]
        assert len(parts) > 50
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(entries[0]))


def test_figures_of_the_parts_are_those_of_the_whole(entries: tuple[np.ndarray, np.ndarray]) -> None:
    from yt8m.bulk import pipelines

    keys, label_counts = entries
    found, sums, seen, hits = np.zeros(len(label_counts)), list[float](), 0, 0
    for _, part in pipelines.parts_by_class(keys):
        found += class_average_precisions(np.frombuffer(part, np.uint64), label_counts)
    np.testing.assert_array_equal(found, class_average_precisions(keys, label_counts))
    for number, part in sorted(pipelines.parts_by_score(keys)):
        sums.append(precision_sum(np.frombuffer(part, np.uint64), seen, hits))
        _, (more, right) = pipelines.size_of_range(number, part)
        seen, hits = seen + more, hits + right
    assert math.fsum(sums) == pytest.approx(precision_sum(keys, 0, 0), rel=1e-12)


def test_the_largest_part_is_a_small_share_and_never_more_than_all_entries(
    entries: tuple[np.ndarray, np.ndarray],
) -> None:
    """An element of 1.1 million videos has at most 20 entries of 8 bytes each: 176 MB; the bench measures 5 MB."""
    keys, label_counts = entries
    assert keys.nbytes == 8 * bench.TOP_K * VIDEOS
    assert bench.largest_part(keys, label_counts) < 0.05 * keys.nbytes
    same = np.full(1000, keys[0])
    assert bench.largest_part(same, label_counts) == same.nbytes
