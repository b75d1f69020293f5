"""Exports of Kili: assets with the answers of people, each a JSON object {job: {"categories": [{"name"}]}}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.words.meanings import words

_ID_KEYS = words("externalId external_id")
_BY_PEOPLE = words("REVIEW DEFAULT")  # the kinds of answers by people, the surest first; others are those of models
Asset = Mapping[str, Any]


def fits(asset: Asset) -> bool:
    """Whether an object is an asset of Kili with its answers."""
    answers = asset.get("labels")
    has_answers = isinstance(answers, list) and all(isinstance(a, Mapping) and "jsonResponse" in a for a in answers)
    return any(key in asset for key in _ID_KEYS) and (has_answers or isinstance(asset.get("latestLabel"), Mapping))


def read(path: str, assets: Sequence[Asset]) -> dict[str, list[str]]:
    """{external id: classes} of the last answer of each asset; a review counts before what it reviews."""
    labels: dict[str, list[str]] = {}
    jobs = dict[str, None]()
    for asset in assets:
        name = str(next(asset[key] for key in _ID_KEYS if key in asset))
        if name in labels:
            raise UsageError(f"{path} has the asset {name[:60]!r} twice; keep one of them.")
        responses = _responses(path, name, asset)
        jobs.update(dict.fromkeys(job for response in responses for job in response))
        labels[name] = [label for response in responses for answer in response.values() for label in _names(answer)]
    if len(jobs) > 1:
        raise UsageError(
            f"{path} has the answers of several jobs of Kili: {', '.join(jobs)[:200]}; expected one, so keep one of "
            "them."
        )
    return labels


def _responses(path: str, name: str, asset: Asset) -> list[Asset]:
    """The answers that count: those of a video are by frame."""
    answers = [asset["latestLabel"]] if "latestLabel" in asset else list(asset["labels"])
    for kind in _BY_PEOPLE:
        of_kind = [answer for answer in answers if answer.get("labelType", kind) == kind]
        latest = [answer for answer in of_kind if answer.get("isLatestLabelForUser", True)]
        several = [sorted(set(_names_in(answer))) for answer in latest]
        if any(names != several[0] for names in several[1:]):
            raise UsageError(
                f"{path}: people do not agree on {name[:60]!r}: {' and '.join(map(str, several))[:200]}. Review it in "
                "Kili, or keep one answer."
            )
        if latest:
            response = latest[-1]["jsonResponse"]
            return list(response.values()) if response and all(map(str.isdecimal, response)) else [response]
    return []


def _names_in(answer: Asset) -> Iterator[str]:
    response = answer["jsonResponse"]
    for frame in response.values() if response and all(map(str.isdecimal, response)) else [response]:
        for job in frame.values():
            yield from _names(job)


def _names(job: Asset) -> Iterator[str]:
    """The classes of a job: of a classification, or of the objects that were marked."""
    for answer in (job, *(job.get("annotations") or ())):
        for category in answer.get("categories") or ():
            yield str(category["name"])
