"""`yt8m extract`: makes records of video files; see `datasets.extract`."""

from __future__ import annotations

from yt8m import extractors
from yt8m.command_line import config_flags
from yt8m.datasets.extract import ExtractConfig, choose, make, weights


def main(argv: list[str]) -> int:
    """Extracts features, or fetches the weights for it; returns the exit status."""
    purpose = "Makes records out of video files: the features that extractors compute from pictures and sound."
    config, settings = config_flags.read_with(ExtractConfig, "yt8m extract", purpose, argv, extractors, "extractors")
    chosen = choose(config.extractors, settings)
    if config.fetch_weights:
        for name, extractor in chosen:
            files = weights.find(extractor, name)
            for field, path in files.paths.items():
                print(f"{name} {field}: {path}, sha256 {files.sha256[field]}")
    else:
        make(config, chosen)
    return 0
