"""Which videos are held out of a training: a tenth, by hash, in whole groups."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from reader_records import video_record, write_shard

from yt8m.errors import UsageError
from yt8m.records import groups, held_out
from yt8m.records.held_out import HeldOut

IDS = [f"v{k}" for k in range(1000)]


def test_a_tenth_is_held_out_and_the_rule_does_the_same_for_other_videos() -> None:
    rule = held_out.rule_for(held_out.keys_of(IDS))
    assert held_out.are_held_out(held_out.keys_of(IDS), rule).sum() == 100
    others = held_out.are_held_out(held_out.keys_of(f"w{k}" for k in range(20_000)), rule)
    assert 0.09 < others.mean() < 0.12
    assert max(rule) < 2**32


@pytest.mark.parametrize(("videos", "expected"), [(100, 30), (40, 20), (5000, 500)])
def test_few_videos_give_thirty_but_at_most_half(videos: int, expected: int) -> None:
    keys = held_out.keys_of(f"v{k}" for k in range(videos))
    assert held_out.are_held_out(keys, held_out.rule_for(keys)).sum() == expected


def test_the_smallest_hashes_have_their_share_of_those_held_out() -> None:
    """A sample of a search has the videos with the smallest hashes, and a tenth of it must be held out too."""
    keys = np.sort(held_out.keys_of(f"v{k}" for k in range(20_000)))
    is_held_out = held_out.are_held_out(keys, held_out.rule_for(keys))
    assert 0.08 < is_held_out[:4000].mean() < 0.12


@pytest.mark.parametrize("size", [7, 60])
def test_groups_are_not_divided(size: int) -> None:
    of_videos = (np.arange(2000) // size).astype(np.uint64)
    is_held_out = held_out.are_held_out(of_videos, held_out.rule_for(of_videos))
    assert set(of_videos[is_held_out]).isdisjoint(of_videos[~is_held_out])
    assert 200 <= is_held_out.sum() < 200 + size


@pytest.mark.parametrize("large", range(8))
def test_a_group_of_most_videos_is_passed_over(large: int) -> None:
    of_videos = np.where(np.arange(1000) < 900, large, np.arange(1000)).astype(np.uint64)
    is_held_out = held_out.are_held_out(of_videos, held_out.rule_for(of_videos))
    assert not is_held_out[:900].any()
    assert is_held_out.sum() == 100


def test_one_group_gives_no_rule_and_no_rule_holds_out_nothing() -> None:
    assert held_out.rule_for(np.zeros(50, np.uint64)) == ()
    assert not held_out.are_held_out(held_out.keys_of(IDS), ()).any()
    assert not HeldOut((), [])


def test_ids_and_texts_give_the_same_answer_also_beyond_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "_MOST_KNOWN", 600)
    rule, odd = held_out.rule_for(held_out.keys_of(IDS)), [b"\xff\x00", b"a\\x41"]
    videos = HeldOut(rule, [])
    expected = held_out.are_held_out(held_out.keys_of([*IDS, "\\xff\\x00", "a\\x5cx41"]), rule).tolist()
    for _ in range(2):
        found = [videos.of_ids([video])[0] for video in [*(i.encode() for i in IDS), *odd]]
        assert found == expected
        assert videos.of_ids([*(i.encode() for i in IDS), *odd]).tolist() == expected


def test_labels_of_videos_that_are_held_out_are_counted_by_the_groups_of_the_data(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train").mkdir()
    names = IDS[:200]
    records = [video_record(id=[name.encode()], labels=[k % 3, k % 3]) for k, name in enumerate(names)]
    path = write_shard(tmp_path / "train/a.tfrecord", records)
    of_groups = groups.digests([str(k // 10).encode() for k in range(200)])
    groups.Groups.from_digests(groups.digests([name.encode() for name in names]), of_groups).write(
        str(tmp_path / groups.NAME)
    )
    rule = held_out.rule_for(groups.find([path]).of_ids(names), by_group=True)
    is_held_out = HeldOut(rule, [path]).of_texts(names)
    assert is_held_out.reshape(20, 10).all(1).sum() * 10 == is_held_out.sum() == 30
    expected = np.bincount(np.flatnonzero(is_held_out) % 3, minlength=4)
    assert held_out.count_labels(rule, [path], 4).tolist() == expected.tolist()


def test_a_rule_of_groups_is_refused_where_the_groups_are_missing(tmp_path: pathlib.Path) -> None:
    of_videos = (np.arange(1000) // 10).astype(np.uint64)
    rule, of_before = held_out.rule_for(of_videos, by_group=True), held_out.rule_for(of_videos)
    assert rule == (*of_before, held_out.BY_GROUP)
    same = held_out.are_held_out(of_videos, rule) == held_out.are_held_out(of_videos, of_before)
    assert same.all()
    path = str(tmp_path / "moved/video/train/a.tfrecord")
    with pytest.raises(UsageError, match=rf"groups\.npz\b.* {tmp_path}/moved/video\. .*Copy"):
        HeldOut(rule, [path])
    with pytest.raises(UsageError, match=r"began, old/train/\*\. .*new run"):
        held_out.groups_for(rule, [path], "old/train/*")
    assert HeldOut(of_before, [path]), "runs of before do not say what they count"
