"""The data section of a training's config: which files are read, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yt8m.config.run_options import DamagePolicy, SamplingPolicy, SegmentPolicy, refuse_cache_of_bucket
from yt8m.errors import UsageError
from yt8m.options import option, path_option
from yt8m.records.data_format import KNOWN_SIZES as KNOWN_SIZES
from yt8m.records.data_format import MOST_CLASSES as MOST_CLASSES
from yt8m.records.data_format import usual_range, videos_in_batch


@dataclass(frozen=True)
class DataConfig(SegmentPolicy, SamplingPolicy, DamagePolicy):
    """Which data are read, and how."""

    data_pattern: str = path_option(
        "TFRecord files (A,B,...) or a folder, local or gs:// [sample data]",
        shapes="nothing",
        flag="train_data_pattern",
        aliases=("data",),
        is_common=True,
    )
    feature_names: tuple[str, ...] = option(
        ("mean_rgb", "mean_audio"),
        "features to read [all of yours; mean_rgb or rgb of YouTube-8M]",
        shapes="variables",
        follows=("frame_features",),
        is_common=True,
        is_published=True,
        is_reader_argument=True,
    )
    feature_sizes: tuple[int, ...] = option(
        (1024, 128),
        "number of values of each feature, in the same order [as in the data]",
        shapes="variables",
        follows=("frame_features", "feature_names"),
        is_common=True,
        is_published=True,
        is_reader_argument=True,
    )
    frame_features: bool = option(
        False,
        "the records hold a feature vector per frame, not only one per video",
        shapes="variables",
        is_common=True,
        is_published=True,
    )
    segment_labels: bool = option(
        False,
        "learn from the rated 5-second segments of frame records",
        shapes="input",
        needs="frame_features",
        follows=("frame_features",),
        is_common=True,
        is_published=True,
        is_reader_argument=True,
    )
    num_classes: int = option(
        3862,
        "number of classes [as many as the vocabulary has, else 3862]",
        shapes="variables",
        minimum=1,
        maximum=MOST_CLASSES,
        follows=("train_data_pattern",),
        is_common=True,
        is_reader_argument=True,
    )
    vocabulary: str = path_option(
        "CSV of the classes' names, with the columns index,name; by default vocabulary.csv beside the shards, or one "
        "or two folders above them",
        shapes="nothing",
        follows=("train_data_pattern",),
        is_compared=False,  # a comparison of runs compares the names of the classes instead
    )
    max_frames: int = option(
        300, "frames of a video that are read, from its start", shapes="graph", minimum=1, is_reader_argument=True
    )
    batch_size: int = option(1024, "examples per tower and step", shapes="input", minimum=1, is_common=True)
    num_readers: int = option(8, "files that are read in parallel", shapes="input", minimum=1, maximum=10_000)
    parse_threads: int | None = option(
        None,
        "number of batches parsed in parallel [set by the number of cores]",
        shapes="input",
        belongs_to="machine",
        minimum=1,
        maximum=10_000,
    )
    prefetch: int | None = option(
        None,
        "number of parsed batches that are kept ready for the next steps [set by the number of cores; 0 for whole "
        "videos of frames]",
        shapes="input",
        belongs_to="machine",
        minimum=0,
    )
    num_epochs: int | None = option(5, "passes over the data", shapes="input", minimum=1, is_common=True)
    # The seed of the run, `EngineConfig.seed`, is copied here. Only that option has a flag and declares what it shapes.
    seed: int = option(
        0,
        "seed of the order of examples",
        shapes="nothing",
        minimum=0,
        maximum=2**31 - 1,
        is_flag=False,
        is_compared=False,
    )
    reader: str = option(
        "",
        "your own reader, for records of another layout: one of an installed package, by name, or package.module:Class "
        "[YouTube-8M's]",
        shapes="input",
        is_code=True,
    )
    # If a run is resumed, only a change between cache and no cache counts, not another folder.
    cache: str = path_option(
        "local folder that caches parsed records for later passes over them; auto: one in --cache_dir",
        shapes="input",
        shaped_by=bool,
        belongs_to="machine",
        is_local=True,
        needs_run=True,
    )
    # The value comes from the data's manifest: () if all features have YouTube-8M's range, else one entry per feature.
    # An entry is (lowest, highest value of the range of the bytes), or () for a feature that is stored as floats.
    feature_ranges: tuple[tuple[float, ...], ...] = option(
        (),
        "ranges of features stored as bytes",
        shapes="graph",
        follows=("frame_features", "feature_names", "feature_sizes"),
        is_flag=False,
        is_reader_argument=True,
    )
    # The median and the largest number of frames of a training video, from the data's manifest; () if it has none.
    video_frames: tuple[int, ...] = option((), "lengths of the videos", shapes="nothing", is_flag=False)
    # Which videos a training does not read, because its validations do: a rule of `records.held_out`; () for none.
    held_out: tuple[int, ...] = option((), "training videos that are held out", shapes="input", is_flag=False)
    # The names of the values of the only feature, from the data's manifest; () if it was not made of a table.
    columns: tuple[str, ...] = option((), "columns of the features", shapes="nothing", is_flag=False)
    # Whether each training video has exactly one class, from the data's manifest: then the scores of a video are
    # divided by their sum, and its tag is the best class. Only a `Classifier` writes such data.
    one_class: bool = option(False, "each training video has exactly one class", shapes="nothing", is_flag=False)
    # The extractors that `yt8m extract` used, from the data's manifest; `yt8m predict` uses them again.
    extractors: tuple[Mapping[str, Any], ...] = option(
        (), "extractors of the features", shapes="nothing", is_flag=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_features(self.feature_names, self.feature_sizes, self.feature_ranges)

    def examples_in_batch(self, most: int, context: int = 0) -> int:
        """Computes the batch size of an evaluation or inference for which the user gives none.

        Args:
          most: the largest batch size; the result is smaller if `most` examples take more than 512 MiB.
        """
        segment_frames = self.segment_size + 2 * max(context, self.segment_context)
        frames = 1 if not self.frame_features else segment_frames if self.segment_labels else self.max_frames
        return videos_in_batch(frames * sum(self.feature_sizes), most)

    def check_cache(self) -> None:
        """Raises `UsageError` if the cache cannot be used together with another option."""
        if not self.cache:
            return
        flag_text = f"--cache={self.cache}"
        if self.reader:
            raise UsageError(
                f"{flag_text}: the cache does not notice changes of the code of --reader={self.reader}, and would keep "
                "records that older code parsed. Leave out one of the two flags."
            )
        refuse_cache_of_bucket(self.cache, self.data_pattern)
        level = "frame" if self.frame_features else "video"
        ranges = self.feature_ranges or [usual_range(level, name) for name in self.feature_names]
        if self.nan_policy != "refuse" and not all(ranges):  # features stored as bytes are never NaN
            raise UsageError(
                f"{flag_text} parses a record only once, so later passes could not count the values that "
                "--nan_policy=zero sets to 0. Leave out one of the two flags."
            )


def check_features(names: Sequence[str], sizes: Sequence[int], ranges: Sequence[Sequence[float]]) -> None:
    """Refuses lists of feature names, sizes and ranges that do not fit each other.

    Args:
      ranges: for each feature the (lowest, highest value) that its bytes stand for, or () if it is stored as floats.
        Empty if all features have the range of YouTube-8M.
    """
    if not names or len(names) != len(sizes):
        raise UsageError(
            f"--feature_names has {len(names)} entries ({','.join(names)}) and --feature_sizes {len(sizes)} "
            f"({','.join(map(str, sizes))}); give one size for each name, in the same order."
        )
    if len(set(names)) != len(names):
        raise UsageError(f"--feature_names={','.join(names)}: a name is given twice; name each feature once.")
    if min(sizes) < 1:
        raise UsageError(f"--feature_sizes={','.join(map(str, sizes))}: each size must be at least 1.")
    fit = all(not bounds or (len(bounds) == 2 and bounds[0] < bounds[1]) for bounds in ranges)
    if ranges and not (fit and len(ranges) == len(names)):
        raise UsageError(
            f"feature_ranges is {ranges}; expected two ascending numbers, or none, for each of the features "
            f"{','.join(names)}."
        )


def known_sizes(names: tuple[str, ...]) -> tuple[int, ...]:
    """Returns the number of values of each of the named features, which must be features of YouTube-8M."""
    for name in names:
        if name not in KNOWN_SIZES:
            raise UsageError(
                f"--feature_names={','.join(names)}: the size of {name} is not known; "
                "add --feature_sizes with one size for each name."
            )
    return tuple(KNOWN_SIZES[name] for name in names)
