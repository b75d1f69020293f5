"""What sample data is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.errors import UsageError
from yt8m.options import option

LEVELS = ("video", "frame", "segment")
SPLITS = ("train", "validate", "test")
# Enough for a GAP above 0.5 in some seconds at video level; frames take 240 kB a video.
_DEFAULT_SIZES = {"video": (5000, 1000, 500), "frame": (1000, 200, 100), "segment": (1000, 200, 100)}
_MOST = 4_000_000  # ids have four characters, as the real ones


@dataclass(frozen=True)
class SampleConfig:
    """Which shards to write. Videos with the same number, split and seed are the same at any size."""

    out_dir: str = option("", "folder to write into; the shards are D/<level>/<split>/<split>NNNN.tfrecord")
    level: str = option(
        "video", "which of the three record formats, or all of them", choices=(*LEVELS, "all")
    )
    train: int | None = option(
        None, "training videos [5000; 1000 at frame and segment level]", minimum=0, maximum=_MOST
    )
    validate: int | None = option(None, "validation videos [1000; 200]", minimum=0, maximum=_MOST)
    test: int | None = option(None, "test videos, which have no labels [500; 100]", minimum=0, maximum=_MOST)
    num_classes: int = option(
        3862, "how many of the classes of the vocabulary, from the first on", minimum=1, maximum=3862
    )
    seed: int = option(0, "another seed, other videos of the same classes", minimum=0)
    shards: int = option(8, "files a split", minimum=1, maximum=10_000)
    min_frames: int = option(120, "frames of the shortest video", minimum=10, maximum=10_000)
    max_frames: int = option(300, "frames of the longest video", minimum=10, maximum=10_000)
    temporal: bool = option(
        False, "hide the classes in the order of frames and in single frames; segments are left as they are"
    )

    def __post_init__(self) -> None:
        options.check(self)
        if not self.out_dir:
            raise UsageError("sample data needs a folder to write into: --out_dir=FOLDER")
        if self.min_frames > self.max_frames:
            raise UsageError(
                f"--min_frames={self.min_frames} is more than --max_frames={self.max_frames}; "
                "give the shorter length to the former."
            )

    def levels(self) -> tuple[str, ...]:
        """The levels to write."""
        return LEVELS if self.level == "all" else (self.level,)

    def sizes(self, level: str) -> dict[str, int]:
        """Videos of each split."""
        asked = (self.train, self.validate, self.test)
        defaults = zip(SPLITS, asked, _DEFAULT_SIZES[level], strict=True)
        return {split: default if size is None else size for split, size, default in defaults}
