"""What is said of a table before it is used: what the file is, and what was taken from which column."""

from __future__ import annotations

import os
from collections.abc import Mapping

from yt8m.tables import span_rows
from yt8m.tables.columns import class_columns
from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.roles import Roles
from yt8m.tables.sources.source import Source


def describe(
    source: Source, roles: Roles, facts: Mapping[str, Facts], labels: str, has_spans: bool, frame_rate: float
) -> list[str]:
    """The phrases on a table.

    Args:
      labels: what is said of the labels beside their columns.
      frame_rate: frames per second, if times count frames; else 0.
    """
    phrases = [f"{os.path.basename(source.path)}: {source.form}"]
    if roles.id != "id":
        phrases.append(f'ids from "{roles.id}"')
    phrases += facts[roles.id].describe_odd_ids() if roles.id in facts else []
    can_deny = has_spans and roles.value in facts and facts[roles.value].denies
    phrases += _describe_labels(roles, labels, ", and where it is -1, the class is absent" if can_deny else "")
    if roles.path and roles.path not in ("path", roles.id):
        phrases.append(f'paths from "{roles.path}"')
    if roles.split:
        phrases.append(f'split from "{roles.split}"')
    phrases += span_rows.describe_times(source, roles, frame_rate)
    for name, columns in roles.families.items():
        phrases.append(f'feature {name} from "{columns[0]}" to "{columns[-1]}"')
    if unused := [name for name in roles.unused if not (has_spans and span_rows.is_used_beside(name))]:
        ellipsis = ", ..." if len(unused) > 8 else ""
        phrases.append("not used: " + ", ".join(f'"{name}"' for name in unused[:8]) + ellipsis)
    return phrases


def _describe_labels(roles: Roles, labels: str, denials: str) -> list[str]:
    if roles.classes:
        return [class_columns.describe_classes(list(roles.classes))]
    if not roles.labels:
        return []
    columns = " and ".join(f'"{name}"' for name in roles.labels)
    value = f', where "{roles.value}" is 1{denials}' if roles.value else ""
    return [f"labels from {columns}{labels}{value}"]
