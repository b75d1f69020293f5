"""`yt8m audit`: scores each video by a model that has not seen it, and lists what is wrong with the labels.

The folder of the audit keeps a work area, `.work`, from which an interrupted audit goes on:

    inputs.json   a hash of the data and flags
    videos.npz    ids, splits and folds of the videos
    folds/        the videos of each fold as shards; removed when all folds are scored
    vectors.f16   the vectors that copies are found by; removed when they are found
    copies.npz    the copies, and a digest of each video
    model0/       the run of the fold that is being trained; removed when the fold is scored
    scores0.npz   the scores of a fold, written when they are complete
    scores_of_splits.npz  those of the other splits by a model of the training split, if that has copies of them
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import importlib.util
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import options, storage
from yt8m.config.train_config import TrainConfig
from yt8m.datasets.make_records.human_labels import read_decisions
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.arrays import Bools
from yt8m.labels import findings, folds, video_copies
from yt8m.labels.audit_config import AuditConfig
from yt8m.labels.folds import AuditedVideos, FoldScores, FoldSets, read_scores, score_fold, write_scores
from yt8m.labels.label_noise import LabelNoise
from yt8m.labels.video_copies import CopyPairs, LeakEffect, VectorWriter, VideoVectors
from yt8m.records import manifest, vocabulary
from yt8m.records.batches import read_records
from yt8m.records.prediction_files import text_of_spreadsheet
from yt8m.reports import media_links, templates
from yt8m.termination import terminable

_WORK, _INPUTS, _VIDEOS = ".work", "inputs.json", "videos.npz"
_VECTORS, _PAIRS = "vectors.f16", "copies.npz"
_VERSION = 2  # of the files of the work area
ISSUES, DECISIONS, COPIES, CLASSES = "issues.csv", "decisions.csv", "copies.csv", "classes.csv"
SUMMARY = "summary.json"
PAGE = "audit.html"
_MOST = 1000  # rows of a table on the page; the files have all
_IDS = ("video", "other")
_NUMBERS = ("rank", "chance", "similarity", "videos", "value")  # columns that are sorted as numbers


def run(config: AuditConfig, training: TrainConfig) -> int:
    """Audits the data, and prints what was found; returns the exit status.

    Args:
      config: what is audited.
      training: how the models are trained, on all of the data.

    Raises:
      UsageError: the folder has an audit of other data or flags, or a table lacks a column or a group.
      RunError: a record is damaged, or a training failed.
      KeyboardInterrupt: a signal stopped the audit, which the same command continues.
    """
    media_links.check(config.media)
    storage.makedirs(config.out)
    with terminable(), storage.lock(storage.join(config.out, ".lock")):
        summary = LabelAudit(config, training).run()
    print(_in_words(summary, config.out), flush=True)
    return 0


class LabelAudit:
    """One audit; `run` does the work that is not done yet."""

    def __init__(self, config: AuditConfig, training: TrainConfig) -> None:
        self._config, self._training = config, training
        self._files = manifest.shards_at(config.data)
        self._work = storage.join(config.out, _WORK)
        self._folds = FoldSets(storage.join(self._work, "folds"), config.folds)

    def run(self) -> dict[str, Any]:
        """Does the audit and writes its files; returns the content of summary.json."""
        self._begin()
        videos = self._videos()
        video_copies.warn_without_training_split(videos.split_names)
        pairs, digests = self._copies(videos)
        video_copies.write_copies(self._path(COPIES), pairs, videos)
        scores = folds.joined(self._scores(videos))
        names = vocabulary.shown_for(self._training.data.num_classes, vocabulary.of_data("", self._files))
        odd_classes = findings.find_odd_classes(scores, videos, names)
        findings.write_odd_classes(self._path(CLASSES), odd_classes)
        summary = self._write_issues(videos, scores, findings.noise_of(scores), names)
        summary |= self._summary_of_copies(pairs, videos, video_copies.seen_in_training(pairs, videos, digests))
        summary |= {"findings on classes": len(odd_classes)}
        storage.write(self._path(SUMMARY), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        tables = {"Labels": ISSUES, "Copies": COPIES, "Classes": CLASSES}
        write_page(self._config.out, summary, tables, self._config.media)
        self._remove("folds")
        return summary

    def _path(self, name: str) -> str:
        return storage.join(self._config.out, name)

    def _in_work(self, name: str) -> str:
        return storage.join(self._work, name)

    def _remove(self, name: str) -> None:
        if storage.exists(self._in_work(name)):
            storage.remove_tree(self._in_work(name))

    def _begin(self) -> None:
        """Refuses a folder with an audit of other data or flags, unless it may be replaced; and bad decisions."""
        if storage.exists(self._path(DECISIONS)):
            read_decisions(self._path(DECISIONS))
        digest, path = self._digest(), self._in_work(_INPUTS)
        try:
            earlier = storage.read_json(path)["digest"] if storage.exists(path) else ""
        except (RunError, ValueError, KeyError, TypeError):
            earlier = "damaged"
        if earlier not in ("", digest):
            if not self._config.overwrite and storage.exists(self._in_work(_VIDEOS)):
                raise UsageError(
                    f"{self._config.out} has an audit of other data or with other flags; add --overwrite to replace it "
                    "(decisions.csv keeps its decisions), or name another folder as --out."
                )
            storage.remove_tree(self._work)
        storage.write(path, json.dumps({"digest": digest}) + "\n")

    def _digest(self) -> str:
        """A hash of all that decides the scores."""
        shaping = [(each.name, each.value) for each in options.shaping(self._training) if each.shapes != "nothing"]
        table = [self._config.table] if self._config.table else []
        stamps = storage.stamps([*self._files, *table])
        model = dataclasses.asdict(self._training.model)
        content = [_VERSION, options.shaping_values(self._config), shaping, model, stamps]
        return hashlib.sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()

    def _videos(self) -> AuditedVideos:
        """The videos, divided into folds."""
        path = self._in_work(_VIDEOS)
        if storage.exists(path) and (self._folds.is_complete or not self._unscored()):
            return folds.read_videos(path)
        groups = folds.read_groups(self._config.table, self._config.group_by)
        records = read_records(self._files, num_classes=self._training.data.num_classes)
        with storage.write_atomic(self._in_work(_VECTORS)) as file:
            writer = VectorWriter(file)
            videos = self._folds.write(records, groups, writer.add)
        if not writer.num_labels:
            raise UsageError(f"--data={self._config.data}: none of the {len(videos.ids)} videos has a label to audit.")
        digests = writer.digests()
        video_copies.write_pairs(self._in_work(_PAIRS), video_copies.exact_copies(digests), digests)
        folds.write_videos(path, videos)
        return videos

    def _copies(self, videos: AuditedVideos) -> tuple[CopyPairs, NDArray[np.void]]:
        """The copies, and the digest of each video."""
        pairs, digests = video_copies.read_pairs(self._in_work(_PAIRS))
        vectors = self._in_work(_VECTORS)
        if storage.exists(vectors):
            pairs = video_copies.find_copies(VideoVectors(vectors, len(videos.ids)), digests, self._config.similarity)
            video_copies.write_pairs(self._in_work(_PAIRS), pairs, digests)
            storage.remove(vectors)
        return pairs, digests

    def _summary_of_copies(self, pairs: CopyPairs, videos: AuditedVideos, seen: Bools) -> dict[str, Any]:
        across = videos.splits[pairs.first] != videos.splits[pairs.second]
        effect = self._effect(videos, seen) if seen.any() else None
        has_training = any(map(video_copies.is_training_split, videos.split_names))
        return {
            "copies within a split": int((~across).sum()),
            "copies across splits": int(across.sum()),
            "videos of other splits that training has seen": int(seen.sum()) if has_training else "unknown",
            **({"effect on GAP": effect._asdict(), "effect in words": str(effect)} if effect else {}),
        }

    def _effect(self, videos: AuditedVideos, seen: Bools) -> LeakEffect | None:
        """The effect of the copies on the GAP of the other splits, by a model of the training split."""
        of_training = [path for path in self._files if video_copies.is_training_split(folds.split_of(path))]
        others = [path for path in self._files if path not in set(of_training)]
        indices = np.flatnonzero(~video_copies.of_training(videos))
        path = self._in_work("scores_of_splits.npz")
        if not storage.exists(path):
            logging.info("a model of the %d videos of the training split", len(videos.ids) - len(indices))
            config = self._training_on(",".join(of_training), "model_of_splits", len(videos.ids) - len(indices))
            write_scores(path, score_fold(config, others))
            self._remove("model_of_splits")
        ids = [findings.bytes_of(videos.ids[index]) for index in indices.tolist()]
        return video_copies.effect_of(read_scores(path), ids, seen[indices], self._training.data.num_classes)

    def _unscored(self) -> list[int]:
        """The folds without scores."""
        return [fold for fold in range(self._config.folds) if not storage.exists(self._scores_of(fold))]

    def _scores_of(self, fold: int) -> str:
        return self._in_work(f"scores{fold}.npz")

    def _scores(self, videos: AuditedVideos) -> Iterator[tuple[Any, FoldScores]]:
        """The indices and the scores of the videos of each fold."""
        missing = self._unscored()
        for fold in range(self._config.folds):
            indices = videos.of_fold(fold)
            if fold in missing:
                logging.info("fold %d of %d: %d videos", fold + 1, self._config.folds, len(indices))
                config = self._training_on(self._folds.others(fold), f"model{fold}", len(videos.ids) - len(indices))
                write_scores(self._scores_of(fold), score_fold(config, [self._folds.pattern(fold)]))
                self._remove(f"model{fold}")
            yield indices, read_scores(self._scores_of(fold))

    def _training_on(self, pattern: str, folder: str, videos: int) -> TrainConfig:
        """The config of a training on some shards, with so many videos, in a folder of the work area."""
        data = dataclasses.replace(self._training.data, data_pattern=pattern)
        training = dataclasses.replace(self._training, train_dir=self._in_work(folder), data=data)
        return folds.with_usual_length(training, videos, self._config.batch_size, self._config.num_epochs)

    def _write_issues(
        self, videos: AuditedVideos, scores: FoldScores, noise: LabelNoise, names: vocabulary.Vocabulary
    ) -> dict[str, Any]:
        issues = findings.find_issues(scores, noise, self._config.min_chance).first(self._config.max_issues)
        findings.write_issues(self._path(ISSUES), issues, videos.ids, names)
        num_kept = findings.write_decisions(self._path(DECISIONS), issues, videos.ids, names)
        return {
            "videos": len(videos.ids),
            "labels": len(scores.labels),
            "estimated share of wrong labels": round(noise.wrong, 4),
            "estimated share of missing labels": round(noise.missing, 4),
            "listed as wrong": int((~issues.is_missing).sum()),
            "listed as missing": int(issues.is_missing.sum()),
            "decisions kept": num_kept,
        }


def _in_words(summary: dict[str, Any], out: str) -> str:
    """What the command prints."""
    return (
        f"{summary['videos']} videos, {summary['labels']} labels: about "
        f"{summary['estimated share of wrong labels']:.1%} of the labels are wrong, and about "
        f"{summary['estimated share of missing labels']:.1%} of the true labels are missing.\n"
        f"{storage.join(out, ISSUES)} lists {summary['listed as wrong']} labels that may be wrong and "
        f"{summary['listed as missing']} that may be missing.\n"
        f"{storage.join(out, COPIES)} lists {summary['copies across splits']} pairs of copies across splits and "
        f"{summary['copies within a split']} within one{_effect_in_words(summary)}.\n"
        f"{storage.join(out, CLASSES)} lists {summary['findings on classes']} findings on classes.\n"
        f"Write yes or no into the column decision of {storage.join(out, DECISIONS)}, and rebuild the records by\n"
        f"  yt8m make-records --corrections={storage.join(out, DECISIONS)} ..."
    )


def _effect_in_words(summary: dict[str, Any]) -> str:
    return f". {summary['effect in words']}" if "effect in words" in summary else ""


def write_page(folder: str, summary: dict[str, Any], tables: dict[str, str], media: str) -> None:
    """Writes `audit.html` from the tables of an audit, worst first; without Jinja2 it only logs that there is no page.

    Args:
      folder: the folder of the audit.
      summary: the content of summary.json.
      tables: {heading: name of a CSV file in the folder}.
      media: the table of addresses of videos; empty for none.
    """
    if importlib.util.find_spec("jinja2") is None:
        logging.warning("there is no %s, because Jinja2 is not installed; the tables have all that it shows", PAGE)
        return
    path = storage.join(folder, PAGE)
    rows = {heading: read_rows(storage.join(folder, name)) for heading, name in tables.items()}
    shown = {heading: table[:_MOST] for heading, table in rows.items()}
    id_columns = {heading: _id_columns(table) for heading, table in shown.items()}
    ids = {row[name] for heading, table in shown.items() for row in table for name in id_columns[heading]}
    figures = {name: value for name, value in summary.items() if not isinstance(value, dict)}
    text = templates.render(
        "audit.html.jinja",
        figures=figures,
        numbers=_NUMBERS,
        id_columns=id_columns,
        tables=shown,
        files=tables,
        totals={heading: len(table) for heading, table in rows.items()},
        media=media_links.read(media, path, ids),
    )
    storage.write(path, text)


def _id_columns(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The columns that name videos; a table of classes has none, and its column `other` is a class."""
    return [name for name in _IDS if name in rows[0]] if rows and _IDS[0] in rows[0] else []


def read_rows(path: str) -> list[dict[str, str]]:
    """The rows of a table that an audit wrote, without the quotes for spreadsheets."""
    rows = csv.DictReader(io.StringIO(storage.read_text(path), newline=""))
    return [{name: text_of_spreadsheet(cell) for name, cell in row.items()} for row in rows]
