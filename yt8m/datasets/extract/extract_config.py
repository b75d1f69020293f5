"""The options of `yt8m extract`, and the version of its rules: records that exist keep theirs."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import Any

from yt8m import cores, storage
from yt8m.datasets.make_records.classes import DataSetFlags
from yt8m.errors import UsageError
from yt8m.extractors import sampling_rules
from yt8m.options import option, path_option
from yt8m.records import manifest
from yt8m.records.data_format import LEVELS
from yt8m.registry import reserve_flags


@dataclass(frozen=True)
class ExtractConfig(DataSetFlags):
    """The flags of `yt8m extract`."""

    _: KW_ONLY
    videos: str = path_option(
        "table with the column path, and perhaps id, labels, split, start and end; or a pattern of video files, or a "
        "folder of them",
        is_required=True,
    )
    extractors: tuple[str, ...] = option(
        ("inception", "vggish"),
        "inception, vggish, onnx:FILE, saved_model:DIR, one of an installed package, by name, or package.module:Class "
        "of your own",
        is_required=True,
        is_code=True,
    )
    level: tuple[str, ...] = option(
        ("frame", "video"), "frame stores all frames, video their mean; or both", shapes="nothing", is_required=True
    )
    labels: str = option(
        "column",
        "where the labels are: in the column labels of the table, or in the name of each video's folder",
        choices=("column", "folder"),
    )
    frames_per_second: float = option(1.0, "frames that are taken per second", minimum=1e-3, maximum=1000)
    ranges: tuple[str, ...] = option(
        (),
        "LOW:HIGH, the range of values that the bytes of frames represent, for each extractor; or learned, from the "
        "training videos; floats, which stores no bytes; usual, the extractor's own [usual: -2:2 for inception and "
        "vggish, floats for all others]",
    )
    rules: int = option(
        0,
        "version of the rules of ids, rows and times: 3, or 2 or 1 for those of earlier versions of yt8m [that of the "
        "records in --out, else 3]",
        shapes="nothing",
        minimum=0,
        maximum=sampling_rules.NEWEST,
    )
    max_bad_packets: int = option(
        0, "number of damaged packets of a video that may be left out", shapes="nothing", minimum=0
    )
    max_bad_videos: int | None = option(
        None, "number of videos with bad files that may be left out [a tenth of all]", shapes="nothing", minimum=0
    )
    batch_size: int = option(32, "pictures or windows of sound that an extractor computes at once", minimum=1)
    jobs: int = option(
        0, "number of processes that decode videos [one per CPU core]", shapes="nothing", minimum=0, maximum=256
    )
    decode_seconds: float = option(
        600.0, "seconds after which the decoding of a video is given up", shapes="nothing", minimum=1e-3
    )
    decode_memory: int = option(
        4096, "address space in MB that the decoding of a video may take", shapes="nothing", minimum=64
    )
    fetch_weights: bool = option(False, "only fetch the weights of the extractors into the cache, and check them")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch_weights and self.json:
            raise UsageError("--json prints what was made, but --fetch_weights makes no records: leave out --json.")
        for level in self.level:
            if level not in LEVELS or self.level.count(level) > 1:
                raise UsageError(f"--level={','.join(self.level)}: expected frame, video, or frame,video.")

    def is_required(self, field: dataclasses.Field[Any]) -> bool:
        """With --fetch_weights, only --extractors is required."""
        return super().is_required(field) and (field.name == "extractors" or not self.fetch_weights)

    @property
    def processes(self) -> int:
        """Number of processes that decode videos."""
        return self.jobs or cores.usable()


reserve_flags("extraction", ExtractConfig)


def choose_rules(config: ExtractConfig) -> int:
    """The version of the rules: `config.rules`, or else that of the records in `config.out`, or else the newest."""
    made = {level: version for level in LEVELS if (version := _version_at(config.out, level))}
    staying = {level: version for level, version in made.items() if not (config.overwrite and level in config.level)}
    for level, version in staying.items():
        if config.rules not in (0, version):
            raise UsageError(
                f"--rules={config.rules}: {storage.join(config.out, level)} was made by version {version} of the rules "
                "of ids, rows and times, and a data set has one. Leave out --rules, or name another folder as --out."
            )
    return config.rules or next(iter({**made, **staying}.values()), sampling_rules.NEWEST)


def _version_at(out: str, level: str) -> int:
    """The version by which the records of a level were made; 0 if there are none."""
    for path in storage.glob_in(storage.join(out, level), "*", manifest.NAME):
        for entry in manifest.read(path).extractors:
            return sampling_rules.version_of(sampling_rules.rule_of_entry(entry))
    return 0
