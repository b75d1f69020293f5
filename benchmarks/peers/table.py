"""`python -m benchmarks.peers.table bench-peers.json [PAGE]`: writes the results of a processor into the page.

The page, docs/developers/beside_pytorch.md, has a section for each processor, whose heading is its name. That of this
processor is replaced, or added before the notes. A row that was not measured this time keeps its figure, with a mark.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.measure import QUIET, write_beside
from benchmarks.peers.comparison import NETWORKS, ROWS

PAGE = pathlib.Path("docs/developers/beside_pytorch.md")
EARLIER = "°"  # marks a cell of an earlier run
NOTES = "\n## Notes\n"  # the heading of the section after those of the processors
_COLUMNS = {
    "step": "peers/step/{}",
    "files": "peers/files/{}",
    "eval": "peers/eval/{}",
    "infer": "peers/infer/{}",
    "step, bfloat16": "peers/step/{}, bfloat16",
    "files, bfloat16": "peers/files/{}, bfloat16",
}


def section(results: Mapping[str, Any]) -> str:
    """The section of a processor, from the file of results of `python -m benchmarks`."""
    rows = {name: row for name, row in results["rows"].items() if name in ROWS}
    if not rows:
        raise SystemExit("no row of peers/ was measured; the page stays as it is")
    lines = [
        f"## {results['processor']}",
        "",
        f"{results['machine']}. {_turns(rows)} The run took {results['minutes']:.0f} minutes.",
        "",
        f"| model | {' | '.join(_COLUMNS)} |",
        "|---|" + "---:|" * len(_COLUMNS),
    ]
    for model in NETWORKS:
        cells = (_cell(name.format(model), rows) for name in _COLUMNS.values())
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _slower_rows(rows)]) + "\n"


def _slower_rows(rows: Mapping[str, Any]) -> str:
    """The rows of this run in which a peer is faster, as the table rounds it, with their ratio by CPU time too."""
    ratios = {
        name.removeprefix("peers/"): (row["ratio"]["median"], row["cpu_ratio"]["median"]) for name, row in rows.items()
    }
    slower = [f"{name} {ratio:.2f} ({by_cpu:.2f})" for name, (ratio, by_cpu) in ratios.items() if round(ratio, 2) < 1]
    if not slower:
        return "No row of this run is below 1.0."
    return f"Below 1.0 in this run, in parentheses by CPU time: {', '.join(slower)}."


def _turns(rows: Mapping[str, Any]) -> str:
    counts = sorted({row["turns"] for row in rows.values()})
    return f"The median of {' or '.join(map(str, counts))} turns, and the range."


def _cell(name: str, rows: Mapping[str, Any]) -> str:
    """The ratio to the faster peer; bold if it misses its goal, with `!` if other programs disturbed the row."""
    if name not in rows:
        return ""
    ratio, least = rows[name]["ratio"], ROWS[name].ratio
    median = f"{ratio['median']:.2f}"
    text = f"**{median}**" if least is not None and ratio["median"] < least else median
    mark = " !" if rows[name]["others"] > QUIET else ""
    return f"{text} ({ratio['low']:.2f} to {ratio['high']:.2f}){mark}"


def with_section(page: str, new: str) -> str:
    """The page with the section of its processor replaced, or added before the notes."""
    heading = new.splitlines()[0]
    found = re.search(rf"(?ms)^{re.escape(heading)}\n.*?(?=^## )", page)
    if found:
        return page[: found.start()] + _with_earlier_cells(new, found.group()) + "\n" + page[found.end() :]
    before, notes, after = page.partition(NOTES)
    if not notes:
        raise SystemExit(f"the page has no section {NOTES.strip()!r}, before which the table of a processor belongs")
    return f"{before.rstrip()}\n\n{new}{notes}{after}"


def _with_earlier_cells(new: str, old: str) -> str:
    """A section whose empty cells have what an earlier one has there, marked as of an earlier run."""
    earlier = {line.split("|")[1]: line.split("|") for line in old.splitlines() if line.startswith("|")}
    lines = []
    for line in new.splitlines():
        cells, before = line.split("|"), earlier.get(line.split("|")[1]) if line.startswith("|") else None
        if before and len(before) == len(cells):
            line = "|".join(
                cell if cell.strip() else _marked(earlier_cell)
                for cell, earlier_cell in zip(cells, before, strict=True)
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


def _marked(cell: str) -> str:
    text = cell.strip()
    return cell if not text or text.endswith(EARLIER) else f" {text} {EARLIER} "


def main(words: list[str]) -> int:
    """Replaces the section in the page; the page is written beside and renamed into place."""
    if len(words) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    results, page = json.loads(pathlib.Path(words[0]).read_text()), pathlib.Path(words[1] if words[1:] else PAGE)
    new = section(results)
    write_beside(page, with_section(page.read_text(), new))
    print(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
