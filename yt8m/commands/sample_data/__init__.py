"""Small generated data in the exact formats of YouTube-8M, to try and test everything on."""

from __future__ import annotations

from yt8m.commands.sample_data.command import main
from yt8m.commands.sample_data.output import SampleConfig, default_sample_data, generate

__all__ = ["SampleConfig", "default_sample_data", "generate", "main"]
