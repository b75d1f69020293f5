"""`yt8m predict --model=DIR FILE`: prints the best classes of a few records or videos, with the classes' names."""

from __future__ import annotations

from collections.abc import Sequence

from yt8m import extractors
from yt8m.command_line import config_flags, program
from yt8m.errors import UsageError
from yt8m.extractors.containers import ENDINGS
from yt8m.records import manifest
from yt8m.scoring.predict_config import PredictConfig


def main(argv: list[str]) -> int:
    """Prints the best classes of the first records; returns the exit status.

    Raises:
      UsageError: there is no such model or file, or the extractors of a video cannot be used.
      RunError: a record is damaged or does not fit the model, or there is no record to show.
    """
    patterns: list[str] = []
    purpose = "Shows the best classes of records or of videos: name TFRecord files or video files after the flags."
    config, settings = config_flags.read_with(
        PredictConfig, "yt8m predict", purpose, argv, extractors, "extractors", operands=patterns
    )
    files = manifest.shards_at(patterns)
    program.set_up_log()
    if _are_videos(files):
        from yt8m.scoring import video_predictions  # slow to import, and records do not need it

        return video_predictions.run(config, settings, files)
    of_videos = (("extractors", config.extractors), ("timeline", config.timeline), ("out", config.csv))
    for name, value in (*of_videos, *settings.items()):
        if value:
            raise UsageError(f"--{name} is for video files; these are records.")
    from yt8m.scoring import record_predictions  # loads the graph code, which flag errors do not need

    return record_predictions.run(config, files, ", ".join(patterns))


def _are_videos(paths: Sequence[str]) -> bool:
    """Whether the files are videos, by their endings.

    Raises:
      UsageError: only some of them are.
    """
    videos = [path for path in paths if path.lower().endswith(ENDINGS)]
    if videos and len(videos) < len(paths):
        other = next(path for path in paths if path not in videos)
        raise UsageError(f"{videos[0]} is a video and {other} is not: name videos only, or records only.")
    return bool(videos)
