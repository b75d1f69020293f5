"""`python -m recipes`: runs small recipes, checks their figures against the stated ones, prints the table."""

from __future__ import annotations

import argparse
import fnmatch
import pathlib
import sys
import tempfile

from recipes import figures, files, pages, run

# Another machine sums floats in another order, so training slowly diverges.
TOLERANCE = 0.03
MARGIN = 0.02


def main() -> int:
    """Returns the exit status: 1 if a figure differs from the stated one or a claim does not hold."""
    arguments = _arguments()
    chosen = [name for name in files.names() if fnmatch.fnmatch(name, arguments.models)]
    if not chosen:
        print(f"no recipe matches {arguments.models!r}; there are: {', '.join(files.names())}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = _run_all(chosen, pathlib.Path(folder))
    print(figures.table(rows))
    if arguments.write:
        _write(rows)
    wrong = _drifted(rows)
    wrong += figures.broken_claims({name: row.gap for name, row in rows.items()}, MARGIN)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m recipes", description=__doc__)
    parser.add_argument("--models", default="*", help="names of models, with * as in a shell")
    parser.add_argument("--write", action="store_true", help="state the figures in recipes and docs/users/models.md")
    return parser.parse_args()


def _run_all(names: list[str], folder: pathlib.Path) -> dict[str, figures.Row]:
    run.make_data(folder / "data")
    rows = {}
    for name in names:
        rows[name] = run.run(name, folder / "data", folder / "run")
        print(f"{name}: GAP {rows[name].gap:.3f}", file=sys.stderr, flush=True)
    return rows


def _drifted(rows: dict[str, figures.Row]) -> list[str]:
    gaps = {name: row.gap for name, row in rows.items()}
    stated = {name: files.stated(files.SMALL / f"{name}.flags") for name in rows}
    return list(figures.drifted(gaps, stated, TOLERANCE))


def _write(rows: dict[str, figures.Row]) -> None:
    """Writes the figures of `rows` into the recipes and the page on models, and a line on models that it lacks."""
    for name, row in rows.items():
        files.state(name, row.gap)
        files.DOCS.write_text(pages.with_description(files.DOCS.read_text(), name))
    figures.write_table(files.DOCS, figures.table({**figures.read_table(files.DOCS), **rows}))


if __name__ == "__main__":
    sys.exit(main())
