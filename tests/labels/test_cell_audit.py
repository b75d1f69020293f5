"""An audit of records of spans: planted errors are found as spans, and the decisions on them mend the records."""

from __future__ import annotations

import csv
import json
import pathlib

import numpy as np
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.config.programs import AuditConfig
from yt8m.labels import audited_cells
from yt8m.labels.cell_audit import joined
from yt8m.labels.findings import LabelIssues
from yt8m.records import shards, vocabulary
from yt8m.records.opened_data import open_data
from yt8m.records.rated_cells import Cells

NAMES = ("cut", "weld")
FILMS, SECONDS = 24, 40


def write_films(folder: pathlib.Path) -> tuple[str, np.ndarray]:
    """Writes films whose frames show their classes; returns the table, and the truth, bool [films, seconds, classes].

    The table misses the span of `weld` of film 3, and says `cut` of film 5 at a time that does not show it.
    """
    draw, rows = np.random.default_rng(0), ["video,path,label,start,end,split"]
    truth = np.zeros((FILMS, SECONDS, 2), bool)
    for film in range(FILMS):
        frames = draw.normal(0, 0.3, (SECONDS, 8)).astype(np.float32)
        split = "validate" if film % 4 == 3 else "train"
        for number, name in enumerate(NAMES):
            start = int(draw.integers(0, SECONDS - 12))
            frames[start : start + 10, number] += 2
            truth[film, start : start + 10, number] = True
            if (film, name) != (3, "weld"):
                rows.append(f"f {film},{film}.npy,{name},{start},{start + 10},{split}")
        np.save(folder / f"{film}.npy", frames)
    free = int(np.argmin(truth[5, :, 0]))
    wrong = free if not truth[5, free : free + 8, 0].any() else SECONDS - 8
    rows.append(f"f 5,5.npy,cut,{wrong},{wrong + 8},train")
    (folder / "spans.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "spans.csv"), truth


def make(folder: pathlib.Path, table: str, *flags: str) -> str:
    """Makes records of cells of one second; returns their pattern."""
    words = [f"--table={table}", f"--out={folder}/data", "--level=frame", "--rows=spans", "--segment_size=1"]
    assert cli.call("make-records", [*words, "--shards=2", *flags]) == 0
    return f"{folder}/data/frame/*/*.tfrecord"


def shown_in(pattern: str, folder: pathlib.Path) -> dict[str, np.ndarray]:
    """{film: bool [seconds, classes]} of records, with the classes in the order of `NAMES`."""
    order = [vocabulary.read(f"{folder}/data/vocabulary.csv").names.index(name) for name in NAMES]
    found = {}
    for path in pathlib.Path("/").glob(pattern[1:]):
        for _, record in shards.read_contexts(str(path)):
            shown = Cells(1, 1.0).shown(record, SECONDS, 2)[:, order]
            found[record.id().decode()] = shown
    return found


@pytest.mark.long
def test_planted_errors_are_found_and_mended(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, truth = write_films(tmp_path)
    data, out = make(tmp_path, table), tmp_path / "audit"
    assert cli.call("audit", [f"--data={data}", f"--out={out}", "--dry_run"]) == 0
    assert "960 rated cells of 1 s" in capsys.readouterr().out
    assert not out.exists()
    words = [f"--data={data}", f"--out={out}", "--folds=2", "--num_epochs=20"]
    assert cli.call("audit", words) == 0
    text = capsys.readouterr().out
    assert "24 videos, 960 cells" in text
    assert (out / "classes.csv").read_text().startswith("finding,class,other,split,cells,value")
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["videos"], summary["cells"]) == (FILMS, FILMS * SECONDS)
    with (out / "decisions.csv").open() as file:
        rows = list(csv.DictReader(file))
    best = {kind: next(row for row in rows if row["kind"] == kind) for kind in ("wrong", "missing")}
    assert (best["missing"]["video"], best["missing"]["class"]) == ("f 3", "weld")
    assert (best["wrong"]["video"], best["wrong"]["class"]) == ("f 5", "cut")
    for row in best.values():
        row["decision"] = "yes"
    with (out / "decisions.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert cli.call("audit", words) == 0, "the finished work is used again"
    assert json.loads((out / "summary.json").read_text())["decisions kept"] == 2
    assert f"yt8m relabel --data='{data}' --corrections={out}/decisions.csv --out=FOLDER" in text
    words = [f"--data={data}", f"--corrections={out}/decisions.csv", f"--out={tmp_path}/relabelled"]
    assert cli.call("relabel", words) == 0
    relabelled = shown_in(f"{tmp_path}/relabelled/frame/*/*.tfrecord", tmp_path)
    mended = shown_in(make(tmp_path, table, f"--corrections={out}/decisions.csv", "--overwrite"), tmp_path)
    assert all((relabelled[film] == mended[film]).all() for film in mended)
    wrong = {film: int((mended[f"f {film}"] != truth[film]).sum()) for film in (3, 5)}
    assert max(wrong.values()) <= 1, wrong
    assert all((mended[f"f {film}"] == truth[film]).all() for film in range(FILMS) if film not in (3, 5))


def test_the_ends_of_a_film_are_repeated_around_its_cells(tmp_path: pathlib.Path) -> None:
    """By hand: frame t is 10 + t in both values, 8 frames, cells of one second and five seconds around them."""
    np.save(tmp_path / "a.npy", np.repeat(10 + np.arange(8, dtype=np.float32)[:, np.newaxis], 2, axis=1))
    (tmp_path / "spans.csv").write_text("video,path,label,start,end,split\na,a.npy,x,2,5,train\n")
    data = make(tmp_path, str(tmp_path / "spans.csv"))
    audited_cells.with_cells(AuditConfig(data=data, out=str(tmp_path / "audit")), open_data(data))
    batch = next(iter(yt8m.read_records(f"{tmp_path}/audit/records/cells/train/*.tfrecord")))
    at = {name: row for row, name in enumerate(batch.ids)}
    (feature,) = (name.removeprefix("cell_") for name in batch.features if name.startswith("cell_"))
    expected = {"a@0": (10, 10, 13), "a@2": (12, 10.2, 15), "a@7": (17, 14, 17)}
    for name, means in expected.items():
        found = [batch.features[f"{place}_{feature}"][at[name], 0] for place in ("cell", "before", "after")]
        np.testing.assert_allclose(found, means, rtol=1e-3)


def test_issues_of_neighbouring_cells_are_one_span() -> None:
    """By hand: cells 4, 5, 6 of film 0 in any order, and 8; film 1 has the same cells; another kind stays apart."""
    films = np.array([0, 0, 0, 0, 1, 0], np.int64)
    cells = np.array([6, 4, 5, 8, 7, 7], np.int64)
    is_missing = np.array([True, True, True, True, True, False])
    chances = np.array([0.3, 0.6, 0.9, 0.8, 0.1, 0.7])
    issues = LabelIssues(np.arange(6), np.zeros(6, np.int64), is_missing, chances)
    spans = joined(issues, films, cells)
    found = list(zip(*(column.tolist() for column in spans[:5]), strict=True))
    assert found == [(0, 0, True, 4, 7), (0, 0, True, 8, 9), (0, 0, False, 7, 8), (1, 0, True, 7, 8)]
    np.testing.assert_allclose(spans.chances, [0.6, 0.8, 0.7, 0.1])
    assert joined(LabelIssues(*(column[:0] for column in issues)), films[:0], cells[:0]).films.size == 0


@pytest.mark.parametrize(("video", "seconds", "cell"), [("a@b@", 0.5, 3), ("x", 1.0, 0), ("film", 1 / 3, 100)])
def test_cells_are_named_by_their_film_and_start(video: str, seconds: float, cell: int) -> None:
    grid = Cells(1, 1 / seconds)
    name = audited_cells.cell_name(video, cell, grid)
    assert audited_cells.place_of(name, grid) == (video, cell)
    assert audited_cells.film_of(name) == video
