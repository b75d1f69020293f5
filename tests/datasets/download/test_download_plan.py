"""The plan of a download: known answers of the shard rule and the names, and plans that are none."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.datasets.download import DownloadConfig, PlannedFile, in_shard, parse_plan, saved_name
from yt8m.errors import RunError, UsageError

DIGITS = string.ascii_lowercase + string.ascii_uppercase + string.digits
ALL = [PlannedFile(f"train{a}{b}.tfrecord", "0" * 32) for a in DIGITS for b in DIGITS]


@pytest.mark.parametrize(
    ("published", "saved"),
    [
        ("trainaa.tfrecord", "train0000.tfrecord"),
        ("trainbF.tfrecord", "train0093.tfrecord"),
        ("trainpj.tfrecord", "train0939.tfrecord"),
        ("validate99.tfrecord", "validate3843.tfrecord"),
    ],
)
def test_the_last_two_characters_count_in_base_62(published, saved):
    assert saved_name(published) == saved


def test_every_shard_gets_a_name_of_its_own():
    assert [saved_name(one.name) for one in ALL] == [f"train{n:04d}.tfrecord" for n in range(3844)]


def test_one_percent_of_the_training_frames_are_the_known_41_files():
    chosen = {saved_name(one.name) for one in in_shard(ALL, (1, 100))}
    assert len(chosen) == 41
    assert {f"train{n}.tfrecord" for n in ("0093", "0111", "0208", "2072")} <= chosen


@given(st.integers(1, 300))
def test_the_shards_share_the_files_out(count):
    shares = [in_shard(ALL[:60], (index, count)) for index in range(1, count + 1)]
    assert sorted(one for share in shares for one in share) == sorted(ALL[:60])


def test_without_a_shard_all_are_taken():
    assert in_shard(ALL, ()) == ALL


def test_a_plan_is_read_in_the_order_of_names():
    content = b'{"files": {"trainab.tfrecord": "%s", "trainaa.tfrecord": "%s"}}' % (b"A" * 32, b"0" * 32)
    planned = [PlannedFile("trainaa.tfrecord", "0" * 32), PlannedFile("trainab.tfrecord", "a" * 32)]
    assert parse_plan(content, "plan") == planned


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"<html>log in</html>", "such as a proxy or a login page: open the address in a browser"),
        (b"[1, 2]", "is not a download plan"),
        (b'{"files": [1]}', "is not a download plan"),
        (b'{"other": {}}', "is not a download plan"),
        (b"\xff\xfe", "is not a download plan"),
        (b'{"files": {}}', "lists no files"),
        (b'{"files": {"../../.bashrc": "%s"}}' % (b"0" * 32), "../../.bashrc"),
        (b'{"files": {"/etc/aa.tfrecord": "%s"}}' % (b"0" * 32), "/etc/aa.tfrecord"),
        (b'{"files": {"trainaa.tfrecord": "123"}}', "md5 of 32 hexadecimal digits"),
    ],
)
def test_what_is_no_plan_is_refused(content, part):
    with pytest.raises(RunError, match=r"http://x/plan") as refused:
        parse_plan(content, "http://x/plan")
    assert part in str(refused.value)


def test_the_addresses_are_the_published_ones():
    config = DownloadConfig("3/frame/validate", mirror="asia")
    assert config.plan_address == "http://data.yt8m.org/3/download_plans/frame_validate.json"
    assert (
        config.file_address("validateaa.tfrecord") == "http://asia.data.yt8m.org/3/frame/validate/validateaa.tfrecord"
    )


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"partition": ""}, "--partition is missing: "),
        ({"partition": "2/frames/train"}, "--partition=2/frames/train"),
        ({"partition": "2/frame/train/../x"}, "--partition"),
        ({"mirror": "moon"}, "one of us, eu, asia"),
        ({"shard": (0, 100)}, "--shard=0,100"),
        ({"shard": (101, 100)}, "--shard=101,100"),
        ({"shard": (1,)}, "--shard=1"),
        ({"out": "gs://bucket/x"}, "--out=gs://bucket/x is in a bucket; name a folder of this machine"),
        ({"plan_url": "data.yt8m.org"}, "--plan_url=data.yt8m.org"),
        ({"mirror_url": "ftp://x"}, "--mirror_url=ftp://x"),
    ],
)
def test_what_cannot_be_is_refused(given, part):
    with pytest.raises(UsageError) as refused:
        DownloadConfig(**{"partition": "2/frame/train", **given})
    assert part in str(refused.value)
