"""`yt8m predict`: the best classes of a few records, of arrays, or of videos."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, terminal
from yt8m.errors import RunError, UsageError
from yt8m.extractors import video_paths
from yt8m.extractors.containers import ENDINGS
from yt8m.records import shards, thresholds, vocabulary
from yt8m.records.film_windows import windows_for
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.scoring import array_predictions, hidden_layer
from yt8m.scoring.film_scores import score_films
from yt8m.scoring.predict_config import PredictConfig, describe_classes, few_positives, show_classes, tagger_for
from yt8m.scoring.scorer import best_classes, tags


def run(config: PredictConfig, settings: Mapping[str, Any], patterns: Sequence[str]) -> int:
    """Prints the best classes of videos, or of the first records in files; returns the exit status.

    Args:
      settings: {name: value} of settings of the extractors, for videos.

    Raises:
      UsageError: there is no such model or file, the records do not fit the model, or the extractors of a video cannot
        be used.
      RunError: a record is damaged, or there is none to show.
    """
    if config.features:
        hidden_layer.refuse_format(config.features)
    if config.spans:
        from yt8m.scoring import span_predictions  # slow to import, and classes do not need it

        span_predictions.check(config)
    data = _open_files(config, patterns)
    if _are_videos(data.files):
        ids = video_paths.ids_by_path(patterns, data.files)
        if config.features:
            return hidden_layer.write_for_videos(config, settings, ids)
        if config.spans:
            return span_predictions.write_for_videos(config, settings, ids)
        from yt8m.scoring import video_predictions  # slow to import, and records do not need it

        return video_predictions.run(config, settings, ids)
    if array_predictions.are_arrays(data.files):
        _refuse_options(config, settings, "arrays")
        if config.spans:
            return span_predictions.write_for_arrays(config, data.files[0])
        return array_predictions.run(config, data.files[0])
    _refuse_options(
        config, settings, "records", ("out", config.csv), "`yt8m inference` writes the predictions for records."
    )
    if config.features:
        return hidden_layer.write_for_records(config, data)
    if config.spans:
        return span_predictions.write_for_records(config, data)
    return _show_records(config, data, ", ".join(patterns))


def _refuse_options(
    config: PredictConfig, settings: Mapping[str, Any], files: str, other: tuple[str, str] = ("", ""), remedy: str = ""
) -> None:
    """Refuses what only video files have: options, settings of extractors, and one more option, by name and value."""
    options = [("extractors", config.extractors), ("timeline", config.timeline)]
    options += [("max_bad_packets", config.max_bad_packets)]
    for name, value in (*options, other, *settings.items()):
        if value:
            raise UsageError(f"--{name} is for video files; these are {files}.{f' {remedy}' if remedy else ''}")


def _open_files(config: PredictConfig, patterns: Sequence[str]) -> OpenedData:
    """The files that the patterns name. In folders these are the videos; stderr says how many files are passed over."""
    if not video_paths.has_folder(patterns):
        return open_data(patterns, vocabulary=config.vocabulary)
    try:
        videos = video_paths.find(patterns)
    except UsageError:
        return open_data(patterns, vocabulary=config.vocabulary)  # its error names the records in the folder
    for line in video_paths.describe_passed_over(videos.passed_over):
        print(line, file=sys.stderr)
    return open_data(None, vocabulary=config.vocabulary).of_files(videos.paths)


def _are_videos(paths: Sequence[str]) -> bool:
    """Whether the files are videos, by their endings."""
    videos = [path for path in paths if path.lower().endswith(ENDINGS)]
    if videos and len(videos) < len(paths):
        other = next(path for path in paths if path not in videos)
        raise UsageError(f"{videos[0]} is a video and {other} is not: name videos only, or records only.")
    return bool(videos)


def _show_records(config: PredictConfig, data: OpenedData, where: str) -> int:
    """Prints the best classes or the tags of the first records in files; returns the exit status, 0."""
    raws = list(itertools.islice(_read_records(data.files, config.video_id), config.count))
    if not raws:
        missing = f"no video {config.video_id!r}" if config.video_id else "no record"
        raise RunError(f"{where}: there is {missing}; name other files.")
    # Parsing a few records in Python is faster than building the graph ops that would parse them.
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="parsed records"
    ) as scorer:
        names, tagger = scorer.names_for(data), tagger_for(config, scorer)
        batch = scorer.batch_of(raws, scorer.records(data, len(raws)))
        _, scores = scorer.scores(batch)
        film_windows = windows_for(scorer.takes.format, scorer.takes.folder, config.tags_of)
        films: list[int] = []
        if film_windows is not None and isinstance(batch, NumpyBatch):
            films = score_films(scorer, batch, scores, film_windows)
        videos = []
        for row, (payload, _, _) in enumerate(raws):
            if row:
                print()
            window_frames = film_windows.size if film_windows is not None and row in films else 0
            videos.append(_print_record(payload, scores[row], window_frames, config.top_k, names, tagger))
        terminal.print_json(videos)
    return 0


def _read_records(files: Sequence[str], video_id: str) -> Iterator[Raw]:
    """Yields the serialized records of the files; if `video_id` is not empty, only those of this video."""
    id_of_video = shards.id_bytes(os.fsencode(video_id))
    for path in files:
        for number, (payload, record) in enumerate(shards.read_contexts(path)):
            if not id_of_video or record.id() == id_of_video:
                yield payload, path, number


def _print_record(
    payload: bytes,
    scores: NDArray[np.float32],
    window_frames: int,
    top_k: int,
    names: vocabulary.Vocabulary,
    tagger: thresholds.Tagger | None,
) -> dict[str, Any]:
    """Prints the id and the labels of a record, and a table of its tags, or without a tagger of its best classes.

    A star marks the classes that are labels of the record. Returns the same for --json.

    Args:
      scores: the scores of the record, float32 [C].
      window_frames: the length of the windows of a film; 0 for a video that was scored as a whole.
      tagger: the thresholds of the classes; None to show the best classes.
    """
    record = shards.parse(payload, with_lists=False)
    feature = record.context.get("labels")
    labels = sorted({int(value) for value in feature.values()} if feature else ())
    way = f"  (scored in windows of {window_frames} frames)" if window_frames else ""
    print(f"{shards.id_text(record.id())}  labels: {', '.join(map(names.name, labels)) or 'none given'}{way}")
    best = tags(scores, tagger) if tagger else best_classes(scores, top_k)
    rows = [(f"{score:.3f}", "*" if c in labels else "", names.name(c), str(c)) for c, score in best]
    show_classes(rows, [few_positives(tagger, index) for index, _ in best])
    classes = describe_classes(best, names, tagger)
    facts = {"id": shards.id_text(record.id()), "labels": list(map(names.name, labels))}
    return facts | ({"window_frames": window_frames} if window_frames else {}) | {"classes": classes}
