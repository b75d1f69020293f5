"""`yt8m predict --model=DIR FILE`: what a model says of a few records, in words."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yt8m import options, program, storage
from yt8m.commands import vocabulary_search
from yt8m.config import flags
from yt8m.errors import RunError, UsageError
from yt8m.export import saved_model
from yt8m.options import option
from yt8m.program import run_main
from yt8m.records import shards, vocabulary


@dataclass(frozen=True)
class PredictConfig:
    """What `yt8m predict` is asked for."""

    model: str = option("", "folder of a run or of an exported model")
    count: int = option(5, "records shown, from the first on", minimum=1, maximum=1000)
    top_k: int = option(5, "classes of each record, best first", minimum=1)
    video_id: str = option("", "this video alone, wherever it is in the files")

    def __post_init__(self) -> None:
        options.check(self)
        if not self.model:
            raise UsageError("--model is missing: name the folder of a run or of an exported model.")


def main(argv: list[str]) -> int:
    """Prints the best classes of the records; returns the exit status.

    Raises:
      UsageError: no model or file is there.
      RunError: the records are damaged, or of another kind than the model takes.
    """
    patterns: list[str] = []
    purpose = "Shows the best classes of records: name TFRecord files beside the flags."
    config = flags.read(PredictConfig, "yt8m predict", purpose, argv, patterns)
    files = _files(patterns)
    program.set_up_log()
    saved_model.find(config.model)
    records = list(itertools.islice(_wanted(files, config.video_id), config.count))
    if not records:
        what = f"no video {config.video_id!r}" if config.video_id else "no record"
        raise RunError(f"{', '.join(patterns)}: there is {what}.")
    with saved_model.opened(config.model) as model:
        _show(model.predict(records), records, config.top_k, vocabulary.of(model.num_classes))
    return 0


def _files(patterns: Sequence[str]) -> list[str]:
    if not patterns:
        raise UsageError("no file is named: yt8m predict --model=DIR FILE.")
    files = storage.glob(",".join(patterns))
    if not files:
        raise UsageError(f"no file matches {', '.join(patterns)}. Check the path, and quote the pattern.")
    return files


def _wanted(files: Sequence[str], video_id: str) -> Iterator[bytes]:
    wanted = shards.id_bytes(os.fsencode(video_id))
    for path in files:
        for number, payload in enumerate(shards.read_shard(path)):
            try:
                found = _parsed(payload).id()
            except ValueError as error:
                what = f"{shards.NO_PROTO}: {error}"
                raise shards.DamagedError(path, number, what) from error
            if not wanted or found == wanted:
                yield payload


def _parsed(payload: bytes) -> shards.Record:
    return shards.parse(payload, with_lists=False)


def _show(found: saved_model.Predictions, records: Sequence[bytes], top_k: int, names: vocabulary.Vocabulary) -> None:
    """One table a record; classes that the record is labelled with have a star."""
    for row, payload in enumerate(records):
        labels = set(_labels(payload))
        if row:
            print()
        print(_title(found.video_ids[row], labels, names))
        best = zip(found.classes[row, :top_k].tolist(), found.scores[row, :top_k].tolist(), strict=True)
        lines = [(f"{score:.3f}", "*" if c in labels else "", names.name(c), str(c)) for c, score in best]
        vocabulary_search.show(("", "", "", ""), lines)


def _labels(payload: bytes) -> list[int]:
    feature = _parsed(payload).context.get("labels")
    return [int(value) for value in feature.values()] if feature else []


def _title(video_id: bytes, labels: set[int], names: vocabulary.Vocabulary) -> str:
    told = ", ".join(names.name(index) for index in sorted(labels)) or "none given"
    return f"{shards.id_text(video_id)}  labels: {told}"


if __name__ == "__main__":
    sys.exit(run_main("yt8m predict", main))
