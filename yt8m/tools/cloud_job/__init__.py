"""`yt8m cloud-job`: training as a custom job of Vertex AI."""

from __future__ import annotations

from yt8m.tools.cloud_job.command import main

__all__ = ["main"]
