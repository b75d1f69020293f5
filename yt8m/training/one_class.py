"""Whether each video of a training has one class: a run keeps what it says, and so does one that begins from another.

The scores of such a run add up to 1, and its thresholds were chosen on these scores, so another start must not change
that because the manifest of other data does not say it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

from absl import logging

from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.errors import UsageError
from yt8m.records import label_check
from yt8m.records.opened_data import OpenedData


def with_fact(section: DataConfig, data: OpenedData, resumed: str, sources: Iterable[str]) -> DataConfig:
    """The config of the data with `one_class` as the run has it; that of a new run as the model that it begins from.

    If the run has one class a video, data in which a video has none or several are refused.

    Args:
      resumed: the folder of the run that goes on; empty for none.
      sources: where a new run begins from and its teacher; empty texts stand for none.
    """
    saved = run_dir.read(resumed) if resumed else None
    if saved is None:
        return _as_source(section, data, sources)
    is_single = saved.config.data.one_class
    other = _video_of_other_labels(section, data) if is_single else ""
    if other:
        raise UsageError(
            f"{resumed} was trained on videos with one class each, so that the scores of a video add up to 1, "
            f"but {other}. Give data with one class for each video, or train a new run from this one: "
            f"--init_from={resumed} with another --train_dir."
        )
    return dataclasses.replace(section, one_class=is_single)


def _as_source(section: DataConfig, data: OpenedData, sources: Iterable[str]) -> DataConfig:
    """That of a new run: of one class a video if a model is that it begins from, and the data allow it."""
    source = next(filter(_is_single, sources), "")
    if section.one_class or not source:
        return section
    other = _video_of_other_labels(section, data)
    if other:
        logging.warning("the scores of a video add up to 1 in %s, but not in the new run: %s", source, other)
        return section
    logging.info("each video has one class, so the scores of a video add up to 1, as in %s", source)
    return dataclasses.replace(section, one_class=True)


def _is_single(source: str) -> bool:
    """Whether the run that a path leads to, itself or to a file or folder in it, has one class a video."""
    folder = next(filter(run_dir.is_run, filter(None, (source, os.path.dirname(source.rstrip("/"))))), "")
    saved = run_dir.read(folder) if folder else None
    return saved is not None and saved.config.data.one_class


def _video_of_other_labels(section: DataConfig, data: OpenedData) -> str:
    """Names a video that has not exactly one label; empty if there is none, or if only a reader can tell."""
    if section.one_class or section.reader:
        return ""
    return label_check.without_one_label(data)
