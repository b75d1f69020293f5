"""The rules by which a video becomes rows. A rule has a version: records and runs keep the rule of their features.

`whole-3`: a video of n whole seconds has n rows (at one row a second); the last second counts if half of it is there.
Time stamps are checked (see `time_line`), pauses are closed or refused (see `pauses`), and pixels that are not square
are made square.

`published-3`: for the features with which YouTube-8M was published. The last row is the one that is nearest to the time
of the last frame, as in MediaPipe's graph for YouTube-8M. Time stamps and pixels are treated as in `whole-3`.

`whole-2`, `published-2`: as version 3, but a pause of up to ten seconds has rows, which repeat one picture.

`nearest-1`: the rule of all features before rules had names. Rows are those of `published-2`; time stamps are trusted,
and pixels are taken as they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.records.manifest import FIRST_RULE

# Seconds by which a second may lack half of its length and yet count, because containers round times. At many rows per
# second it is at most the given share of a row.
_ROUNDING, _ROUNDING_SHARE = 0.005, 0.05


class SamplingRule(NamedTuple):
    """A rule.

    Attributes:
      counts_whole: whether the rows are counted as in `whole-3`.
      squares_pixels: whether pictures with pixels that are not square are scaled to the size at which they are shown.
    """

    counts_whole: bool
    checks_times: bool
    closes_pauses: bool
    squares_pixels: bool


WHOLE, PUBLISHED, EARLIER = "whole-3", "published-3", FIRST_RULE
RULES: Mapping[str, SamplingRule] = {
    WHOLE: SamplingRule(True, True, True, True),
    PUBLISHED: SamplingRule(False, True, True, True),
    "whole-2": SamplingRule(True, True, False, True),
    "published-2": SamplingRule(False, True, False, True),
    EARLIER: SamplingRule(False, False, False, False),
}

NEWEST = 3  # the newest version of the rules; version 1 has the rule `nearest-1` alone


def rule_of(version: int, usual: Iterable[str]) -> str:
    """The rule of a version for extractors that are used together, all of whose features have the same rows.

    Args:
      version: 1 to `NEWEST`.
      usual: the rules of the extractors, of any version.
    """
    if version == 1:
        return EARLIER
    newest = WHOLE if all(RULES[name].counts_whole for name in usual) else PUBLISHED
    return newest.replace(str(NEWEST), str(version))


def rule_of_entry(entry: Mapping[str, Any]) -> str:
    """The rule by which the rows were made that an entry of a manifest or of a run describes."""
    name = str(entry.get("sampling", EARLIER))
    if name not in RULES:
        raise UsageError(
            f"the features {entry.get('feature')} were made by the rule of sampling {name!r}, which this version of "
            f"yt8m does not know (it knows {', '.join(RULES)}): use the version that made them, or a newer one."
        )
    return name


def version_of(rule: str) -> int:
    """The version of the rules to which a rule belongs, the number at the end of its name."""
    return int(rule.rpartition("-")[2])


def rounding(per_second: float) -> float:
    """The time in seconds by which half a row may be too short and yet count as half; see `_ROUNDING`."""
    return min(_ROUNDING, _ROUNDING_SHARE / per_second)


def whole_rows(seconds: float, per_second: float) -> int:
    """The number of rows of a video with this length, by the rule `whole-3`: at least 1."""
    return max(1, math.floor((seconds + rounding(per_second)) * per_second + 0.5))
