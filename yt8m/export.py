"""The command `yt8m export`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from yt8m import flags, log
from yt8m.config_export import ExportConfig
from yt8m.program import run_main

_PURPOSE = "Exports a model, its weights in as many bits as asked."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command on `argv`, by default this process' own; returns the exit status."""
    return run_main("yt8m export", _run, argv)


def _run(words: list[str]) -> int:
    config = flags.read(ExportConfig, "yt8m export", _PURPOSE, words)
    log.set_up()
    # Here, so that flag errors and --help come before the graph code is loaded.
    from yt8m.jobs.export_model import export

    return export(config)


if __name__ == "__main__":
    sys.exit(main())
