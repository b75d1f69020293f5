"""`yt8m sample-data`: writes small generated data sets in the formats of YouTube-8M, for first steps and tests."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress

from yt8m import options, storage
from yt8m.datasets.sample_data import synthetic_videos
from yt8m.datasets.sample_data.synthetic_videos import AUDIO, RGB, SEGMENT, Video
from yt8m.errors import UsageError
from yt8m.options import option, path_option
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.data_format import PUBLISHED
from yt8m.records.vocabulary import Vocabulary
from yt8m.terminal import is_terminal

LEVELS = ("video", "frame", "segment")
SPLITS = ("train", "validate", "test")
# {level: number of videos of each split}. At video level, a few seconds of training reach a GAP (global average
# precision) above 0.5. There are fewer videos at the other levels, because the frames of a video take 240 kB.
_DEFAULT_SIZES = {"video": (5000, 1000, 500), "frame": (1000, 200, 100), "segment": (1000, 200, 100)}
_MOST_VIDEOS = 4_000_000  # per split; ids have four characters, like the real ones, so at most 62**4 videos can differ
# Increase this whenever the bytes that a config generates change, so that old cached data are not used.
EDITION = 4


def run(config: SampleConfig) -> int:
    """Writes the data set, and prints a command that trains on it; returns the exit status.

    Raises:
      UsageError, RunError: see `generate`.
    """
    generate(config)
    level = config.levels()[0]
    pattern = shlex.quote(storage.pattern_in(storage.join(config.out, level, "train"), "*.tfrecord"))
    example = "--feature_names=mean_rgb,mean_audio --model=LogisticModel --batch_size=256"
    if level != "video":
        segments = " --segment_labels" if level == "segment" else ""
        frame_flags = f"--frame_features{segments} --feature_names=rgb,audio"
        example = f"{frame_flags} --model=FrameLevelLogisticModel --batch_size=32"
    print(f"Wrote generated sample data (no YouTube-8M videos) into {config.out}.")
    if config.sizes(level)["train"]:
        print(f"Train on it by\n  yt8m train --train_data_pattern={pattern} --train_dir=runs/sample {example}")
    return 0


@dataclass(frozen=True)
class SampleConfig(options.Checked):
    """The flags of `yt8m sample-data`. A larger number of videos adds videos, but does not change the earlier ones."""

    out: str = path_option(
        "folder to write into; it gets shards <level>/<split>/<split>NNNN.tfrecord",
        aliases=("out_dir",),
        is_required=True,
    )
    level: str = option("video", "format of the records, or all three formats", choices=(*LEVELS, "all"))
    train: int | None = option(
        None, "number of training videos [5000; 1000 at frame and segment level]", minimum=0, maximum=_MOST_VIDEOS
    )
    validate: int | None = option(None, "number of validation videos [1000; 200]", minimum=0, maximum=_MOST_VIDEOS)
    test: int | None = option(
        None, "number of test videos, which have no labels [500; 100]", minimum=0, maximum=_MOST_VIDEOS
    )
    num_classes: int = option(3862, "number of classes; they are the first of YouTube-8M", minimum=1, maximum=3862)
    seed: int = option(0, "another seed gives other videos of the same classes", minimum=0)
    shards: int = option(8, "number of files per split", minimum=1, maximum=10_000)
    min_frames: int = option(120, "frames of the shortest video", minimum=10, maximum=10_000)
    max_frames: int = option(300, "frames of the longest video", minimum=10, maximum=10_000)
    temporal: bool = option(
        False, "make classes that only the order of frames or single frames show; no effect on segments"
    )
    noise: float = option(
        synthetic_videos.NOISE, "standard deviation of the noise in a feature of a frame", minimum=0, maximum=4
    )
    event_frames: int = option(
        0,
        "at segment level: number of frames that a class shows at a time, from any frame on; 0: in whole segments",
        minimum=0,
        maximum=10_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_frames > self.max_frames:
            raise UsageError(
                f"--min_frames={self.min_frames} is more than --max_frames={self.max_frames}; "
                "give --min_frames the smaller number."
            )

    def levels(self) -> tuple[str, ...]:
        """The levels to write."""
        return LEVELS if self.level == "all" else (self.level,)

    def sizes(self, level: str) -> dict[str, int]:
        """{split: number of videos} at a level: the user's numbers, or else the default ones of the level."""
        requested = (self.train, self.validate, self.test)
        defaults = zip(SPLITS, requested, _DEFAULT_SIZES[level], strict=True)
        return {split: default if size is None else size for split, size, default in defaults}


def generate(config: SampleConfig) -> None:
    """Writes the vocabulary and the shards that `config` describes, and a manifest for each folder.

    Each file appears only when it is complete.
    """
    splits_to_write = []
    for level in config.levels():
        for split, count in config.sizes(level).items():
            folder = storage.join(config.out, level, split)
            names = (f"{split}{number:04d}.tfrecord" for number in range(min(config.shards, count)))
            paths = [storage.join(folder, name) for name in names]
            other_shards = sorted(set(storage.glob_in(folder, "*.tfrecord")) - set(paths))
            if other_shards:
                raise UsageError(
                    f"{other_shards[0]} already exists and would be mixed with the new records; name another --out"
                )
            splits_to_write.append((level, split, count, paths))
    _write_vocabulary(storage.join(config.out, vocabulary.NAME), config.num_classes)
    for level, split, count, paths in splits_to_write:
        written: dict[str, manifest.Shard] = {}
        with _show_progress(f"{level} {split}: {count} sample videos", count) as advance:
            records = _generate_records(config, level, split, count, advance)
            for number, path in enumerate(paths):
                count_in_shard = (number + 1) * count // len(paths) - number * count // len(paths)
                written[path] = manifest.write_shard(path, itertools.islice(records, count_in_shard))
        if written:
            manifest_path = storage.join(config.out, level, split, manifest.NAME)
            manifest.write(manifest_path, written, _data_format(config, level, has_labels=split != "test"))


def _data_format(config: SampleConfig, level: str, has_labels: bool) -> manifest.DataFormat:
    """The format of the records of a level, for the manifest."""
    if level == "video":
        features = manifest.FeatureFormat("mean_rgb", RGB), manifest.FeatureFormat("mean_audio", AUDIO)
        return manifest.DataFormat(level, features, num_classes=config.num_classes)
    features = manifest.FeatureFormat("rgb", RGB, PUBLISHED), manifest.FeatureFormat("audio", AUDIO, PUBLISHED)
    has_segments = level == "segment" and has_labels
    return manifest.DataFormat("frame", features, has_segments, config.num_classes, config.max_frames)


def _write_vocabulary(path: str, num_classes: int) -> None:
    """Writes the first `num_classes` classes of YouTube-8M as vocabulary.csv."""
    if storage.exists(path) and not vocabulary.read(path).is_youtube8m:
        raise UsageError(f"{path} already exists and has other classes than YouTube-8M's; name another --out")
    youtube8m = vocabulary.load()
    columns = (youtube8m.names[:num_classes], youtube8m.counts[:num_classes], youtube8m.verticals[:num_classes])
    vocabulary.write(path, Vocabulary(*columns))


@contextlib.contextmanager
def _show_progress(text: str, total: int) -> Iterator[Callable[[], None]]:
    """Shows a progress bar on a terminal, else one line of text, on stderr, because stdout may be piped.

    Yields a function; each call moves the bar by one of `total` steps.
    """
    if not is_terminal(sys.stderr):
        print(text, file=sys.stderr, flush=True)
        yield lambda: None
        return
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(text, total=total)
        yield lambda: bar.advance(task)


def _generate_records(
    config: SampleConfig, level: str, split: str, count: int, advance: Callable[[], None]
) -> Iterator[bytes]:
    """Yields the serialized records of the videos of a split."""
    videos = synthetic_videos.videos(
        config.seed,
        SPLITS.index(split),
        count,
        config.num_classes,
        segments=level == "segment",
        lengths=(config.min_frames, config.max_frames),
        noise=config.noise,
    )
    for video in videos:
        yield _encode_video(video, level, config, is_labelled=split != "test")
        advance()


def _encode_video(video: Video, level: str, config: SampleConfig, is_labelled: bool) -> bytes:
    """Generates the features of a video, and serializes the video as a record of the level."""
    context = {"id": shards.bytes_feature(video.id)}
    if is_labelled:
        context["labels"] = shards.int64_feature(video.labels)
    if level == "video":
        mean = synthetic_videos.mean_features(video, config.temporal)
        context["mean_rgb"] = shards.float_feature(mean[:RGB])
        context["mean_audio"] = shards.float_feature(mean[RGB:])
        return shards.example(context)
    if level == "frame":
        frames = synthetic_videos.frames(video, temporal=config.temporal)
    else:
        activity = synthetic_videos.activity(video, config.event_frames)
        frames = synthetic_videos.segment_frames(video, activity, config.num_classes)
        if is_labelled:
            shown = synthetic_videos.shown_in_segments(activity)
            starts, classes, scores = synthetic_videos.ratings(video, shown, config.num_classes).T
            context["segment_start_times"] = shards.int64_feature(starts)
            context["segment_end_times"] = shards.int64_feature(starts + SEGMENT)
            context["segment_labels"] = shards.int64_feature(classes)
            context["segment_scores"] = shards.float_feature(scores)
    lists = {"rgb": shards.frame_features(frames[:, :RGB]), "audio": shards.frame_features(frames[:, RGB:])}
    return shards.sequence_example(context, lists)


_CACHE_PREFIX = "yt8m/sample-data-"  # in the user's cache folder: sample data that were generated for want of others
# Such a folder, of any edition and of any user: its name ends in edition, level and numbers, see `cached_sample_data`.
_CACHED = re.compile(rf"/{_CACHE_PREFIX}\d+-(?:video|frame|segment)(?:-\d+)+/")


def cached_sample_data(level: str) -> SampleConfig:
    """The sample data that are used if the user names no data; `generate_once` generates them.

    Their folder is in XDG_CACHE_HOME or, if that is not set, in ~/.cache.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    config = SampleConfig("cached", level)
    if level == "video":  # about 70 steps with two towers (copies of the model) and default flags
        config = dataclasses.replace(config, train=30_000, validate=2_000, test=1_000)
    settings = [EDITION, level, *config.sizes(level).values(), config.num_classes, config.seed]
    folder = os.path.join(cache, f"{_CACHE_PREFIX}{'-'.join(map(str, settings))}")
    return dataclasses.replace(config, out=folder)


def is_cached(path: str) -> bool:
    """Whether the path, or the pattern, is of files that were generated because none were named."""
    return _CACHED.search(path) is not None


def generate_once(config: SampleConfig) -> str:
    """Generates the data into the folder `config.out`, unless an earlier call has done so; returns the folder.

    The file complete.json, which is written last, marks a complete folder. If another process is generating the data,
    the call waits for it.
    """
    marker = storage.join(config.out, "complete.json")
    while not storage.exists(marker):
        try:
            with storage.lock(config.out + ".lock"):
                if not storage.exists(marker):
                    generate(config)
                    storage.write(marker, json.dumps(dataclasses.asdict(config)))
        except storage.Locked:
            time.sleep(0.2)  # another process is generating the data
    return config.out
