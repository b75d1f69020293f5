"""`python -m recipes.effects`: what losses, sampling, grouped queries and shifted segments change on generated data.

Each variant is trained on three generated data sets, with three seeds, as its baseline is. The table has the means, and
the smallest and the largest change.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import io
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from recipes import files
from recipes.figures import write_between
from yt8m.command_line import cli

SEEDS = (1, 2, 3)
BEGIN = "<!-- made by `python -m recipes.effects --write` -->"

# Many classes for few videos, so that those of the tail have about ten videos each. The steps of an epoch are 32.
_VIDEOS = ("--level=video", "--num_classes=1000", "--train=4000", "--validate=2000", "--test=0")
_FRAMES = ("--level=frame", "--num_classes=100", "--train=800", "--validate=400", "--test=0", "--min_frames=20",
           "--max_frames=40")  # fmt: skip
# Noise that leaves the baseline room to gain, and classes that do not begin and end with the segments.
_SEGMENTS = ("--level=segment", "--num_classes=30", "--train=200", "--validate=100", "--test=0", "--min_frames=60",
             "--max_frames=120", "--noise=4", "--event_frames=5")  # fmt: skip
_LOGISTIC = ("--model=LogisticModel", "--batch_size=128", "--num_epochs=40", "--base_learning_rate=0.01")
_PROBE = ("--model=AttentiveProbeModel", "--frame_features", "--probe_size=32", "--probe_heads=4", "--batch_size=32",
          "--num_epochs=12", "--base_learning_rate=0.003")  # fmt: skip
_OF_SEGMENTS = ("--model=FrameLevelLogisticModel", "--frame_features", "--segment_labels", "--batch_size=64",
                "--num_epochs=6")  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One comparison.

    Attributes:
      name: the row of the table.
      data, training: flags of the data and of the training, with and without the variant.
      trained, ranked: flags that the variant adds to the training, and to the ranking of segments.
    """

    name: str
    data: tuple[str, ...]
    training: tuple[str, ...]
    trained: tuple[str, ...] = ()
    ranked: tuple[str, ...] = ()


VARIANTS = (
    Variant("HillLoss", _VIDEOS, _LOGISTIC, ("--label_loss=HillLoss",)),
    Variant("SPLCLoss", _VIDEOS, _LOGISTIC, ("--label_loss=SPLCLoss", "--splc_start_step=32")),
    Variant("TwoWayLoss", _VIDEOS, _LOGISTIC, ("--label_loss=TwoWayLoss",)),
    Variant("mixup 0.4", _VIDEOS, _LOGISTIC, ("--mixup=0.4",)),
    Variant("balance 0.5", _VIDEOS, _LOGISTIC, ("--balance=0.5",)),
    Variant("10 grouped queries", _FRAMES, _PROBE, ("--decoder_queries=10", "--decoder_feed_forward=64")),
    Variant("segment shifts -2,0,1", _SEGMENTS, _OF_SEGMENTS, ranked=("--segment_shifts=-2,0,1",)),
    Variant("mean of the whole video", _SEGMENTS, _OF_SEGMENTS, ("--film_mean",)),
)


def with_flags(variant: Variant, flags: Iterable[str]) -> Variant:
    """The variant with other values of some flags: of those that it adds itself, and else of those of its baseline."""
    changes = {flag.partition("=")[0]: flag for flag in flags}
    own_names = {flag.partition("=")[0] for flag in variant.trained}

    def merged(before: tuple[str, ...], names: Container[str]) -> tuple[str, ...]:
        kept = [flag for flag in before if flag.partition("=")[0] not in changes]
        return (*kept, *(flag for name, flag in changes.items() if name in names))

    trained = merged(variant.trained, own_names)
    return dataclasses.replace(variant, training=merged(variant.training, changes.keys() - own_names), trained=trained)


Figures = Mapping[str, float]  # {"tail": mAP of the rare classes, or MAP of segments; "GAP": GAP}


def measure(variant: Variant, seed: int, folder: pathlib.Path) -> tuple[Figures, Figures]:
    """The figures of the baseline and of the variant."""
    data = folder / f"{variant.data[0].partition('=')[2]}{seed}"
    if not data.exists():
        _call("sample-data", *variant.data, f"--seed={seed}", f"--out={data}")
    shards = data / variant.data[0].partition("=")[2]
    baseline = folder / " ".join(["baseline", data.name, *variant.training])
    if not baseline.exists():
        _train(baseline, variant.training, shards, seed)
    changed = folder / "variant" if variant.trained else baseline
    if variant.trained:
        _train(changed, (*variant.training, *variant.trained, "--start_new_model"), shards, seed)
    figures = _rank if "--segment_labels" in variant.training else _evaluate
    return figures(baseline, shards, ()), figures(changed, shards, variant.ranked)


def _train(run: pathlib.Path, flags: tuple[str, ...], shards: pathlib.Path, seed: int) -> None:
    _call("train", *flags, f"--train_data_pattern={shards}/train/*.tfrecord", f"--train_dir={run}", f"--seed={seed}")


def _evaluate(run: pathlib.Path, shards: pathlib.Path, _: tuple[str, ...]) -> Figures:
    _call("eval", f"--train_dir={run}", f"--eval_data_pattern={shards}/validate/*.tfrecord", "--run_once")
    report = json.loads((run / "eval/report.json").read_text())
    return {"tail": report["map_tail"], "GAP": report["gap"]}


def _rank(run: pathlib.Path, shards: pathlib.Path, changes: tuple[str, ...]) -> Figures:
    """MAP over the rated segments."""
    pattern, lists = f"{shards}/validate/*.tfrecord", run / "segments.csv"
    words = (f"--train_dir={run}", f"--input_data_pattern={pattern}", "--segment_labels", f"--output_file={lists}")
    _call("inference", *words, *changes)
    said = _call("segment-eval", f"--predictions={lists}", f"--data={pattern}")
    return {"tail": float(said.rpartition("MAP@100000: ")[2].split()[0])}


def _call(*words: str) -> str:
    """What a command of `yt8m` prints.

    Raises:
      RuntimeError: it failed.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = cli.main(list(words))
    if status:
        raise RuntimeError(f"yt8m {' '.join(words)} ended with status {status}")
    return printed.getvalue()


def row(name: str, pairs: list[tuple[Figures, Figures]]) -> str:
    """A row of the table: of the tail before, after and the change; of GAP the change."""

    def change(key: str) -> str:
        if key not in pairs[0][0]:
            return "none"
        changes = [after[key] - before[key] for before, after in pairs]
        return f"{statistics.mean(changes):+.3f} ({min(changes):+.3f} to {max(changes):+.3f})"

    before, after = (statistics.mean(pair[place]["tail"] for pair in pairs) for place in (0, 1))
    return f"| {name} | {before:.3f} | {after:.3f} | {change('tail')} | {change('GAP')} |"


def table(
    variants: Iterable[Variant], seeds: Sequence[int], run: Callable[[Variant, int], tuple[Figures, Figures]]
) -> str:
    """The table of some variants in Markdown."""
    lines = ["| variant | tail without | tail with | change of the tail | change of GAP |", "|---|---:|---:|---:|---:|"]
    for variant in variants:
        lines.append(row(variant.name, [run(variant, seed) for seed in seeds]))
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> int:
    """Prints the table, or writes it into the page; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m recipes.effects", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/users/models.md")
    parser.add_argument("--variants", default="*", help="names of rows, with * as in a shell")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("flags", nargs="*", help="after --: flags of the training in place of those of the rows")
    arguments = parser.parse_args()
    chosen = [variant for variant in VARIANTS if fnmatch.fnmatch(variant.name, arguments.variants)]
    if arguments.write and (len(chosen) < len(VARIANTS) or tuple(arguments.seeds) != SEEDS or arguments.flags):
        parser.error("--write is for the whole table")
    variants = [with_flags(variant, arguments.flags) for variant in chosen]
    with tempfile.TemporaryDirectory() as folder:
        made = table(variants, arguments.seeds, lambda variant, seed: measure(variant, seed, pathlib.Path(folder)))
    print(made)
    if arguments.write:
        write_between(files.DOCS, BEGIN, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
