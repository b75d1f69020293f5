"""`yt8m from-mediapipe`: converts files of features that MediaPipe wrote; see `datasets.mediapipe`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets import mediapipe


def main(argv: list[str]) -> int:
    """Writes the shard; returns the exit status."""
    purpose = "Converts files of MediaPipe's features, one proto per video, to a shard of frame records."
    return mediapipe.run(config_flags.read(mediapipe.FromMediapipeConfig, "yt8m from-mediapipe", purpose, argv))
