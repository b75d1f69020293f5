"""What the audit says of its shares of errors where its two estimates do not agree."""

from __future__ import annotations

import pytest

from yt8m.labels import audit_summary

SUMMARY = {
    "videos": 5000,
    "labels": 23_000,
    "estimated share of wrong labels": 0.002,
    "estimated share of missing labels": 0.12,
    "share of wrong labels by the confident joint": 0.164,
    "share of missing labels by the confident joint": 0.15,
    "listed as wrong": 7,
    "listed as missing": 9,
    "copies across splits": 0,
    "copies within a split": 0,
    "findings on classes": 0,
}


@pytest.mark.parametrize(
    ("doubt", "order", "first", "lines"),
    [
        ("none", "by chance", "about 0.2% of the labels are wrong, and about 12.0% of the true labels", 0),
        ("wrong", "by chance", "0.2% to 16.4% of the labels are wrong, and about 12.0% of the true labels", 1),
        ("wrong, missing", "by score", "0.2% to 16.4% of the labels are wrong, and 12.0% to 15.0% of the true", 2),
    ],
)
def test_both_estimates_are_given_where_they_do_not_agree(doubt: str, order: str, first: str, lines: int) -> None:
    text = audit_summary.format_summary(
        SUMMARY | {"shares that are in doubt": doubt, "order of the list": order}, "out", "a.tfrecord", has_table=True
    )
    assert first in text.splitlines()[0]
    said = text.splitlines()[1 : 1 + lines]
    assert len(said) == lines
    assert text.splitlines()[1 + lines].startswith("out/issues.csv lists 7 labels")
    if lines:
        assert "wrong: 0.2%" in said[0]
        assert "16.4% by the confident joint" in said[0]
    if lines > 1:
        assert "missing: 12.0%" in said[0]
        assert "order of their scores" in said[1]


@pytest.mark.parametrize("has_table", [False, True])
def test_the_advice_names_the_command_for_how_the_records_were_made(has_table: bool) -> None:
    summary = SUMMARY | {"shares that are in doubt": "none", "order of the list": "by chance"}
    text = audit_summary.format_summary(summary, "out", "data/frame/*/*.tfrecord", has_table=has_table)
    command = "yt8m relabel --data='data/frame/*/*.tfrecord' --corrections=out/decisions.csv --out=FOLDER"
    assert command in text
    assert ("yt8m make-records --corrections=out/decisions.csv ..." in text) == has_table
