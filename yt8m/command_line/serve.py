"""`yt8m serve`: answers HTTP requests by a model; see `serving.server`."""

from __future__ import annotations

from yt8m.command_line import config_flags, program
from yt8m.serving import server


def main(argv: list[str]) -> int:
    """Serves until SIGTERM or Ctrl-C; returns the exit status."""
    purpose = "Answers HTTP requests by a trained model: POST /predict, GET /health, /ready, /metrics."
    config = config_flags.read(server.ServeConfig, "yt8m serve", purpose, argv)
    program.set_up_log()
    return server.run(config)
