"""An audit of the cells of films: findings on neighbouring cells are joined to spans that may be wrong or missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.human_labels import MISSING, WRONG
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.labels import audited_cells, findings
from yt8m.labels.audit_summary import CLASSES, DECISIONS, ISSUES
from yt8m.labels.findings import LabelIssues, class_text, time_text
from yt8m.labels.folds import AuditedVideos, FoldScores
from yt8m.labels.label_audit import LabelAudit
from yt8m.labels.label_noise import LabelNoise
from yt8m.labels.video_copies import CopyPairs
from yt8m.records.prediction_files import write_table
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.words.spreadsheets import spreadsheet_text

HEADER = (*findings.HEADER, "start", "end")


class SpanIssues(NamedTuple):
    """Spans that may be wrong or missing, those with the most wrong cells first. All arrays are [P].

    Attributes:
      films: the index of the film of each.
      first, last: int64, the first cell of each, and the cell after its last.
      chances: float64, the mean chance of the cells.
    """

    films: Ints64
    classes: Ints64
    is_missing: Bools
    first: Ints64
    last: Ints64
    chances: Floats64


def joined(issues: LabelIssues, films: Ints64, cells: Ints64) -> SpanIssues:
    """Joins the issues of neighbouring cells of a film that have the same class and kind.

    The spans are ordered by the sum of the chances of their cells: the number of cells that are expected to change.

    Args:
      films, cells: int64 [issues], the film of each cell, and the number of the cell in it.
    """
    order = np.lexsort((cells, films, issues.classes, issues.is_missing))
    keys = np.stack([issues.is_missing.astype(np.int64), issues.classes, films, cells])[:, order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(keys[:3], axis=1) != 0).any(axis=0) | (np.diff(keys[3]) != 1)
    starts = np.flatnonzero(is_new)
    sums = np.add.reduceat(issues.chances[order], starts) if len(starts) else np.zeros(0)
    sizes = np.diff(np.append(starts, len(order)))
    is_missing, classes, films_of, first = keys[:, starts]
    ranks = np.argsort(-sums, kind="stable")
    columns = films_of, classes, is_missing == 1, first, first + sizes, sums / np.maximum(sizes, 1)
    return SpanIssues._make(column[ranks] for column in columns)


class CellAudit(LabelAudit):
    """An audit whose videos are the cells of films; copies are not looked for, since neighbours are alike."""

    tables: ClassVar[Mapping[str, str]] = {"Labels": ISSUES, "Classes": CLASSES}
    noun: ClassVar[str] = "films"
    unit: ClassVar[str] = "cells"

    def _film_of(self, video: str) -> str:
        return audited_cells.film_of(video)

    def _load_or_find_copies(self, videos: AuditedVideos) -> tuple[CopyPairs, NDArray[np.void]]:
        if storage.exists(self._in_work("vectors.f16")):
            storage.remove(self._in_work("vectors.f16"))
        none = np.zeros(0, np.int64)
        numbers = np.arange(2 * len(videos.ids), dtype=np.uint64).view("V16")
        return CopyPairs(none, none, np.zeros(0, np.float32)), numbers

    def _write_issues(
        self, videos: AuditedVideos, scores: FoldScores, noise: LabelNoise, names: Vocabulary
    ) -> dict[str, Any]:
        summary = super()._write_issues(videos, scores, noise, names)
        return {"videos": len(set(map(audited_cells.film_of, videos.ids))), "cells": summary.pop("videos"), **summary}

    def _write_tables(self, issues: LabelIssues, videos: AuditedVideos, names: Vocabulary) -> dict[str, int]:
        grid = audited_cells.grid_of_audit(self._config)
        places = [audited_cells.place_of(videos.ids[cell], grid) for cell in issues.videos.tolist()]
        films = list(dict.fromkeys(film for film, _ in places))
        numbers = {film: number for number, film in enumerate(films)}
        indices, cells = np.array([(numbers[film], cell) for film, cell in places], np.int64).reshape(-1, 2).T
        spans = joined(issues, indices, cells)
        spans = SpanIssues._make(column[: self._config.max_issues] for column in spans)
        rows = list(_rows(spans, films, names, grid.seconds))
        write_table(self._path(ISSUES), HEADER, rows)
        num_kept = findings.write_decision_rows(self._path(DECISIONS), HEADER, rows)
        return {
            "listed as wrong": int((~spans.is_missing).sum()),
            "listed as missing": int(spans.is_missing.sum()),
            "decisions kept": num_kept,
        }


def _rows(spans: SpanIssues, films: Sequence[str], names: Vocabulary, seconds: float) -> Iterator[list[Any]]:
    """The rows of the tables, with the columns of `HEADER`."""
    columns = (column.tolist() for column in spans)
    for rank, (film, number, is_missing, first, last, chance) in enumerate(zip(*columns, strict=True), 1):
        kind, label = MISSING if is_missing else WRONG, spreadsheet_text(class_text(names, number))
        times = time_text(first * seconds), time_text(last * seconds)
        yield [rank, spreadsheet_text(films[film]), label, kind, f"{chance:.4f}", *times]
