"""`yt8m inspect FILES`: what TFRecord shards hold, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yt8m import flags, options, storage, vocabulary
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.program import run_main
from yt8m.tools.shard_summary import ShardSummary

_WIDTH = 160  # characters, where the output is no terminal


@dataclass(frozen=True)
class InspectConfig:
    """How `yt8m inspect` shows what it found."""

    json: bool = option(False, "one JSON list in place of tables")
    num_classes: int = option(
        3862,
        "number of classes of the data; for any but YouTube-8M's 3862, classes have numbers and no names",
        minimum=1,
    )

    def __post_init__(self) -> None:
        options.check(self)


def main(argv: list[str]) -> int:
    """Shows the shards; returns the exit status, 1 where one is damaged.

    Raises:
      UsageError: no file is named, or none matches.
    """
    patterns = [word for word in argv if not word.startswith("-")]
    words = [word for word in argv if word.startswith("-")]
    purpose = "Shows what TFRecord shards hold: name them, as files or patterns, beside the flags."
    config = flags.read(InspectConfig, "yt8m inspect", purpose, words)
    names = vocabulary.of(config.num_classes)
    found = [ShardSummary(path).read().told(names) for path in _paths(patterns)]
    if config.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH)
        for one in found:
            console.print(table(one))
    return 1 if any(one["damages"] for one in found) else 0


def _paths(patterns: list[str]) -> list[str]:
    if not patterns:
        raise UsageError("no file is named: yt8m inspect FILE ... (patterns may be quoted).")
    paths = []
    for pattern in patterns:
        matching = storage.glob(pattern)
        if not matching:
            raise UsageError(f"no file matches {pattern!r}.")
        paths += matching
    return paths


def table(shard: dict[str, Any]) -> Table:
    """One shard, a row a fact."""
    shown = Table(title=_plain(shard["path"]), show_header=False, title_justify="left")
    for name, fact in _facts(shard):
        shown.add_row(_plain(name), _plain(fact))
    return shown


def _plain(text: str) -> Text:
    """Text as it is: brackets are no markup, and what a terminal would obey is written out."""
    return Text("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text))


def _facts(shard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "level", shard["level"]
    yield "records", f"{shard['records']} in {shard['bytes']:,} bytes"
    yield "ids", ", ".join(shard["ids"]) + (", ..." if shard["records"] > len(shard["ids"]) else "")
    if shard["frames"]:
        yield "frames", "{least} to {most}, {mean:.1f} on average".format(**shard["frames"])
    for name, feature in shard["features"].items():
        yield f"feature {name}", _feature(feature)
    yield "labels", _labels(shard["labels"]) + f"; {shard['labels']['records_without']} records without"
    if shard["ratings"]["count"]:
        told = f"; {shard['ratings']['segments']} segments, {shard['ratings']['positive']} positive"
        yield "ratings", _labels(shard["ratings"]) + told
    for what in shard["damage"]:
        yield "DAMAGE", what
    if shard["damages"] > len(shard["damage"]):
        yield "DAMAGE", f"and {shard['damages'] - len(shard['damage'])} more"


def _feature(feature: dict[str, Any]) -> str:
    sizes = ", ".join(
        f"{size} values ({count} times)" if len(feature["sizes"]) > 1 else f"{size} values"
        for size, count in feature["sizes"].items()
    )
    low, high = feature["range"] or (float("nan"), float("nan"))
    odd = f"; {feature['not_finite']} NOT FINITE" if feature["not_finite"] else ""
    return f"{feature['type']}, {sizes}, {low:g} to {high:g}{odd}"


def _labels(labels: dict[str, Any]) -> str:
    named = ", ".join(
        f"{row['name']} ({row['class']}): {row['count']}" for row in labels["most_frequent"][:5]
    )
    low, high = labels["range"] or ("", "")
    counts = f"{labels['count']} of {labels['classes']} classes from {low} to {high}"
    return f"{counts}; most frequent {named or 'none'}"


if __name__ == "__main__":
    sys.exit(run_main("yt8m inspect", main))
