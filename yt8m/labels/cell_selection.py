"""`yt8m select` for a model of spans: the parts of films to label next.

A part is a cell of the model's grid in which people have not rated every class; it is named `film@12` by its film and
the second at which it begins. The choice among cells is that among videos.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import storage, terminal
from yt8m.errors import UsageError
from yt8m.eval_util.arrays import Bools, Floats32
from yt8m.eval_util.top_k import TopK, top_k
from yt8m.labels import after_selection, batch_selection
from yt8m.labels.audited_cells import cell_name, place_of
from yt8m.labels.batch_selection import Chosen, LabelledVideos, SelectConfig, Selection, UnlabelledVideos
from yt8m.labels.findings import class_text, time_text
from yt8m.records import shards
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.prediction_files import write_table
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import media_links
from yt8m.scoring import Scorer, film_spans
from yt8m.scoring.film_spans import Joining
from yt8m.tables.words.spreadsheets import spreadsheet_text

HEADER = ("rank", "video", "start", "end", "value", "distance", "classes")


def choose(config: SelectConfig, scorer: Scorer, labelled_data: OpenedData) -> Chosen:
    """Chooses cells and writes them to `config.out`."""
    joining = film_spans.joining_for(scorer)
    data = open_data(config.data, flag="data")
    candidates = read_candidates(scorer, data, joining)
    labelled = read_labelled(scorer, labelled_data, frozenset(candidates.ids), joining)
    cells = batch_selection.without_labelled(candidates, labelled, config, labelled_data.pattern)
    selection = batch_selection.select(cells, labelled, config)
    are_shown = cells.best.scores >= joining.thresholds[cells.best.classes]
    write_selection(config, cells, selection, scorer.shown_names, are_shown, joining)
    noun = f"parts of {joining.cells.seconds:g} s"
    lines = [batch_selection.describe_selection(cells, selection, scorer.shown_names, config, noun)]
    table = config.out if config.format == "csv" else ""
    lines += after_selection.for_parts(data, joining.cells, table=table, frame_rate=config.frame_rate)
    left_out = len(candidates.ids) - len(cells.ids)
    figures = {"out": config.out, "candidates": len(cells.ids), "left_out": left_out}
    return Chosen(lines, figures | {"chosen": [*_json_rows(cells, selection, scorer.shown_names, joining)]})


def _json_rows(
    cells: UnlabelledVideos, selection: Selection, names: Vocabulary, joining: Joining
) -> Iterator[dict[str, Any]]:
    """The chosen cells as --json prints them, with their times in seconds."""
    for row in batch_selection.json_rows(cells.ids, cells.best, selection, names):
        film, cell = place_of(row["video"], joining.cells)
        seconds = joining.cells.seconds
        yield {**row, "video": film, "start": cell * seconds, "end": (cell + 1) * seconds}


def read_candidates(scorer: Scorer, data: OpenedData, joining: Joining) -> UnlabelledVideos:
    """Reads and scores the cells in which people have not rated every class."""
    ids, scores, classes, directions = list[str](), [], [], []
    total, number = np.zeros(scorer.num_classes), 0
    for video, frames, record in _films(scorer, data, joining, "scoring"):
        cell_scores = film_spans.score_cells(scorer, frames, joining)
        total += cell_scores.sum(0, dtype=np.float64)
        number += len(cell_scores)
        rows = np.flatnonzero(~joining.cells.annotated(record, len(frames), scorer.num_classes).all(axis=1))
        best = top_k(cell_scores[rows], batch_selection.CLASSES_OF_VIDEO)
        ids += [cell_name(video, cell, joining.cells) for cell in rows.tolist()]
        scores.append(best.scores)
        classes.append(best.classes)
        directions.append(_directions(frames, joining)[rows])
    if not ids:
        raise UsageError(
            f"--data={data.pattern}: people have rated every class in all {number} cells, so there is nothing to "
            "choose; name videos without labels."
        )
    best = TopK(np.concatenate(scores), np.concatenate(classes))
    return UnlabelledVideos(ids, best, total / number, np.concatenate(directions))


def read_labelled(scorer: Scorer, data: OpenedData, candidates: Collection[str], joining: Joining) -> LabelledVideos:
    """Reads the cells in which people have rated every class."""
    counts, directions, number = np.zeros(scorer.num_classes, np.int64), list[Floats32](), 0
    shared = set[str]()
    for video, frames, record in _films(scorer, data, joining, "reading labels"):
        is_rated = joining.cells.annotated(record, len(frames), scorer.num_classes).all(axis=1)
        rows = np.flatnonzero(is_rated)
        counts += joining.cells.shown(record, len(frames), scorer.num_classes)[rows].sum(0)
        shared.update(name for cell in rows.tolist() if (name := cell_name(video, cell, joining.cells)) in candidates)
        if number < batch_selection.MOST_LABELLED:
            directions.append(_directions(frames, joining)[rows][: batch_selection.MOST_LABELLED - number])
        number += len(rows)
    if not number:
        raise UsageError(
            f"the files of labelled videos, {data.pattern}, have no cell in which people have rated every class; name "
            "others by --labelled."
        )
    return LabelledVideos(number, counts, np.concatenate(directions), shared)


def _films(
    scorer: Scorer, data: OpenedData, joining: Joining, action: str
) -> Iterator[tuple[str, NDArray[np.float32], shards.Record]]:
    """Yields the id, the frames and the record of each film."""
    for video, frames, raw in terminal.with_bar(film_spans.frames_of_records(scorer, data, joining), action):
        yield video, frames, shards.parse(raw[0], with_lists=False)


def _directions(frames: NDArray[np.float32], joining: Joining) -> Floats32:
    """The mean features of the cells of a film, scaled to length 1, float32 [cells, D]."""
    starts = np.arange(0, len(frames), joining.frames)
    sums = np.add.reduceat(frames, starts, axis=0) if len(frames) else frames[:0]
    return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12), np.float32)


def write_selection(
    config: SelectConfig,
    cells: UnlabelledVideos,
    selection: Selection,
    names: Vocabulary,
    are_shown: Bools,
    joining: Joining,
) -> None:
    """Writes the chosen cells as a table, or as tasks for Label Studio, a task for each film.

    Args:
      are_shown: bool [N, K], which of the best classes of the cells reach their thresholds.
    """
    if config.format == "csv":
        write_table(config.out, HEADER, _rows(cells, selection, names, joining))
        return
    chosen: dict[str, list[tuple[int, int]]] = {}
    for index in selection.indices.tolist():
        film, cell = place_of(cells.ids[index], joining.cells)
        chosen.setdefault(film, []).append((cell, index))
    addresses = media_links.read_addresses(config.media, list(chosen))
    tasks = [
        _task(film, addresses.get(film, film), config, joining, [
            (cell, list(itertools.compress(_labels(cells, index, names), are_shown[index].tolist())))
            for cell, index in sorted(cells_of_film)
        ])
        for film, cells_of_film in chosen.items()
    ]  # fmt: skip
    storage.write(config.out, json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")


def _rows(cells: UnlabelledVideos, selection: Selection, names: Vocabulary, joining: Joining) -> Iterator[list[Any]]:
    """The rows of the table, with the columns of `HEADER`."""
    for row in batch_selection.rows_of(cells.ids, cells.best, selection, names):
        film, cell = place_of(cells.ids[selection.indices[row[0] - 1]], joining.cells)
        times = (time_text(number * joining.cells.seconds) for number in (cell, cell + 1))
        yield [row[0], spreadsheet_text(film), *times, *row[2:]]


def _labels(cells: UnlabelledVideos, index: int, names: Vocabulary) -> list[str]:
    """The texts of the best classes of a cell."""
    return [class_text(names, number) for number in cells.best.classes[index].tolist()]


def _task(
    film: str, address: str, config: SelectConfig, joining: Joining, cells_of_film: list[tuple[int, list[str]]]
) -> dict[str, Any]:
    """A task for Label Studio: a film, the times of the parts to label, and what the model finds there.

    Args:
      cells_of_film: the number of each chosen cell, and the classes that it seems to show.
    """
    seconds, rate = joining.cells.seconds, config.frame_rate
    times = ", ".join(f"{time_text(cell * seconds)}-{time_text((cell + 1) * seconds)}" for cell, _ in cells_of_film)
    results = [
        {
            "id": f"part{cell}",
            "from_name": "timeline",
            "to_name": "video",
            "type": "timelinelabels",
            "value": {
                "ranges": [
                    {"start": round(cell * seconds * rate) + 1, "end": math.ceil((cell + 1) * seconds * rate - 1e-6)}
                ],
                "timelinelabels": labels,
            },
        }
        for cell, labels in cells_of_film
        if labels
    ]
    task: dict[str, Any] = {"data": {"video": address, "id": film, "parts": times}}
    return {**task, "predictions": [{"model_version": config.model, "result": results}] if results else []}
