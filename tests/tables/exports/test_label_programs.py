"""Exports of programs that label pictures and videos one by one: VoTT, Prodigy, Kili, and the data set COIN."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from table_files import NAMES, Form, Truth, read, truth, write_json

from yt8m.errors import UsageError

Made = tuple[pathlib.Path, Truth]
FORMS: dict[str, Form] = {}


def form(function: Form) -> Form:
    FORMS[function.__name__] = function
    return function


def text(path: pathlib.Path, lines: Sequence[str]) -> pathlib.Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def vott(name: str, path: str, tags: Sequence[str]) -> dict[str, Any]:
    return {"asset": {"name": name, "path": path}, "regions": [{"tags": [tag]} for tag in tags], "version": "2.1.0"}


@form
def vott_project(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".mp4")
    assets = {f"a{k}": vott(name, f"file:/x/{name}", labels) for k, (name, labels) in enumerate(made.items())}
    tags = [{"name": name, "color": "#ff0000"} for name in NAMES]
    return write_json(folder / "t.json", {"name": "p", "tags": tags, "assets": assets}), made


@form
def vott_pictures_of_videos(folder: pathlib.Path) -> Made:
    made = truth(end=".mp4")
    pictures = [
        vott(f"{name}#t={k}", f"file:/x/{name}#t={k}", [tag]) for name, x in made.items() for k, tag in enumerate(x)
    ]
    for picture in pictures:
        name = picture["asset"]["name"].partition("#")[0]
        picture["asset"]["parent"] = {"name": name, "path": f"file:/x/{name}"}
    return write_json(folder / "t.json", {"assets": {str(k): asset for k, asset in enumerate(pictures)}}), made


@form
def prodigy_options(folder: pathlib.Path) -> Made:
    made = truth(fewest=0)
    options = [{"id": number, "text": name} for number, name in enumerate(NAMES)]
    tasks = [
        {"text": n, "options": options, "accept": [NAMES.index(x) for x in labels], "answer": "accept"}
        for n, labels in made.items()
    ]
    return text(folder / "t.jsonl", list(map(json.dumps, tasks))), made


def kili_answer(labels: Sequence[str], kind: str = "DEFAULT") -> dict[str, Any]:
    categories = [{"confidence": 100, "name": name} for name in labels]
    return {"labelType": kind, "jsonResponse": {"JOB_0": {"categories": categories}}}


@form
def kili_with_review(folder: pathlib.Path) -> Made:
    made = truth(fewest=0)
    answers = {
        n: [kili_answer(["bird"], "PREDICTION"), kili_answer(["cat"]), kili_answer(x, "REVIEW")]
        for n, x in made.items()
    }
    return write_json(folder / "t.json", [{"externalId": n, "labels": x} for n, x in answers.items()]), made


@form
def kili_latest(folder: pathlib.Path) -> Made:
    made = truth(fewest=0)
    return write_json(
        folder / "t.json", [{"externalId": n, "latestLabel": kili_answer(x)} for n, x in made.items()]
    ), made


@form
def coin(folder: pathlib.Path) -> Made:
    made = truth(most=1)
    steps = [{"id": "1", "segment": [1.0, 2.0], "label": "put on"}]
    videos = {n: {"class": x[0], "subset": "training", "annotation": steps} for n, x in made.items()}
    return write_json(folder / "COIN.json", {"database": videos}), made


@pytest.mark.parametrize("name", FORMS)
def test_an_export_is_read_as_it_is_meant(name: str, tmp_path: pathlib.Path) -> None:
    path, expected = FORMS[name](tmp_path)
    assert read(path) == {video: sorted(labels) for video, labels in expected.items()}


def test_people_who_disagree_in_kili_are_refused(tmp_path: pathlib.Path) -> None:
    path = write_json(
        tmp_path / "t.json", [{"externalId": "v1", "labels": [kili_answer(["cat"]), kili_answer(["dog"])]}]
    )
    with pytest.raises(UsageError, match=r"not agree .*'v1'"):
        read(path)
