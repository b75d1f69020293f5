"""Training videos that are held out: whether a video is one of them follows from its id, or from its group, alone.

Where a model is chosen and there is no split `validate`, a training reads the other videos, and its validations read
those that are held out. The rule is a few numbers, which are saved with the run. So every start of the run holds out
the same videos, in whichever file they lie.

A video has the number of its group (--group_by), or else that of its own id, which a hash draws from all numbers of 32
bits. Held out are the numbers up to a limit, except those of groups that are too large. The rule is a tuple: the
limit, then these exceptions, then `BY_GROUP` if the numbers are those of groups: by ids, the same limit would hold out
other videos, which the model has learnt. An empty tuple holds out nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.records import groups, shards
from yt8m.records.groups import Groups
from yt8m.records.shards import Record

SHARE, LEAST = 0.1, 30  # of the videos, and the least number of them, that are held out
BY_GROUP = -1  # the last number of a rule that was made for groups; rules of earlier versions never have it
_MOST_KNOWN = 200_000  # ids whose answer is kept: those of more videos are hashed again in every epoch


def keys_of(ids: Iterable[str]) -> NDArray[np.uint64]:
    """A hash of each id that no other part of the project draws by, so that a sample is not the sample of another."""
    digests = [hashlib.blake2b(f"search:{video}".encode(), digest_size=8).digest() for video in ids]
    return np.frombuffer(b"".join(digests), np.uint64)


def groups_of(ids: Sequence[str], groups_of_data: Groups) -> NDArray[np.uint64]:
    """uint64 [ids]: the group of each video; where the data have no groups, its key."""
    return groups_of_data.of_ids(ids) if len(groups_of_data.videos) else keys_of(ids)


def number_to_hold_out(videos: int) -> int:
    """How many of so many videos are held out: a tenth, but at least 30, and at most half."""
    return min(max(round(SHARE * videos), LEAST), videos // 2)


def rule_for(groups_of_videos: NDArray[np.uint64], *, by_group: bool = False) -> tuple[int, ...]:
    """The rule that holds out a tenth of these videos, in whole groups, or as many more as the last group has.

    Groups with which it would be more than half of the videos are passed over. The rule is empty if nothing can be
    held out, because all videos are of one group.

    Args:
      by_group: whether the data have groups, so that the rule must be refused where they are missing.
    """
    numbers, sizes = np.unique(_numbers(groups_of_videos), return_counts=True)
    wanted, most = number_to_hold_out(len(groups_of_videos)), len(groups_of_videos) // 2
    limit, passed_over, count = -1, list[int](), 0
    for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True):
        if count >= wanted:
            break
        if count + size > most:
            passed_over.append(number)
        else:
            limit, count = number, count + size
    mark = (BY_GROUP,) * by_group
    return () if limit < 0 else (limit, *(number for number in passed_over if number < limit), *mark)


def groups_for(rule: Sequence[int], files: Sequence[str], first_data: str = "") -> Groups:
    """The groups of the videos in some shards, by which a rule holds some out; data must have those it counts.

    Args:
      first_data: the pattern of the training data so far, if it is known.
    """
    groups_of_data = groups.find(files) if rule else groups.NONE
    if len(groups_of_data.videos) or BY_GROUP not in rule:
        return groups_of_data
    raise UsageError(
        f"this run holds out whole groups of its training videos (--group_by), which {groups.NAME} lists, but there is "
        f"none in {' or '.join(groups.folders(files))}. Without it, videos that the model has learnt would be held "
        "out. Copy it there; it lies in the folder above that of the shards with which the run began"
        f"{f', {first_data}' if first_data else ''}. Or train a new run in another --train_dir."
    )


def are_held_out(groups_of_videos: NDArray[np.uint64], rule: Sequence[int]) -> NDArray[np.bool_]:
    """bool [N]: whether each video, given by its group, is held out by a rule."""
    if not rule:
        return np.zeros(len(groups_of_videos), np.bool_)
    numbers = _numbers(groups_of_videos)
    return (numbers <= rule[0]) & ~np.isin(numbers, rule[1:])


def _numbers(groups_of_videos: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Mixes the bits of each group (by the finalizer of SplitMix64), of which the splits of the data may know some."""
    mixed = groups_of_videos.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)).astype(np.int64)


class HeldOut:
    """Tells which videos of some files a rule holds out.

    Args:
      rule: see the module.
      files: the paths of shards, in whose folders the groups are looked for.
    """

    def __init__(self, rule: Sequence[int], files: Sequence[str]) -> None:
        self._rule, self._groups = tuple(rule), groups_for(rule, files)
        self._known: dict[bytes, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._rule)

    def of_texts(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """bool [ids]: whether each video is held out, by its id as files show it."""
        return are_held_out(groups_of(ids, self._groups), self._rule)

    def holds(self, record: Record) -> bool:
        """Whether a video is held out."""
        return bool(self.of_ids([record.id()])[0])

    def of_ids(self, ids: Sequence[bytes]) -> NDArray[np.bool_]:
        """bool [ids]: whether each video is held out, by its id; several threads may call this."""
        unknown = [video for video in ids if video not in self._known]
        answers = dict(zip(unknown, self.of_texts(list(map(shards.id_text, unknown))).tolist(), strict=True))
        if len(self._known) + len(answers) <= _MOST_KNOWN:
            self._known.update(answers)
        return np.array([answers[video] if video in answers else self._known[video] for video in ids], np.bool_)


def count_labels(rule: Sequence[int], files: Sequence[str], num_classes: int) -> NDArray[np.int64]:
    """int64 [C]: how many of the videos that a rule holds out have each class."""
    held_out, counts = HeldOut(rule, files), np.zeros(num_classes, np.int64)
    for path in files if held_out else ():
        for _, record in shards.read_contexts(path):
            if held_out.holds(record):
                counts[[int(label) for label in {*record.values("labels")}]] += 1
    return counts
