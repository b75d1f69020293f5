"""`yt8m predict` for arrays: the best classes of new videos whose features lie in a .npy or .npz file."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.records.film_windows import windows_for
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring import Scorer, hidden_layer
from yt8m.scoring.film_scores import score_films
from yt8m.scoring.model_input import refuse_nan_in
from yt8m.scoring.predict_config import PredictConfig, describe_classes, few_positives, show_classes, tagger_for
from yt8m.scoring.scorer import ScoredClasses, best_classes, tags
from yt8m.tables.sources import array_source

ENDINGS = (".npy", ".npz")
_IDS = ("id", "ids")  # arrays of an .npz file that have the ids of the videos, as `predict --features` writes them
_ROWS = 256  # rows that the model computes at once, so that the scores of a video do not depend on the other videos


class _Scored(NamedTuple):
    """A video with its scores, float32 [C]; `window_frames` is 0 for a video that was scored as a whole."""

    id: str
    scores: NDArray[np.float32]
    window_frames: int


def are_arrays(paths: Sequence[str]) -> bool:
    """Whether the files are arrays, by their endings."""
    arrays = [path for path in paths if path.lower().endswith(ENDINGS)]
    if arrays and len(paths) > 1:
        raise UsageError(f"{arrays[0]} has arrays, in which a row is a video: name one such file, and no other file.")
    return bool(arrays)


def run(config: PredictConfig, path: str) -> int:
    """Prints the classes of the first videos, or writes those of all to a CSV file; returns the exit status, 0.

    Raises:
      UsageError: the arrays do not fit the model, or hold NaN.
      RunError: the file is damaged, or has no video to show.
    """
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        batches = read(path, scorer)
        if config.features:
            hidden_layer.write(config.features, (scorer.hidden(batch, _ROWS) for batch in batches))
            return 0
        scored = (video for video in _score(config, scorer, batches) if config.video_id in ("", video.id))
        shown = _ShownRows(config, scorer)
        if config.csv:
            shown.write(terminal.with_bar(scored, "predicting"))
            return 0
        videos = [shown.show(video) for video in itertools.islice(scored, 1 if config.video_id else config.count)]
    if not videos:
        raise RunError(f"{path}: there is no video {config.video_id!r}: its videos are called by the numbers of rows.")
    terminal.print_json(videos)
    return 0


class _ShownRows:
    def __init__(self, config: PredictConfig, scorer: Scorer) -> None:
        self._config, self._names, self._tagger = config, scorer.shown_names, tagger_for(config, scorer)

    def _classes(self, video: _Scored) -> ScoredClasses:
        tagger = self._tagger
        return tags(video.scores, tagger) if tagger else best_classes(video.scores, self._config.top_k)

    def show(self, video: _Scored) -> dict[str, Any]:
        """Prints the classes of a video; returns the same for --json."""
        way = f"  (scored in windows of {video.window_frames} frames)" if video.window_frames else ""
        print(f"{video.id}{way}")
        best = self._classes(video)
        rows = [(f"{score:.3f}", self._names.name(index), str(index)) for index, score in best]
        show_classes(rows, [few_positives(self._tagger, index) for index, _ in best])
        return {"id": video.id, "classes": describe_classes(best, self._names, self._tagger)}

    def write(self, videos: Iterable[_Scored]) -> None:
        """Writes the classes of the videos to a CSV file."""
        with storage.write_atomic(self._config.csv, "w") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("id", "index", "name", "score"))
            for video in videos:
                for index, score in self._classes(video):
                    writer.writerow((video.id, index, self._names.name(index), f"{score:.6f}"))
        print(f"the scores are in {self._config.csv}")


def _score(config: PredictConfig, scorer: Scorer, batches: Iterable[NumpyBatch]) -> Iterator[_Scored]:
    windows = windows_for(scorer.takes.format, scorer.takes.folder, config.tags_of)
    for batch in batches:
        refuse_nan_in(batch)
        ids, scores = scorer.scores(batch, _ROWS)
        films = score_films(scorer, batch, scores, windows) if windows is not None else []
        for row, (video_id, values) in enumerate(zip(ids, scores, strict=True)):
            yield _Scored(video_id, values, windows.size if windows is not None and row in films else 0)


def read(path: str, scorer: Scorer) -> Iterator[NumpyBatch]:
    """The videos of a file in batches."""
    arrays = _arrays_in(path)
    names = list(scorer.takes.format.sizes())
    ids = next((arrays.pop(name) for name in _IDS if name in arrays and name not in names), None)
    if len(arrays) == len(names) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    if not set(names) <= set(arrays):
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items()) or "no array"
        raise UsageError(f"{path} holds {shapes}; the model takes {' and '.join(names)}: give each by its name.")
    count = len(arrays[names[0]]) if arrays[names[0]].ndim else 0
    if ids is not None and ids.shape != (count,):
        raise UsageError(f"{path}: there are {count} videos, but its ids are {list(ids.shape)}.")
    start = 0
    for batch in cast(Iterator[NumpyBatch], scorer.batches({name: arrays[name] for name in names})):
        if ids is not None:
            batch = dataclasses.replace(batch, ids=list(map(str, ids[start : start + len(batch)].tolist())))
        start += len(batch)
        yield batch


def _arrays_in(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name; that of a .npy file has none."""
    if path.lower().endswith(".npz"):
        return dict(array_source.load_arrays(path))

    def refusal(error: Exception) -> RunError:
        return RunError(f"{array_source.describe_no_array(path)} ({first_line(error)}).")

    with refusing(refusal), storage.open_read(path) as file:
        return {"": array_source.as_array(np.load(file, allow_pickle=False))}
