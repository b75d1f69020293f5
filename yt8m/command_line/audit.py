"""`yt8m audit`: finds what is wrong with the labels of records; see `labels.label_audit`."""

from __future__ import annotations

from yt8m.command_line import flags, program


def main(argv: list[str]) -> int:
    """Audits the data; returns the exit status."""
    program.set_up_log()
    config, training = flags.audit_config(argv)
    from yt8m.labels import label_audit  # loads the graph code, which flag errors do not need

    return label_audit.run(config, training)
