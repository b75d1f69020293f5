"""`yt8m doctor`: what this machine has; see `training.machine_check`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.training import machine_check


def main(argv: list[str]) -> int:
    """Prints the facts and the comparison; returns the exit status."""
    purpose = "yt8m doctor: shows what this machine has, and compares a tiny training step on each of its devices."
    return machine_check.run(config_flags.read(machine_check.DoctorConfig, "yt8m doctor", purpose, argv))
