"""Exports of Labelbox: the answers to the classifications of each data row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def read_rows(values: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Labelbox: the answers to the classifications of a data row, in each of its projects."""
    labels: dict[str, list[str]] = {}
    for value in values:
        row = value["data_row"]
        name = str(row.get("external_id") or row.get("global_key") or row["id"])
        answers = labels.setdefault(name, [])
        for project in value["projects"].values():
            for label in project["labels"]:
                answers += _answers(label["annotations"].get("classifications", ()))
    return labels


def read_old_rows(values: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Labelbox before 2023: a column `Label` with the classifications."""
    labels: dict[str, list[str]] = {}
    for value in values:
        label = value["Label"]
        label = json.loads(label) if isinstance(label, str) and label.startswith("{") else label
        classes = label.get("classifications", ()) if isinstance(label, dict) else ()
        labels.setdefault(str(value["External ID"]), []).extend(_answers(classes))
    return labels


def _answers(classifications: Iterable[Mapping[str, Any]]) -> list[str]:
    names = []
    for entry in classifications:
        answers = (
            entry.get("checklist_answers")
            or entry.get("answers")
            or entry.get("radio_answer")
            or entry.get("answer")
            or []
        )
        for answer in answers if isinstance(answers, list) else [answers]:
            names.append(str(answer.get("name") or answer.get("title") or answer["value"]))
    return names
