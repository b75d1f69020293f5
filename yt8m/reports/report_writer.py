"""`yt8m report RUN [RUN ...]`: writes one HTML page with the metrics and charts of one or more runs."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from absl import logging

from yt8m import options, storage
from yt8m.config import data_fit, run_dir
from yt8m.config.of_run import same_as
from yt8m.config.programs import EvalConfig
from yt8m.config.train_config import DataConfig
from yt8m.errors import UsageError, missing_extra
from yt8m.options import option
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import eval_samples, media_links, worst_videos
from yt8m.reports.loading import Run, config_of, load
from yt8m.reports.page import page
from yt8m.reports.slices import ClassCounts

__all__ = ["ReportConfig", "require_libraries", "run", "write"]

PAGE, COMPARISON = "report.html", "comparison.html"


@dataclass(frozen=True)
class ReportConfig(options.Checked):
    """The flags of `yt8m report`."""

    model: tuple[str, ...] = option(
        (),
        "folders of runs, if no words after the flags name them",
        aliases=("train_dir",),
        is_operand=True,
        is_path=True,
    )
    output: str = option(
        "",
        f"the page; by default eval/{PAGE} in the folder of the run, {COMPARISON} here for several",
        flag="out",
        aliases=("output",),
        is_path=True,
    )
    media: str = same_as(EvalConfig, "media", needs="")
    resamples: int = option(200, "sets of videos drawn for the confidence intervals", minimum=10, maximum=100_000)
    seed: int = option(0, "seed for drawing these sets", minimum=0)


def run(config: ReportConfig, folders: Sequence[str]) -> None:
    """Writes the page of the runs in these folders; raises like `write`, and `UsageError` if no run is named."""
    if not folders:
        raise UsageError("no run is named: yt8m report RUN [RUN ...].")
    write(folders, config)


def require_libraries() -> None:
    """Checks that the libraries of the report are installed.

    Raises:
      UsageError: a library is missing; the message says what to install.
    """
    for name in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(name) is None:
            raise missing_extra("the report", name, "reports")


def write(runs: Sequence[str], config: ReportConfig | None = None) -> str:
    """Writes the page of the runs in these folders; returns its path.

    Raises:
      UsageError: a run does not exist; or matplotlib or Jinja2 is not installed.
      RunError: a run has no evaluation with --report.
    """
    config = config or ReportConfig()
    require_libraries()
    media_links.check(config.media)
    output = config.output or (storage.join(runs[0], eval_samples.FOLDER, PAGE) if len(runs) == 1 else COMPARISON)
    loaded = load(runs, config.resamples, config.seed)
    names = [_names(run) for run in loaded]
    counts = [class_counts(run, vocabulary) for run, vocabulary in zip(loaded, names, strict=True)]
    text = page(loaded, names, counts, lambda wanted: media_links.read(config.media, output, wanted))
    storage.write(output, text)
    logging.info("the report is %s", output)
    if len(runs) == 1:
        checked = worst_videos.checked_beside(output, PAGE)
        count = worst_videos.write_labels_to_check(checked, loaded[0].samples.videos, names[0])
        logging.info("%d labels that look wrong or missing are in %s", count, checked)
    return output


def class_counts(run: Run, names: Vocabulary) -> ClassCounts:
    """How often each class occurs: by the vocabulary, or else by the manifests of the training files.

    A vocabulary may be that of other data than the run's own training data, so it is named in the words.
    """
    count, config = run.samples.num_classes, config_of(run)
    data = config.data if config else DataConfig()
    counts = data_fit.training_counts(names, dataclasses.replace(data, num_classes=count))
    if counts is None:
        return ClassCounts(np.zeros(count, np.int64))
    return ClassCounts(counts, "videos, by the vocabulary") if names.counts.any() else ClassCounts(counts)


def _names(run: Run) -> Vocabulary:
    """The run's vocabulary, else that of the data that it was evaluated on."""
    count, evaluation = run.samples.num_classes, storage.join(run.folder, eval_samples.FOLDER)
    return vocabulary.shown_for(count, run_dir.own_names(run.folder, count) or run_dir.own_names(evaluation, count))
