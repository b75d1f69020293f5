"""What `yt8m audit` prints at its end, from the content of summary.json; and the names of its tables."""

from __future__ import annotations

import shlex
from typing import Any

from yt8m import storage
from yt8m.errors import quantity

ISSUES, DECISIONS, COPIES, CLASSES = "issues.csv", "decisions.csv", "copies.csv", "classes.csv"


def format_summary(summary: dict[str, Any], out: str, data: str, *, has_table: bool) -> str:
    """The text that the command prints, from the content of summary.json and the folder of the audit.

    Args:
      data: the pattern of the records.
      has_table: whether the records may have been made of a table and arrays; else they were computed from videos.
    """
    has_spans = "cells" in summary
    noun, cells = ("spans", f", {summary['cells']} cells") if has_spans else ("labels", "")
    copies = "" if has_spans else _format_copies(summary, out)
    shares = [_format_share(summary, kind) for kind in ("wrong", "missing")]
    size = f"{quantity(summary['videos'], 'video')}{cells}, {quantity(summary['labels'], 'label')}"
    return (
        f"{size}: {shares[0]} of the labels are wrong, and "
        f"{shares[1]} of the true labels are missing.\n"
        f"{_format_doubt(summary)}"
        f"{storage.join(out, ISSUES)} lists {summary['listed as wrong']} {noun} that may be wrong and "
        f"{summary['listed as missing']} that may be missing.\n"
        f"{copies}"
        f"{storage.join(out, CLASSES)} lists {summary['findings on classes']} findings on classes.\n"
        f"Write yes or no into the column decision of {storage.join(out, DECISIONS)}, and correct the labels of the "
        f"records by\n{_format_commands(storage.join(out, DECISIONS), data, has_table)}"
    )


def _format_commands(decisions: str, data: str, has_table: bool) -> str:
    """The commands that make corrected records."""
    relabel = f"  yt8m relabel --data={shlex.quote(data)} --corrections={shlex.quote(decisions)} --out=FOLDER"
    if not has_table:
        return relabel
    return f"{relabel}\nor, of the table that they were made of, by\n  yt8m make-records --corrections={decisions} ..."


def _format_copies(summary: dict[str, Any], out: str) -> str:
    """The line about copies of videos."""
    return (
        f"{storage.join(out, COPIES)} lists {summary['copies across splits']} pairs of copies across splits and "
        f"{summary['copies within a split']} within one{_format_effect(summary)}.\n"
    )


def _format_share(summary: dict[str, Any], kind: str) -> str:
    """The share of `wrong` or `missing` labels as text; a range if the two estimates of it do not agree."""
    share, joint = (summary[name] for name in _names_of_shares(kind))
    if kind in summary["shares that are in doubt"].split(", "):
        return f"{min(share, joint):.1%} to {max(share, joint):.1%}"
    return f"about {share:.1%}"


def _names_of_shares(kind: str) -> tuple[str, str]:
    """The names in summary.json of the two estimates of the share of `wrong` or `missing` labels."""
    return f"estimated share of {kind} labels", f"share of {kind} labels by the confident joint"


def _format_doubt(summary: dict[str, Any]) -> str:
    """Lines that say why shares are given as ranges and what that means for the list; empty if there is no doubt."""
    if summary["shares that are in doubt"] == "none":
        return ""
    ranges = (
        f"{kind}: {share:.1%} if labels are {kind} whatever the video shows, {joint:.1%} by the confident joint"
        for kind in summary["shares that are in doubt"].split(", ")
        for share, joint in [[summary[name] for name in _names_of_shares(kind)]]
    )
    text = (
        f"The two estimates differ ({'; '.join(ranges)}). The first is too low if the labelling confuses classes that "
        "look alike; the second is too high if the models cannot tell classes apart.\n"
    )
    if summary["order of the list"] == "by chance":
        return text
    return text + "So the list has labels in the order of their scores, and the chance of a wrong label is a guess.\n"


def _format_effect(summary: dict[str, Any]) -> str:
    """A further sentence about the effect of copies on GAP; empty if it was not measured."""
    return f". {summary['effect in words']}" if "effect in words" in summary else ""
