"""`yt8m extract`: makes records from the user's own video files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from yt8m import extractors
from yt8m.datasets.extract import weights
from yt8m.datasets.extract.computing import Chosen
from yt8m.datasets.extract.data_set import Extraction
from yt8m.datasets.make_records import DataSetFlags
from yt8m.errors import UsageError
from yt8m.options import about_flags, option
from yt8m.records.data_format import LEVELS
from yt8m.registry import refuse_two_meanings, reserve_flags


@dataclass(frozen=True)
class ExtractConfig(DataSetFlags):
    """The flags of `yt8m extract`."""

    _: KW_ONLY
    videos: str = option(
        "",
        "table (.csv, .parquet) with the column path, and perhaps id, labels, split, start and end; or a pattern "
        "of video files, or a folder of them",
        is_required=True,
        is_path=True,
    )
    extractors: tuple[str, ...] = option(
        ("inception", "vggish"),
        "inception, vggish, onnx:FILE, saved_model:DIR, or package.module:Class of your own",
        is_required=True,
        is_code=True,
    )
    level: tuple[str, ...] = option(
        ("frame", "video"), "frame keeps all frames, video their mean; or both", shapes="nothing", is_required=True
    )
    labels: str = option(
        "column",
        "where labels are: in the column of the table, or the name of each video's folder",
        choices=("column", "folder"),
    )
    frames_per_second: float = option(1.0, "frames that are taken of a second", minimum=1e-3, maximum=1000)
    ranges: tuple[str, ...] = option(
        (),
        "values that the bytes of frames cover, LOW:HIGH for each extractor, or one of: learned, those of the "
        "training videos; floats, no bytes; usual, what the extractor says [usual: -2:2 of inception and vggish, "
        "floats of all others]",
    )
    max_bad_videos: int | None = option(
        None, "videos that may be left out because their files are bad [a tenth of them]", shapes="nothing", minimum=0
    )
    batch_size: int = option(32, "pictures or windows of sound that an extractor computes at once", minimum=1)
    jobs: int = option(
        0, "processes that decode videos [as many as there are cores]", shapes="nothing", minimum=0, maximum=256
    )
    decode_seconds: float = option(
        600.0, "time after which the decoding of a video is given up", shapes="nothing", minimum=1e-3
    )
    decode_memory: int = option(
        4096, "address space in MB that the decoding of a video may take", shapes="nothing", minimum=64
    )
    fetch_weights: bool = option(False, "only fetch the weights of the extractors into the cache, and check them")

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.level:
            if level not in LEVELS or self.level.count(level) > 1:
                raise UsageError(f"--level={','.join(self.level)}: expected frame, video, or frame,video.")

    def is_required(self, field: dataclasses.Field[Any]) -> bool:
        """To fetch weights, only the extractors must be named."""
        return super().is_required(field) and (field.name == "extractors" or not self.fetch_weights)

    @property
    def processes(self) -> int:
        """Number of processes that decode."""
        return self.jobs or os.cpu_count() or 1


reserve_flags("extraction", ExtractConfig)


def run(config: ExtractConfig, settings: Mapping[str, Any]) -> int:
    """Makes the records, or only fetches the weights; returns the exit status.

    Args:
      config: the flags.
      settings: those of the extractors.

    Raises:
      UsageError, RunError: for the reasons of `choose`, `make` and `weights.find`.
    """
    chosen = choose(config.extractors, settings)
    if config.fetch_weights:
        for name, extractor in chosen:
            files = weights.find(extractor, name)
            for field, path in files.paths.items():
                print(f"{name} {field}: {path}, sha256 {files.sha256[field]}")
    else:
        make(config, chosen)
    return 0


def make(config: ExtractConfig, chosen: Sequence[Chosen]) -> dict[str, Any]:
    """Extracts the features and writes the records; returns {level: content of summary.json}.

    Raises:
      UsageError, RunError: the videos or the table cannot be used, or too many videos are bad.
      Locked: another process is making records in the same folder.
    """
    return Extraction(config, chosen).run()


def choose(names: Sequence[str], flags: Mapping[str, Any]) -> list[Chosen]:
    """The extractors of these names; each gets those of the given settings that it has.

    Raises:
      UsageError: there is no such extractor, none has a given setting, a setting would have no effect, two compute
        features of one name, or two have settings of one name with two meanings.
    """
    kinds = {name: extractors.kind_of(name)[0] for name in names}
    refuse_two_meanings(kinds)
    fields = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in kinds.items()}
    for setting, value in flags.items():
        if not any(setting in of_one for of_one in fields.values()):
            raise UsageError(f"--{setting}={value}: none of the extractors {', '.join(names)} has such a setting.")
    with about_flags():
        chosen = [
            Chosen(name, extractors.create(name, {key: value for key, value in flags.items() if key in fields[name]}))
            for name in kinds
        ]
        for choice in chosen:
            choice.extractor.refuse_unused()
    features = [choice.extractor.feature for choice in chosen]
    for feature in features:
        if features.count(feature) > 1 or len(kinds) < len(names):
            raise UsageError(
                f"--extractors={','.join(names)}: two of them compute a feature {feature!r}. Name each extractor once. "
                "A file or a folder gives its name to its feature: rename it. Give classes of your own other names."
            )
    return chosen
