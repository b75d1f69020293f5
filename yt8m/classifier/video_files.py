"""The paths of videos as X: their features, and their scores."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from yt8m import cores, registry, storage
from yt8m.classifier.given_videos import GivenVideos
from yt8m.datasets.extract.computing import Settings
from yt8m.errors import RunError
from yt8m.python_api.call_scope import call_scope
from yt8m.python_api.data_errors import DataError
from yt8m.records.span_files import FoundSpan
from yt8m.scoring import span_finder, video_features, video_predictions
from yt8m.scoring.film_spans import Joining

if TYPE_CHECKING:
    from yt8m.python_api.loaded_model import Model


def extract(
    paths: Sequence[str], names: Sequence[str], settings: Mapping[str, Any]
) -> tuple[GivenVideos, list[Mapping[str, Any]]]:
    """The features of the frames of videos, and the extractors as a manifest describes them."""
    if not names:
        raise DataError(
            f"X has paths, such as {paths[0]!r}: name the extractors of their features, such as "
            'Classifier(extractors=("inception", "vggish")).'
        )
    paths = [storage.expanded(path) for path in paths]
    for row, path in enumerate(paths):  # before weights are fetched
        if not storage.exists(path):
            raise DataError(f"X[{row}] is {path!r}: there is no such file.")
    frames: list[Sequence[NDArray[np.float32]]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(call_scope())
        registry.set_command_line_names(names)
        source = stack.enter_context(video_features.open_new(names, settings, Settings(), cores.usable()))
        for path, features in source.extract_features(paths):
            if features.bad:
                raise RunError(f"{path}: {features.bad}.")
            frames.append(features.arrays)
        described = [str(entry["feature"]) for entry in source.entries]
        by_name = {name: [arrays[number] for arrays in frames] for number, name in enumerate(described)}
        return GivenVideos(by_name), list(source.entries)


def scores(model: Model, paths: Sequence[str], settings: Mapping[str, Any]) -> NDArray[np.float32]:
    """The scores of videos, float32 [N, C], by the extractors of the training; films are scored in windows."""
    paths, rows = [storage.expanded(path) for path in paths], []
    scorer = model._scorer
    with call_scope(), video_features.for_model(scorer.takes, settings, trust_code=True) as source:
        for scored in video_predictions.predict(scorer, source, paths):
            if scored.bad:
                raise RunError(f"{scored.path}: {scored.bad}.")
            rows.append(scored.scores)
    return np.stack(rows)


def spans(
    model: Model, paths: Sequence[str], settings: Mapping[str, Any], joining: Joining
) -> list[Sequence[FoundSpan]]:
    """The spans of each video, in seconds, by the extractors of the training."""
    paths, scorer = [storage.expanded(path) for path in paths], model._scorer
    with call_scope(), video_features.for_model(scorer.takes, settings, trust_code=True) as source:
        joining = joining._replace(per_second=source.per_second)
        return [video.spans for video in span_finder.in_videos(scorer, joining, source, paths)]
