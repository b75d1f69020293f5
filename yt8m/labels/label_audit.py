"""`yt8m audit`: scores each video by a model that has not seen it, and lists labels that are probably wrong or missing.

The folder of the audit has a work area, `.work`. The same command continues an interrupted audit from these files:

    inputs.json   a hash of the data and flags
    videos.npz    ids, splits and folds of the videos
    folds/        the videos of each fold as shards; removed at the end of the audit
    vectors.f16   the vectors by which near copies are found; removed when these are found
    copies.npz    the pairs of copies, and a digest of each video
    model0/       the run of the model that scores a fold; removed when the fold is scored
    scores0.npz   the scores of the videos of a fold, written when they are complete
    model_of_splits/, scores_of_splits.npz  a run on the training split, and its scores of the videos of other splits;
                  only if the training split has copies of some of these videos
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import options, storage, terminal
from yt8m.config.programs import AuditConfig
from yt8m.config.train_config import TrainConfig
from yt8m.datasets.make_records.human_labels import read_decisions
from yt8m.errors import RunError, UsageError, install_advice, quantity, refuse_without_tensorflow
from yt8m.eval_util.arrays import Bools
from yt8m.labels import audited_cells, audited_videos, findings, folds, video_copies
from yt8m.labels.audit_summary import CLASSES, COPIES, DECISIONS, ISSUES, format_summary
from yt8m.labels.folds import AuditedVideos, FoldScores, FoldSets, read_scores, score_fold, write_scores
from yt8m.labels.label_noise import LabelNoise, RankingBasis
from yt8m.labels.video_copies import CopyPairs, LeakEffect, VectorWriter, VideoVectors
from yt8m.records import label_check, vocabulary
from yt8m.records.batches import read_records
from yt8m.records.opened_data import OpenedData
from yt8m.reports import media_links, templates
from yt8m.storage import new_outputs
from yt8m.tables.reading import csv_text
from yt8m.tables.sources.dialects import parse_rows
from yt8m.tables.words.spreadsheets import spreadsheet_text, text_of_spreadsheet
from yt8m.termination import terminable

_WORK, _INPUTS, _VIDEOS = ".work", "inputs.json", "videos.npz"
_VECTORS, _PAIRS = "vectors.f16", "copies.npz"
_VERSION = 2  # version of the files of the work area; a change makes an audit start anew
SUMMARY = "summary.json"
PAGE = "audit.html"
_MOST_ROWS = 1000  # largest number of rows of a table on the page; the CSV files have all rows
_ID_COLUMNS = ("video", "other")  # columns that may have ids of videos
_NUMBER_COLUMNS = (
    "rank",
    "chance",
    "similarity",
    "videos",
    "cells",
    "value",
    "start",
    "end",
)  # columns that are sorted as numbers


def run(config: AuditConfig, training: TrainConfig, data: OpenedData) -> int:
    """Audits the data, writes the files of the audit to `config.out` and prints a summary; returns the exit status.

    Raises:
      UsageError: the folder has an audit of other data or flags, a table lacks a column or a group, or the data have no
        label, or too few videos or groups for the folds.
      RunError: a record is damaged, a training failed, a decision is neither yes nor no, or another process audits in
        this folder.
      KeyboardInterrupt, Terminated: a signal stopped the audit; the same command continues it.
    """
    summary = audit(config, training, data)
    if config.dry_run:
        text = summary["understood"]
    else:
        source, has_table = audited_cells.source_of(config), not data.manifest.extractors
        text = format_summary(summary, config.out, source, has_table=has_table)
    print(text, flush=True)
    terminal.print_json(summary)
    return 0


def audit(config: AuditConfig, training: TrainConfig, data: OpenedData) -> dict[str, Any]:
    """Audits the data and writes the files of the audit to `config.out`; returns the content of summary.json.

    With --dry_run, returns what would be audited as the text `understood`, and writes nothing.
    """
    media_links.check(config.media)
    if config.dry_run and config.videos:
        return {"understood": audited_videos.describe(config)}
    if config.dry_run and isinstance(config, audited_cells.AuditOfCells):
        return {"understood": audited_cells.describe(config)}
    if problem := label_check.describe_problem(data):
        raise UsageError(f"--data={config.data}: {problem}; an audit needs labels.")
    if config.dry_run:
        return {"understood": _describe_work(config, training, data)}
    refuse_without_tensorflow()
    with terminable(), new_outputs.locked_folder(config.out):
        if isinstance(config, audited_cells.AuditOfCells):
            from yt8m.labels.cell_audit import CellAudit  # extends the class of this module

            return CellAudit(config, training, data).run()
        return LabelAudit(config, training, data).run()


def _describe_work(config: AuditConfig, training: TrainConfig, data: OpenedData) -> str:
    """What an audit would do, in one paragraph."""
    groups = f", where videos with equal {config.group_by} stay together" if config.group_by else ""
    decisions = storage.join(config.out, DECISIONS)
    old = f"; {decisions} has earlier decisions" if storage.exists(decisions) else ""
    return (
        f"{data.pattern}: {data.size_in_words}, {quantity(training.data.num_classes, 'class', ',')}; features "
        f"{', '.join(training.data.feature_names)}; {config.folds} folds{groups}, each scored by a "
        f"{training.model.model} that has not seen it; findings go to {config.out}{old}"
    )


class LabelAudit:
    """One audit; `run` does the work that an interrupted run has not done yet.

    Attributes:
      tables: {heading on the page: name of the file}.
      noun: what stays in one fold.
      unit: what has the labels.
    """

    tables: ClassVar[Mapping[str, str]] = {"Labels": ISSUES, "Copies": COPIES, "Classes": CLASSES}
    noun: ClassVar[str] = "videos"
    unit: ClassVar[str] = "videos"

    def __init__(self, config: AuditConfig, training: TrainConfig, data: OpenedData) -> None:
        """Nothing is read or written before `run`; the arguments are those of the function `run`."""
        self._config, self._training, self._data, self._files = config, training, data, data.files
        self._work = storage.join(config.out, _WORK)
        self._folds = FoldSets(storage.join(self._work, "folds"), config.folds, self._film_of, self.noun)

    def _film_of(self, video: str) -> str:
        """The name of what stays in one fold: the video itself."""
        return video

    def run(self) -> dict[str, Any]:
        """Does the audit and writes its files; returns the content of summary.json."""
        self._open_work_area()
        videos = self._load_or_divide_videos()
        video_copies.warn_without_training_split(videos.split_names)
        pairs, digests = self._load_or_find_copies(videos)
        video_copies.write_copies(self._path(COPIES), pairs, videos)
        scores = folds.join_folds(self._load_or_score_folds(videos))
        names = self._data.vocabulary.shown(self._training.data.num_classes)
        odd_classes = findings.find_odd_classes(scores, videos, names)
        findings.write_odd_classes(self._path(CLASSES), odd_classes, self.unit)
        summary = self._write_issues(videos, scores, findings.estimate_noise(scores), names)
        summary |= self._summarise_copies(pairs, videos, video_copies.seen_in_training(pairs, videos, digests))
        summary |= {"findings on classes": len(odd_classes)}
        storage.write(self._path(SUMMARY), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        write_page(self._config.out, summary, self.tables, self._config.media)
        self._remove_from_work("folds")
        return summary

    def _path(self, name: str) -> str:
        """The path of a file in the folder of the audit."""
        return storage.join(self._config.out, name)

    def _in_work(self, name: str) -> str:
        """The path of a file or folder in the work area."""
        return storage.join(self._work, name)

    def _remove_from_work(self, name: str) -> None:
        """Removes a folder of the work area with all that it has, if it exists."""
        if storage.exists(self._in_work(name)):
            storage.remove_tree(self._in_work(name))

    def _open_work_area(self) -> None:
        """Writes the hash of data and flags into the work area; removes the files of an audit with another hash."""
        if storage.exists(self._path(DECISIONS)):
            read_decisions(self._path(DECISIONS))  # raises now rather than at the end of the audit
        digest, path = self._hash_inputs(), self._in_work(_INPUTS)
        accepted_hashes = ("", digest, self._hash_inputs(with_status=False))  # the last one is that of earlier versions
        try:
            earlier = storage.read_json(path)["digest"] if storage.exists(path) else ""
        except (RunError, ValueError, KeyError, TypeError):
            earlier = "damaged"
        if earlier not in accepted_hashes:
            if not self._config.overwrite and storage.exists(self._in_work(_VIDEOS)):
                raise UsageError(
                    f"{self._config.out} has an audit of other data or with other flags; add --overwrite to replace it "
                    "(decisions.csv keeps its decisions), or name another folder as --out."
                )
            storage.remove_tree(self._work)
        storage.write(path, json.dumps({"digest": digest}) + "\n")

    def _hash_inputs(self, with_status: bool = True) -> str:
        """A hash of the data and of the flags on which scores and copies depend."""
        shaping = [(each.name, each.value) for each in options.shaping(self._training) if each.shapes != "nothing"]
        table = [self._config.table] if self._config.table else []
        stamps = storage.stamps([*self._files, *table])
        versions = {path: stamp if with_status else stamp[:2] for path, stamp in stamps.items()}
        model = dataclasses.asdict(self._training.model)
        content = [_VERSION, options.shaping_values(self._config), shaping, model, versions]
        return hashlib.sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()

    def _load_or_divide_videos(self) -> AuditedVideos:
        """Reads the list of videos; if it or a fold that is still needed is missing, divides the data into folds.

        Dividing the data writes the list, the folds, the vectors, and the pairs of exact copies.
        """
        path = self._in_work(_VIDEOS)
        if storage.exists(path) and (self._folds.is_complete or not self._find_unscored_folds()):
            return folds.read_videos(path)
        groups = folds.read_groups(self._config.table, self._config.group_by)
        records = read_records(self._data, num_classes=self._training.data.num_classes)
        with storage.write_atomic(self._in_work(_VECTORS)) as file:
            writer = VectorWriter(file)
            videos = self._folds.write(records, groups, writer.add)
        if not writer.num_labels:
            raise UsageError(
                f"--data={self._config.data}: none of the {len(videos.ids)} {self.unit} has a label to audit."
            )
        digests = writer.digests()
        video_copies.write_pairs(self._in_work(_PAIRS), video_copies.exact_copies(digests), digests)
        folds.write_videos(path, videos)
        return videos

    def _load_or_find_copies(self, videos: AuditedVideos) -> tuple[CopyPairs, NDArray[np.void]]:
        """Reads the pairs of copies. If the file of vectors still exists, near copies have not been searched yet.

        Then this method searches them, saves all pairs and removes the file of vectors.

        Returns:
          The pairs, and the digest of each video, 16 bytes [N].
        """
        pairs, digests = video_copies.read_pairs(self._in_work(_PAIRS))
        vectors = self._in_work(_VECTORS)
        if storage.exists(vectors):
            pairs = video_copies.find_copies(VideoVectors(vectors, len(videos.ids)), digests, self._config.similarity)
            video_copies.write_pairs(self._in_work(_PAIRS), pairs, digests)
            storage.remove(vectors)
        return pairs, digests

    def _summarise_copies(self, pairs: CopyPairs, videos: AuditedVideos, seen: Bools) -> dict[str, Any]:
        """The entries of summary.json about copies; may train a model to measure their effect on GAP.

        Args:
          seen: [N], whether a video of another split has a copy in the training split.
        """
        across = videos.splits[pairs.first] != videos.splits[pairs.second]
        effect = self._measure_effect(videos, seen) if seen.any() else None
        has_training = any(map(video_copies.is_training_split, videos.split_names))
        return {
            "copies within a split": int((~across).sum()),
            "copies across splits": int(across.sum()),
            "videos of other splits that training has seen": int(seen.sum()) if has_training else "unknown",
            **({"effect on GAP": effect._asdict(), "effect in words": str(effect)} if effect else {}),
        }

    def _measure_effect(self, videos: AuditedVideos, seen: Bools) -> LeakEffect | None:
        """Measures the effect of copies on the GAP of the other splits, by a model of the training split.

        If the scores of that model are not saved yet, it trains the model and saves them.
        """
        training_files = [path for path in self._files if video_copies.is_training_split(folds.split_of(path))]
        other_files = [path for path in self._files if path not in set(training_files)]
        indices = np.flatnonzero(~video_copies.are_of_training(videos))
        path = self._in_work("scores_of_splits.npz")
        if not storage.exists(path):
            logging.info("training a model of the %d videos of the training split", len(videos.ids) - len(indices))
            config = self._config_of_training(
                ",".join(training_files), "model_of_splits", len(videos.ids) - len(indices)
            )
            write_scores(path, score_fold(config, other_files))
        self._remove_from_work("model_of_splits")
        ids = [findings.id_of_text(videos.ids[index]) for index in indices.tolist()]
        return video_copies.measure_effect(read_scores(path), ids, seen[indices], self._training.data.num_classes)

    def _find_unscored_folds(self) -> list[int]:
        """The folds whose scores are not saved yet."""
        return [fold for fold in range(self._config.folds) if not storage.exists(self._scores_path(fold))]

    def _scores_path(self, fold: int) -> str:
        """The path of the scores of a fold."""
        return self._in_work(f"scores{fold}.npz")

    def _load_or_score_folds(self, videos: AuditedVideos) -> Iterator[tuple[Any, FoldScores]]:
        """Yields, for each fold, the indices of its videos and their scores.

        If the scores of a fold are not saved yet, it trains a model on the other folds, saves the scores that the
        model gives to the fold, and removes the model.
        """
        unscored = self._find_unscored_folds()
        for fold in range(self._config.folds):
            indices = videos.of_fold(fold)
            if fold in unscored:
                logging.info("fold %d of %d: %d %s", fold + 1, self._config.folds, len(indices), self.unit)
                config = self._config_of_training(
                    self._folds.others(fold), f"model{fold}", len(videos.ids) - len(indices)
                )
                write_scores(self._scores_path(fold), score_fold(config, [self._folds.pattern(fold)]))
            self._remove_from_work(f"model{fold}")  # also that of a start that was killed after it wrote the scores
            yield indices, read_scores(self._scores_path(fold))

    def _config_of_training(self, pattern: str, folder: str, videos: int) -> TrainConfig:
        """The config of a training on some of the data, in a folder of the work area."""
        data = dataclasses.replace(self._training.data, data_pattern=pattern)
        training = dataclasses.replace(self._training, train_dir=self._in_work(folder), data=data)
        return folds.with_usual_length(training, videos, self._config.batch_size, self._config.num_epochs)

    def _write_issues(
        self, videos: AuditedVideos, scores: FoldScores, noise: LabelNoise, names: vocabulary.Vocabulary
    ) -> dict[str, Any]:
        """Finds the issues, and writes the tables of issues and of decisions; returns their entries of summary.json."""
        issues = findings.find_issues(scores, noise, self._config.min_chance)
        return {
            "videos": len(videos.ids),
            "labels": len(scores.labels),
            "estimated share of wrong labels": round(noise.wrong, 4),
            "estimated share of missing labels": round(noise.missing, 4),
            "share of wrong labels by the confident joint": round(noise.joint.wrong, 4),
            "share of missing labels by the confident joint": round(noise.joint.missing, 4),
            "shares that are in doubt": ", ".join(noise.contradictions()) or "none",
            "order of the list": "by chance" if noise.ranking is RankingBasis.RATES else "by score",
            **self._write_tables(issues, videos, names),
        }

    def _write_tables(
        self, issues: findings.LabelIssues, videos: AuditedVideos, names: vocabulary.Vocabulary
    ) -> dict[str, int]:
        """Writes the tables of issues and of decisions; returns how many there are, for summary.json."""
        issues = issues.first(self._config.max_issues)
        findings.write_issues(self._path(ISSUES), issues, videos.ids, names)
        num_kept = findings.write_decisions(self._path(DECISIONS), issues, videos.ids, names)
        return {
            "listed as wrong": int((~issues.is_missing).sum()),
            "listed as missing": int(issues.is_missing.sum()),
            "decisions kept": num_kept,
        }


def write_page(folder: str, summary: dict[str, Any], tables: Mapping[str, str], media: str) -> None:
    """Writes `audit.html` from the tables of an audit, of which it shows the first rows.

    Without Jinja2 it writes no page and logs a warning.

    Args:
      tables: {heading: name of a CSV file in the folder}.
      media: path of the table of addresses of videos; an empty string if there is none.
    """
    if importlib.util.find_spec("jinja2") is None:
        logging.warning(
            "%s is not written, because Jinja2 is not installed; the CSV files have all that it would show. To get it, "
            "%s, and the command again",
            PAGE,
            install_advice("reports"),
        )
        return
    path = storage.join(folder, PAGE)
    rows = {heading: read_rows(storage.join(folder, name)) for heading, name in tables.items()}
    shown = {heading: table[:_MOST_ROWS] for heading, table in rows.items()}
    id_columns = {heading: _find_id_columns(table) for heading, table in shown.items()}
    ids = {row[name] for heading, table in shown.items() for row in table for name in id_columns[heading]}
    figures = {name: value for name, value in summary.items() if not isinstance(value, dict)}
    text = templates.render(
        "audit.html.jinja",
        figures=figures,
        numbers=_NUMBER_COLUMNS,
        id_columns=id_columns,
        tables=shown,
        files=tables,
        totals={heading: len(table) for heading, table in rows.items()},
        media=media_links.read(media, path, ids),
        decisions_file=DECISIONS,
        decided={name: _decisions_on(folder, shown[name]) for name in tables if tables[name] == ISSUES},
    )
    storage.write(path, text)


def _decisions_on(folder: str, rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """For each issue its cells in the file, as JSON, and what `decisions.csv` says: yes, no or nothing."""
    path = storage.join(folder, DECISIONS)
    decisions = read_decisions(path) if storage.exists(path) else ()
    answers = {findings.key_of(each): findings.ANSWERS[each.is_right] for each in decisions}
    return [
        (json.dumps([spreadsheet_text(cell) for cell in row.values()]), answers.get(findings.key_of_row(row), ""))
        for row in rows
    ]


def _find_id_columns(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The columns with ids of videos. A table of classes has none: its column `other` is a class."""
    return [name for name in _ID_COLUMNS if name in rows[0]] if rows and _ID_COLUMNS[0] in rows[0] else []


def read_rows(path: str) -> list[dict[str, str]]:
    """Reads the rows of a table that an audit wrote, without the quotes that `spreadsheet_text` added."""
    return read_table(path)[1]


def read_table(path: str) -> tuple[Sequence[str], list[dict[str, str]]]:
    """The columns of such a table, and its rows."""
    header, rows = parse_rows(csv_text("--out", path), path, ("class",))
    return header, [dict(zip(header, map(text_of_spreadsheet, fields), strict=False)) for _, fields in rows]
