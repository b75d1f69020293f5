"""Extracts the features of a few videos without writing a data set: for `yt8m.extract`, and as input of models."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import cores, extractors, options, plug_ins, registry, storage
from yt8m.datasets.extract import choose, weights
from yt8m.datasets.extract.computing import (
    ChosenExtractor,
    Clip,
    Computer,
    LocatedExtractor,
    Settings,
    describe_extractors,
    entry_of,
    locate,
)
from yt8m.datasets.extract.computing import Features as Features
from yt8m.errors import UsageError
from yt8m.extractors import sampling_rules
from yt8m.extractors.containers import ENDINGS
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.records import data_format
from yt8m.records.film_windows import Part
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.model_input import ModelInput
from yt8m.types import Closing

Entry = Mapping[str, Any]  # an extractor as a data manifest describes it: its name, settings, feature and weights

_MOST_FRAMES = 100_000  # of a longer video only this number of frames, from its start, is scored
# Time limit for decoding a video that is scored. It is longer than that of `Limits`, because the video may last hours.
_DECODING_SECONDS = 7200.0


class VideoFeatures(Closing):
    """Extracts the features of videos. Use it in a `with` block.

    Args:
      is_scored: whether videos are to be scored in windows. Then the features of whole videos are extracted, of at
        most `most_frames` frames; otherwise only those of the first `max_frames` frames.
      decoding_seconds: time limit for decoding a video that is scored.

    Attributes:
      entries: the extractors, as a data manifest describes them.
      per_second: number of frames a second.
      max_frames: the largest number of frames of a record of the training data, according to the entries.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        located: Sequence[LocatedExtractor],
        jobs: int = 1,
        *,
        is_scored: bool = False,
        max_bad_packets: int = 0,
        most_frames: int = _MOST_FRAMES,
        decoding_seconds: float = _DECODING_SECONDS,
    ) -> None:
        self.entries = entries
        self.per_second, self.max_frames = float(entries[0]["frames_per_second"]), int(entries[0]["max_frames"])
        most, rule = most_frames if is_scored else self.max_frames, sampling_rules.rule_of_entry(entries[0])
        settings = Settings(self.per_second, most, rule=rule, max_bad_packets=max_bad_packets)
        self._computer = Computer(located, settings, is_new=not is_scored)
        self._pool = DecoderPool(jobs, Limits(decoding_seconds) if is_scored else Limits())

    def close(self) -> None:
        """Ends the processes that decode, and closes the extractors."""
        self._pool.close()
        self._computer.close()

    def extract_features(self, paths: Sequence[str]) -> Iterator[tuple[str, Features]]:
        """Yields (path, features) of each video: float32 [T, size] for each extractor, rounded like values in records.

        If a video cannot be decoded, the attribute `bad` of its features says why, and `arrays` is empty.
        """
        clips = [Clip(path) for path in paths]
        threads = cores.usable()
        for path, features in zip(paths, self._computer.features(clips, self._pool, threads), strict=True):
            pairs = zip(self.entries, features.arrays, strict=not features.bad)
            yield path, features._replace(arrays=[_round_as_stored(values, entry["range"]) for entry, values in pairs])

    def batch(self, takes: ModelInput, arrays: Sequence[NDArray[np.float32]], windows: Sequence[Part]) -> NumpyBatch:
        """Makes a batch out of parts of a video, one row for each part.

        Args:
          arrays: the features of the video, float32 [T, size] for each extractor.
        """
        features = self._of_model(takes, arrays)
        return takes.batch_of_frames(
            [np.concatenate([values[first:last] for values in features], axis=-1) for first, last in windows]
        )

    def joined(self, takes: ModelInput, arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """The features of a video side by side in the order of the model, float32 [T, D]; `arrays` as for `batch`."""
        return np.concatenate(self._of_model(takes, arrays), axis=-1)

    def _of_model(self, takes: ModelInput, arrays: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        by_name = {
            f"{prefix}{entry['feature']}": values
            for entry, values in zip(self.entries, arrays, strict=True)
            for prefix in ("", "mean_")
        }
        return [by_name[name] for name in takes.format.sizes()]


def _round_as_stored(values: NDArray[np.float32], bounds: Sequence[float] | None) -> NDArray[np.float32]:
    """Rounds and clips values to those that a reader gets from records.

    Args:
      values: the features of the frames, float32 [T, size].
      bounds: the lowest and the highest value that a byte can stand for; None or empty if records store floats, which
        are not rounded.
    """
    if not bounds:
        return values
    low, high = map(float, bounds)
    return data_format.dequantized(data_format.quantized(values, (low, high)), (low, high))


def video_paths_in(data: Any) -> list[str]:
    """The paths, if the data are a video file or a list of them; else none."""
    items = [data] if isinstance(data, str | os.PathLike) else data if isinstance(data, list | tuple) else []
    paths = [os.fspath(item) for item in items if isinstance(item, str | os.PathLike)]
    videos = [path for path in paths if path.lower().endswith(ENDINGS)]
    if videos and len(videos) < len(items):
        raise UsageError(f"{videos[0]} is a video, and others are not: give videos only, or other data.")
    return videos


def for_model(
    takes: ModelInput,
    flags: Mapping[str, Any],
    names: Sequence[str] = (),
    *,
    trust_code: bool = False,
    max_bad_packets: int = 0,
    most_frames: int = _MOST_FRAMES,
    decoding_seconds: float = _DECODING_SECONDS,
) -> VideoFeatures:
    """Opens the extraction of features for a model that is to score videos.

    Without `names`, it uses exactly the extractors that made the model's training data, with the same weights.

    Args:
      flags: {name: value} of settings of the extractors and of paths of their weights; they take precedence over those
        that the model names.
    """
    if names or not takes.extractors:
        entries, located = _choose_by_name(takes, names, flags)
    else:
        entries = _match_entries(takes, takes.extractors)
        refuse_code(takes.folder, entries, flags, is_trusted=trust_code or takes.is_own)
        located = locate(_recreate_extractor(takes, entry, flags) for entry in entries)
        for entry, extractor in zip(entries, located, strict=True):
            refuse_other_weights(takes.folder, entry, extractor.weights)
    return VideoFeatures(
        *(entries, located),
        is_scored=True,
        max_bad_packets=max_bad_packets,
        most_frames=most_frames,
        decoding_seconds=decoding_seconds,
    )


def _choose_by_name(
    takes: ModelInput, names: Sequence[str], flags: Mapping[str, Any]
) -> tuple[Sequence[Entry], list[LocatedExtractor]]:
    """Opens the extractors that the user names; the arguments and errors are those of `for_model`."""
    if not names:
        raise UsageError(
            f"{takes.folder} does not say which extractors made {', '.join(takes.format.sizes())}, because its records "
            "are not from `yt8m extract`. Name them by --extractors, such as inception,vggish for features of "
            "YouTube-8M."
        )
    located = locate(choose(names, flags))
    settings = Settings(rule=_usual_rule(located))
    entries = describe_extractors(located, [each.extractor.bytes_range for each in located], settings)
    _match_entries(takes, entries)
    return entries, located


def _usual_rule(located: Sequence[LocatedExtractor]) -> str:
    """The newest rule by which these extractors make rows together."""
    return sampling_rules.rule_of(sampling_rules.NEWEST, [each.extractor.sampling for each in located])


def _match_entries(takes: ModelInput, entries: Sequence[Entry]) -> list[Entry]:
    """Selects the entries of the extractors whose features the model takes, in the order of the model's features."""
    matching_entries = []
    for name in takes.format.sizes():
        match = entry_of(name, entries)
        if match is None:
            computed = ", ".join(str(entry["feature"]) for entry in entries)
            raise UsageError(
                f"{takes.folder} takes the feature {name}, but the extractors compute only {computed}. Name extractors "
                "that compute all features of the model by --extractors."
            )
        matching_entries.append(match)
    return matching_entries


def _recreate_extractor(takes: ModelInput, entry: Entry, flags: Mapping[str, Any]) -> ChosenExtractor:
    """Creates the extractor that an entry describes."""
    name = str(entry["name"])
    plug_ins.expect({f"extractor {name.partition(':')[0]}": entry.get("package")}, takes.folder)
    flags = {**_path_near(entry, takes.folder), **flags}
    extractor = extractors.create(name, entry["settings"])
    changeable = {key for key in flags if key in extractor.weight_files() or key in extractor.free_settings}
    for key in (flags.keys() & entry["settings"].keys()) - changeable:
        if flags[key] != options.with_tuples(entry["settings"][key]):
            raise UsageError(
                f"{takes.folder} was trained on features of {name} with --{key}={entry['settings'][key]}, not "
                f"{flags[key]}. Leave --{key} out."
            )
    settings = {**entry["settings"], **{key: flags[key] for key in changeable}}
    return ChosenExtractor(name, extractors.create(name, settings))


# Extractors whose name holds the path of their weights, after a colon, and the setting that replaces that path.
_PATHS = {"onnx": "onnx_file", "saved_model": "saved_model_dir"}


def _path_near(entry: Entry, folder: str) -> dict[str, str]:
    """{setting: path} of weights whose relative path is not here, but in the folder of the run or above it.

    So they are found from any current folder, if they were not moved away from the run; their sha256 is compared.
    """
    kind, _, path = str(entry["name"]).partition(":")
    setting = _PATHS.get(kind, "")
    if not setting or storage.is_remote(path) or os.path.isabs(path) or os.path.exists(path):
        return {}
    start = pathlib.Path(os.path.abspath(folder))
    places = (root / path for root in (start, *start.parents))
    return next(({setting: str(place)} for place in places if place.exists()), {})


def refuse_code(folder: str, entries: Sequence[Entry], flags: Mapping[str, Any], *, is_trusted: bool) -> None:
    """Refuses extractors that are SavedModels or networks with code of their own, if the run is not trusted.

    Args:
      flags: {name: value} of the flags that the user gave. A SavedModel that `saved_model_dir` names is not refused,
        because the user chose it.
    """
    registry.set_trust(registry.names_of_code(list(entries)), folder, is_trusted=is_trusted)
    for entry in () if is_trusted else entries:
        is_saved_model = str(entry["name"]).startswith("saved_model:") and "saved_model_dir" not in flags
        if is_saved_model or entry["settings"].get("trust_code"):
            kind = "a SavedModel" if is_saved_model else "a network with code of its own"
            raise UsageError(
                f"{folder} names {kind}, {entry['name']}, which can execute code here, and this is not "
                "known as a run that you trained on this machine. If you trust it, add --trust_code."
            )


def refuse_other_weights(folder: str, entry: Entry, own_weights: weights.Weights) -> None:
    """Raises `UsageError` if weights differ, by their sha256, from those that made the training data.

    Args:
      entry: the extractor, as the manifest of the training data describes it, with the sha256 of each file.
    """
    for field, expected in entry["weights"].items():
        if own_weights.sha256.get(field) != expected:
            raise UsageError(
                f"{folder} was trained on features of {entry['name']} whose {field} has the sha256 {expected}; "
                f"{own_weights.paths.get(field)} has {own_weights.sha256.get(field)}. Give the same file by "
                f"--{field}=PATH."
            )


def extract(
    paths: Sequence[str], names: Sequence[str], flags: Mapping[str, Any], settings: Settings, jobs: int
) -> Iterator[tuple[str, Features, list[str]]]:
    """Yields (path of a video, its features, the names of the features); the values are not rounded to bytes.

    Args:
      flags: {name: value} of settings of the extractors and of paths of their weights.
      settings: frames per second, and the largest number of frames of a video.
    """
    with open_new(names, flags, settings, jobs) as source:
        for path, features in source.extract_features(paths):
            yield path, features, [str(entry["feature"]) for entry in source.entries]


def open_new(names: Sequence[str], flags: Mapping[str, Any], settings: Settings, jobs: int) -> VideoFeatures:
    """Opens an extraction of features that are not rounded to bytes, by extractors that the user names.

    The arguments are those of `extract`.
    """
    located = locate(choose(names, flags))
    entries = describe_extractors(located, [None for _ in located], settings._replace(rule=_usual_rule(located)))
    return VideoFeatures(entries, located, jobs=jobs, max_bad_packets=settings.max_bad_packets)
