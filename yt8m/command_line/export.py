"""`yt8m export`: writes a model to serve; see `export.export_model`."""

from __future__ import annotations

from yt8m.command_line import config_flags, program
from yt8m.config.programs import ExportConfig
from yt8m.export import export_model


def main(argv: list[str]) -> int:
    """Exports the model that the flags name; returns the exit status."""
    purpose = "Exports the model of a checkpoint, with weights of 32, 16 or 8 bits."
    config = config_flags.read(ExportConfig, "yt8m export", purpose, argv)
    program.set_up_log()
    return export_model.run(config)
