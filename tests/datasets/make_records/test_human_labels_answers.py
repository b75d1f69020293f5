"""Labels from Label Studio: the majority of several people decides, and their disagreement is computed."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import labels_of

from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.datasets.make_records.human_labels import combine_choices, read_answers
from yt8m.errors import RunError, UsageError
from yt8m.records.shards import id_text

Run = Callable[..., pathlib.Path]


def task(video: str, *choices: Any, skipped: int = 0) -> dict[str, Any]:
    """A task of an export: each of `choices` is the answer of a person; `skipped` further people skipped the task."""
    results = [[{"type": "choices", "from_name": "classes", "value": {"choices": labels}}] for labels in choices]
    annotations: list[dict[str, Any]] = [{"id": 1, "was_cancelled": False, "result": result} for result in results]
    annotations += [{"was_cancelled": True, "result": []}] * skipped
    return {"data": {"id": video, "video": f"https://example.org/{video}"}, "annotations": annotations}


def export(folder: pathlib.Path, *tasks: Any) -> str:
    path = folder / "label-studio.json"
    path.write_text(json.dumps(tasks))
    return str(path)


@given(st.lists(st.frozensets(st.sampled_from("abcd")), min_size=1, max_size=7))
def test_the_majority_decides_each_class(choices: list[frozenset[str]]) -> None:
    answer = combine_choices(choices)
    expected = [label for label in "abcd" if sum(label in each for each in choices) > len(choices) / 2]
    assert list(answer.labels) == expected
    assert answer.people == len(choices)
    assert answer.disagreement == pytest.approx(sum(set(each) != set(expected) for each in choices) / len(choices))


def test_answers_replace_the_labels_of_the_table(run: Run, tmp_path: pathlib.Path) -> None:
    before = labels_of(run())
    answers = export(
        tmp_path,
        task("clip 001", ["cat", "bird"], ["cat"], ["dog"], skipped=1),
        task("clip 002", ["dog"]),
        task("clip 003", skipped=1),
        task("clip 004", ["cat"], ["dog"]),
    )
    made = run(out=str(tmp_path / "answered"), labels=answers)
    assert labels_of(made) == before | {"clip 001": {"cat"}, "clip 002": {"dog"}, "clip 004": set()}
    assert (tmp_path / "answered/answers.csv").read_text().splitlines() == [
        "video,labels,people,disagreement",
        "clip 001,cat,3,0.667",
        "clip 002,dog,1,0.000",
        "clip 004,,2,1.000",
    ]


def test_the_last_annotation_of_a_person_counts(tmp_path: pathlib.Path) -> None:
    several = task("clip 001", ["cat"], ["cat"], ["dog"], ["dog"])
    people: list[Any] = [7, 7, {"id": 8, "email": "a@example.org"}, {"email": "b@example.org"}]
    for annotation, person in zip(several["annotations"], people, strict=True):
        annotation["completed_by"] = person
    several["annotations"][1]["result"][0]["value"]["choices"] = ["dog", "bird"]
    answer = read_answers(export(tmp_path, several))["clip 001"]
    assert answer == (("dog",), 3, pytest.approx(1 / 3))


def test_the_annotation_that_was_changed_last_counts_in_any_order(tmp_path: pathlib.Path) -> None:
    several = task("clip 001", ["dog"], ["cat"])
    times = [{"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-03-01T00:00:00Z"}]
    times.append({"created_at": "2026-02-01T00:00:00Z"})
    for annotation, time in zip(several["annotations"], times, strict=True):
        annotation |= {"completed_by": 7, **time}
    assert read_answers(export(tmp_path, several)) == {"clip 001": (("dog",), 1, 0.0)}


def test_relations_between_regions_are_no_classes(tmp_path: pathlib.Path) -> None:
    """The file also begins with a byte order mark."""
    related = task("clip 001", [" cat "])
    related["annotations"][0]["result"].append({"from_id": "a", "to_id": "b", "direction": "right"})
    path = pathlib.Path(export(tmp_path, related))
    path.write_text("\ufeff" + path.read_text(), encoding="utf-8")
    assert read_answers(str(path)) == {"clip 001": (("cat",), 1, 0.0)}


@pytest.mark.parametrize("video", [None, "", " ", ["a"], True, "\ud800"])
def test_an_id_that_names_no_video_is_refused(video: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunError, match=r"task 1: .*the id is|is not JSON"):
        read_answers(export(tmp_path, {"data": {"id": video}, "annotations": []}))


def test_choices_of_other_controls_are_no_classes(tmp_path: pathlib.Path) -> None:
    quality = {"type": "choices", "from_name": "quality", "value": {"choices": ["good"]}}
    with_quality, alone = task("clip 001", ["cat"]), task("clip 002", ["cat"])
    with_quality["annotations"][0]["result"].append(quality)
    alone["annotations"][0]["result"] = [quality]
    answers = read_answers(export(tmp_path, with_quality))
    assert {video: answer.labels for video, answer in answers.items()} == {"clip 001": ("cat",)}
    with pytest.raises(RunError, match=r"task 2: .* controls quality \(type choices\).*none of .*\bclasses\b"):
        read_answers(export(tmp_path, with_quality, alone))


def test_a_skipped_task_needs_no_result(tmp_path: pathlib.Path) -> None:
    skipped = task("clip 001", ["cat"])
    skipped["annotations"] += [{"was_cancelled": True, "result": None}, {"was_cancelled": True}]
    assert read_answers(export(tmp_path, skipped)) == {"clip 001": (("cat",), 1, 0.0)}
    nameless = task("clip 002", ["cat"])
    del nameless["annotations"][0]["result"][0]["from_name"]
    with pytest.raises(RunError, match=r"task 1: .* without a name \(type choices\).*none of .*\bclasses\b"):
        read_answers(export(tmp_path, nameless))
    nameless["annotations"][0]["result"] = [{"from_id": "a", "to_id": "b", "type": "relation", "direction": "left"}]
    with pytest.raises(RunError, match=r"task 1: .* relations alone.*none of .*\bclasses\b"):
        read_answers(export(tmp_path, nameless))


def test_answers_name_videos_as_tasks_do(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Tasks have ids as `id_text` writes them; Label Studio may remove blanks at the ends of an id."""
    ids = [r"a\x41", "b "]
    np.savez(tmp_path / "t.npz", id=np.array(ids), labels=np.array(["cat", "cat"]), clip=np.ones((2, 3)))
    answers = export(tmp_path, task(id_text(ids[0].encode()), ["dog"]), task("b", ["dog"]))
    make(RecordsConfig(table=str(tmp_path / "t.npz"), out=str(tmp_path / "out"), labels=answers))
    assert labels_of(tmp_path / "out/video") == {id_text(name.encode()): {"dog"} for name in ids}
    assert "Warning" not in capfd.readouterr().err
    assert (tmp_path / "out/answers.csv").read_text().splitlines()[1:] == [r"a\x5cx41,dog,1,0.000", "b,dog,1,0.000"]


@pytest.mark.parametrize(
    ("kind", "value", "label"),
    [
        ("choices", {"choices": ["cat"]}, "cat"),
        ("taxonomy", {"taxonomy": [["animal", "cat"]]}, "animal/cat"),
        ("labels", {"start": 0, "end": 5, "labels": ["cat"]}, "cat"),
        ("timelinelabels", {"ranges": [{"start": 1, "end": 20}], "timelinelabels": ["cat"]}, "cat"),
        ("videorectangle", {"sequence": [], "labels": ["cat"]}, "cat"),
    ],
)
def test_every_control_that_gives_classes_is_read_and_no_other_name(
    kind: str, value: dict[str, Any], label: str, tmp_path: pathlib.Path
) -> None:
    """An answer of a control of another name is refused: it would replace the labels of the table by none."""
    own, other = task("a", ["cat"]), task("b", ["cat"])
    own["annotations"][0]["result"] = [{"type": kind, "from_name": "classes", "value": value}]
    other["annotations"][0]["result"] = [{"type": kind, "from_name": "tag", "value": value}]
    assert read_answers(export(tmp_path, own)) == {"a": ((label,), 1, 0.0)}
    with pytest.raises(RunError, match=rf"task 2: .*\btag \(type {kind}\).*none of .*\bclasses\b"):
        read_answers(export(tmp_path, own, other))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bitmasklabels", {"bitmasklabels": ["cat"]}),
        ("vectorlabels", {"vectorlabels": ["cat"]}),
        ("ranker", {"ranker": {"cat": [1]}}),
        ("textarea", {"text": ["nothing to see"]}),
        ("rating", {"rating": 3}),
        ("of a later version", {}),
    ],
)
def test_an_answer_of_whatever_other_control_does_not_stand_for_no_class(
    kind: str, value: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Its video would lose the labels of the table. Beside an answer of the control it does no harm."""
    result = {"type": kind, "from_name": "other", "value": value}
    alone, beside = task("b", ["cat"]), task("c", ["cat"])
    alone["annotations"][0]["result"] = [result]
    beside["annotations"][0]["result"].append(result)
    with pytest.raises(RunError, match=rf"task 1: .*\bother \(type {kind}\).*none of .*\bclasses\b"):
        read_answers(export(tmp_path, alone))
    assert read_answers(export(tmp_path, beside)) == {"c": (("cat",), 1, 0.0)}


def test_a_control_that_gives_no_classes_is_refused(tmp_path: pathlib.Path) -> None:
    rated = task("a", ["cat"])
    rated["annotations"][0]["result"] = [{"type": "rating", "from_name": "classes", "value": {"rating": 3}}]
    with pytest.raises(RunError, match=r"task 1: .*\bclasses .*type rating, not choices"):
        read_answers(export(tmp_path, rated))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00.900000Z"),
        ("2026-01-01T09:30:00+02:00", "2026-01-01T08:00:00Z"),
        ("2026-01-01T08:00:00", "2026-01-01T08:00:01+00:00"),
        ("", "2026-01-01T08:00:00Z"),
        (999999999, 1000000000),
        ("1767225600000", 1767225601),
        (1767225600.5, "2026-01-01T00:00:01Z"),
    ],
)
def test_the_last_change_is_found_by_its_time_and_not_by_its_text(
    earlier: str | float, later: str | float, tmp_path: pathlib.Path
) -> None:
    for order in (1, -1):
        both = task("a", ["cat"])
        answers = [
            {
                "completed_by": 7,
                "updated_at": time,
                "result": [{"type": "choices", "from_name": "classes", "value": {"choices": [label]}}],
            }
            for time, label in ((earlier, "old"), (later, "new"))
        ]
        both["annotations"] = answers[::order]
        assert read_answers(export(tmp_path, both)) == {"a": (("new",), 1, 0.0)}


def test_a_file_that_is_no_export_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: .*no such file"):
        read_answers(str(tmp_path / "none.json"))
    with pytest.raises(RunError, match=r"task 2: .*\bid, and annotations\b.*\bclasses\b"):
        read_answers(export(tmp_path, task("a", ["cat"]), {"id": 3, "classes": "cat"}))
    with pytest.raises(RunError, match=r"task 2: .*same video, 'a'"):
        read_answers(export(tmp_path, task("a", ["cat"]), task("a", ["dog"])))
    with pytest.raises(RunError, match=r"task 1: .*choices .*not a list"):
        read_answers(export(tmp_path, task("a", "cat")))
    with pytest.raises(RunError, match=r"task 1: .*choice .*not text"):
        read_answers(export(tmp_path, task("a", [{"name": "cat"}])))
    with pytest.raises(RunError, match=r"task 1: .*annotations .*not a list"):
        read_answers(export(tmp_path, {"data": {"id": "a"}, "annotations": {}}))
    (tmp_path / "label-studio.json").write_text('[{"data"')
    with pytest.raises(RunError, match=r"label-studio\.json is not|label-studio\.json:"):
        read_answers(str(tmp_path / "label-studio.json"))


def test_answers_on_videos_that_the_table_lacks_are_warned_of(
    run: Run, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(labels=export(tmp_path, task("clip 001", ["cat"]), task("x", ["cat"])))
    assert "Warning: 1 video of " in capfd.readouterr().err
