"""Tasks and results of Label Studio, as its documentation shows them."""

from __future__ import annotations

from typing import Any


def task(name: str, *results: Any, **others: Any) -> dict[str, Any]:
    """A task of Label Studio; each of `results` is what one person made."""
    annotations = [{"completed_by": person, "result": list(result)} for person, result in enumerate(results)]
    return {"id": 1, "data": {"video": name}, "annotations": annotations, **others}


def timeline(label: str, start: int, end: int, **value: Any) -> dict[str, Any]:
    """A result of TimelineLabels."""
    value = {"ranges": [{"start": start, "end": end}], "timelinelabels": [label], **value}
    return {"value": value, "id": "x", "from_name": "timeline", "to_name": "video", "type": "timelinelabels"}


def sound(label: str, start: float, end: float) -> dict[str, Any]:
    """A result of Labels on sound."""
    value = {"start": start, "end": end, "channel": 0, "labels": [label]}
    return {"value": value, "original_length": 98.7, "from_name": "tricks", "to_name": "audio", "type": "labels"}
