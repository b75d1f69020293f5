"""The options of `yt8m serve`."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.options import option, path_option
from yt8m.records import thresholds
from yt8m.scoring.predict_config import PredictConfig


@dataclass(frozen=True)
class ServeConfig(options.Checked):
    """The flags of `yt8m serve`."""

    train_dir: str = same_as(PredictConfig, "train_dir", flag="model", aliases=("train_dir",))
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    trust_code: bool = same_as(OfCheckpoint, "trust_code")
    vocabulary: str = path_option("CSV of the classes' names, with the columns index,name; by default the model's own")
    thresholds: str = path_option(thresholds.HELP)
    tags_of: str = same_as(PredictConfig, "tags_of")
    spans_from: str = same_as(PredictConfig, "spans_from", needs="")
    videos: str = path_option(
        "videos on this machine that requests may name: a folder, or patterns with commas between them"
    )
    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 for all addresses of this machine")
    port: int = option(8000, "port to listen on; 0 for a free one", minimum=0, maximum=65535)
    top_k: int = option(5, "number of classes of a video in an answer, unless the request gives one", minimum=1)
    max_frames: int = option(300, "largest number of frames of a video", minimum=1)
    max_videos: int = option(64, "largest number of videos in a request, and in a step of the model", minimum=1)
    max_megabytes: float = option(32.0, "largest size of a request's body, in MB", minimum=0.001, maximum=1024)
    max_requests: int = option(64, "largest number of requests in progress; further ones are answered 503", minimum=1)
    access_log: bool = option(False, "write a line to the log for each answer")
    timeout: float = option(
        30.0, "seconds for a request to arrive, and as many for its answer", minimum=0.1, maximum=3600
    )

    @property
    def body_size(self) -> int:
        """The limit on the bytes of a request body."""
        return int(self.max_megabytes * 1e6)
