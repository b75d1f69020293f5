"""An audit of 300 videos: planted errors are found, and an interrupted audit goes on."""

from __future__ import annotations

import csv
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
from labels.own_labels import COPIED, MISSING, NAMES, WRONG, make_records, write_table

from yt8m.command_line import cli
from yt8m.labels import label_audit
from yt8m.records import manifest, vocabulary
from yt8m.records.batches import read_records

pytestmark = pytest.mark.long
FLAGS = ("--folds=3", "--similarity=0.9")  # 16 values are so few that some videos look alike by chance


def rows_of(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the table and the records."""
    folder = tmp_path_factory.mktemp("audit")
    write_table(folder)
    make_records(folder)
    return folder


@pytest.fixture(scope="module")
def audited(made: pathlib.Path) -> pathlib.Path:
    """The folder with their audit."""
    assert cli.main(["audit", f"--data={made}/data/video/*/*.tfrecord", f"--out={made}/audit", *FLAGS]) == 0
    return made


@pytest.mark.heavy
def test_planted_errors_are_listed_first(audited: pathlib.Path) -> None:
    issues = rows_of(audited / "audit/issues.csv")
    assert list(issues[0]) == ["rank", "video", "class", "kind", "chance"]
    assert [int(row["rank"]) for row in issues] == list(range(1, len(issues) + 1))
    chances = [float(row["chance"]) for row in issues]
    assert chances == sorted(chances, reverse=True)
    planted = {(f"clip {number:03}", NAMES[(number + 2) % 3], "wrong") for number in WRONG}
    # The right label of a wrongly labelled video is missing.
    planted |= {(f"clip {number:03}", NAMES[number % 3], "missing") for number in WRONG}
    planted |= {(f"clip {number:03}", NAMES[(number + 1) % 3], "missing") for number in MISSING}
    first = {(row["video"], row["class"], row["kind"]) for row in issues[: len(planted)]}
    assert len(first & planted) >= 0.7 * len(planted)
    summary = json.loads((audited / "audit/summary.json").read_text())
    assert summary["videos"] == 310
    assert summary["estimated share of wrong labels"] == pytest.approx(len(WRONG) / summary["labels"], abs=0.015)


@pytest.mark.heavy
def test_copies_are_listed_with_their_splits(audited: pathlib.Path) -> None:
    splits = {
        video: split
        for split in ("train", "validate", "test")
        for batch in read_records(f"{audited}/data/video/{split}/*.tfrecord")
        for video in batch.ids
    }
    rows = rows_of(audited / "audit/copies.csv")
    pairs = {tuple(sorted((row["video"], row["other"]))) for row in rows}
    assert pairs == {(f"clip {number:03}", f"copy {number:03}") for number in COPIED}
    assert all((row["split"], row["other_split"]) == (splits[row["video"]], splits[row["other"]]) for row in rows)
    assert sum(row["similarity"] == "1.0000" for row in rows) >= 5
    summary = json.loads((audited / "audit/summary.json").read_text())
    across = sum(row["split"] != row["other_split"] for row in rows)
    assert summary["copies across splits"] == across > 0
    assert summary["effect on GAP"]["copies"] == summary["videos of other splits that training has seen"] > 0
    assert summary["effect in words"].startswith("GAP without the copies that training has seen: ")


@pytest.mark.heavy
def test_the_work_area_holds_no_models_in_the_end(audited: pathlib.Path) -> None:
    names = sorted(path.name for path in (audited / "audit/.work").iterdir())
    assert names == [
        "copies.npz",
        "inputs.json",
        *(f"scores{fold}.npz" for fold in range(3)),
        "scores_of_splits.npz",
        "videos.npz",
    ]


@pytest.mark.heavy
def test_decisions_are_kept_and_applied(audited: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = audited / "audit/decisions.csv"
    decisions = rows_of(path)
    assert {row.pop("decision") for row in decisions} == {""}
    assert decisions == rows_of(audited / "audit/issues.csv")
    for place, row in enumerate(decisions):
        row["decision"] = ("yes", "no", "")[min(place // 10, 2)]
    lines = [",".join(row.values()) for row in [dict(zip(decisions[0], decisions[0], strict=True)), *decisions]]
    path.write_text("\n".join(lines) + "\nx,clip 001,bird,wrong,,no\n")
    assert (
        cli.main(
            ["audit", f"--data={audited}/data/video/*/*.tfrecord", f"--out={audited}/audit", *FLAGS, "--min_chance=0.5"]
        )
        == 0
    )
    kept = [(row["video"], row["class"], row["decision"]) for row in rows_of(path) if row["decision"]]
    assert kept[:20] == [(row["video"], row["class"], row["decision"]) for row in decisions[:20]]
    assert kept[20:] == [("clip 001", "bird", "no")]
    words = [f"--table={audited}/clips.npz", f"--out={audited}/corrected", f"--corrections={path}"]
    assert cli.main(["make-records", *words]) == 0
    before, after = (labels_of(audited / folder) for folder in ("data", "corrected"))
    expected = {video: set(labels) for video, labels in before.items()}
    for row in decisions[:10]:
        (set.add if row["kind"] == "missing" else set.remove)(expected[row["video"]], row["class"])
    assert after == expected
    described = [
        manifest.read(f"{audited}/corrected/video/{split}/manifest.json").corrections
        for split in ("train", "validate", "test")
    ]
    assert sum(each["labels added"] + each["labels removed"] for each in described) == 10
    assert {each["file"] for each in described} == {"decisions.csv"}
    assert json.loads((audited / "corrected/video/summary.json").read_text())["labels corrected"].keys() == {
        "added",
        "removed",
    }


def labels_of(folder: pathlib.Path) -> dict[str, set[str]]:
    names = vocabulary.read(f"{folder}/vocabulary.csv").names
    return {
        video: {names[number] for number in row.nonzero()[0]}
        for batch in read_records(f"{folder}/video/*/*.tfrecord")
        for video, row in zip(batch.ids, batch.labels, strict=True)
    }


@pytest.mark.heavy
def test_an_interrupted_audit_goes_on_after_the_last_fold(
    audited: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_fold, scored = label_audit.score_fold, list[str]()

    def interrupted(config: Any, held_out: str) -> Any:
        if len(scored) == 2:
            raise KeyboardInterrupt
        scored.append(held_out[0])
        return score_fold(config, held_out)

    words = [
        "audit",
        f"--data={audited}/data/video/*/*.tfrecord",
        f"--out={tmp_path}/audit",
        "--folds=3",
        "--num_epochs=2",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(label_audit, "score_fold", interrupted)
        assert cli.main(words) == 130
    again = list[str]()
    monkeypatch.setattr(
        label_audit, "score_fold", lambda config, held_out: (again.append(held_out[0]), score_fold(config, held_out))[1]
    )
    assert cli.main(words) == 0
    assert len({*scored, *again}) == len(scored) + len(again) == 4  # the last is the model of the training split
    assert cli.main([*words[:-1], "--num_epochs=3"]) == 2  # other flags
    assert len(again) == 2


def test_what_cannot_be_audited_is_refused(made: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", f"--out={made}/x"]) == 2
    refusal = capfd.readouterr().err
    assert "--data" in refusal
    assert "--videos" in refusal
    assert cli.main(["audit", f"--data={made}/none/*", f"--out={made}/x"]) == 2
    assert cli.main(["audit", f"--data={made}/data/video/*/*.tfrecord", f"--out={made}/x", "--group_by=channel"]) == 2
    assert "--group_by needs --table" in capfd.readouterr().err
    assert not (made / "x").exists()


def test_decisions_that_cannot_be_read_are_refused_before_the_work(
    made: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "decisions.csv").write_text("video,class,kind,decision\nclip 001,cat,wrong,perhaps\n")
    assert cli.main(["audit", f"--data={made}/data/video/*/*.tfrecord", f"--out={tmp_path}"]) == 1
    assert "line 2: the decision is 'perhaps'" in capfd.readouterr().err
    assert not (tmp_path / ".work").exists()


def test_videos_without_any_label_are_refused(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "names.csv").write_text("index,name\n0,cat\n1,dog\n")
    np.savez(tmp_path / "clips.npz", id=[*"abcdefghijkl"], labels=[""] * 12, clip=np.eye(12, 4, dtype=np.float32))
    words = [f"--table={tmp_path}/clips.npz", f"--vocabulary={tmp_path}/names.csv", f"--out={tmp_path}/data"]
    assert cli.main(["make-records", *words]) == 0
    pattern = f"{tmp_path}/data/video/*/*.tfrecord"
    assert cli.main(["audit", f"--data={pattern}", f"--out={tmp_path}/audit", "--folds=2"]) == 2
    assert "an audit needs labels" in capfd.readouterr().err


def test_flags_may_change_as_long_as_nothing_is_scored(
    made: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of folds that is too large leaves nothing behind that another number would contradict."""
    words = ["audit", f"--data={made}/data/video/test/*.tfrecord", f"--out={tmp_path}"]
    assert cli.main([*words, "--folds=100"]) == 2
    begun = list[str]()
    monkeypatch.setattr(label_audit, "score_fold", lambda config, _: begun.append(config.train_dir) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main([*words, "--folds=2"])
    assert begun
    assert cli.main([*words, "--folds=3"]) == 2


def test_a_shard_that_another_of_the_same_size_and_time_replaced_is_noticed(
    made: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "data", tmp_path / "data")
    words = ["audit", f"--data={tmp_path}/data/video/test/*.tfrecord", f"--out={tmp_path}/audit", "--folds=2"]
    monkeypatch.setattr(label_audit, "score_fold", lambda *_: 1 / 0)
    for _ in range(2):  # the second start goes on with what the first one has divided
        with pytest.raises(ZeroDivisionError):
            cli.main(words)
    shard = min((tmp_path / "data/video/test").glob("*.tfrecord"))
    shutil.copy2(shard, tmp_path / "other")
    assert shard.stat().st_mtime_ns == (tmp_path / "other").stat().st_mtime_ns
    (tmp_path / "other").replace(shard)
    assert cli.main(words) == 2
    assert "audit of other data" in capsys.readouterr().err
