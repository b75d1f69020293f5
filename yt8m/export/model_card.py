"""Writes the README.md of every exported model: its flags, training data, metrics and size."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from yt8m import options, storage
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError
from yt8m.options import shown
from yt8m.records import thresholds, vocabulary
from yt8m.records.vocabulary import Vocabulary

NAME = "README.md"
LIMIT_BYTES = 10**9  # size limit of a model in the 2018 challenge


def describing(run: TrainConfig, names: Vocabulary, train_dir: str, step: int) -> Callable[[str, int], None]:
    """Returns the argument `describe` of an export: a function of the export's folder and the number of parameters.

    The function writes the card, and the thresholds if the checkpoint was evaluated with --report.
    """

    def describe(folder: str, parameters: int) -> None:
        thresholds.copy(train_dir, folder, step)
        write(folder, run, step, parameters, figures=report_of(train_dir, step), names=names)

    return describe


def write(
    folder: str,
    run: TrainConfig,
    step: int,
    parameters: int,
    *,
    figures: Mapping[str, Any],
    weights: str = "float32",
    names: Vocabulary | None = None,
) -> None:
    """Writes `folder`/README.md; the same input gives the same bytes."""
    with open(os.path.join(folder, NAME), "w", encoding="utf-8") as file:
        sizes = sizes_in(folder)
        file.write(text(run, step, parameters, sizes, figures=figures, weights=weights, names=names))


def text(
    run: TrainConfig,
    step: int,
    parameters: int,
    sizes: Mapping[str, int],
    *,
    figures: Mapping[str, Any],
    weights: str = "float32",
    names: Vocabulary | None = None,
) -> str:
    """The text of the card, in Markdown.

    Args:
      run: how the model was trained.
      step: the global step of the checkpoint.
      parameters: number of trainable parameters.
      sizes: {part of the export: size in bytes}.
      figures: {metric: value}; empty if the checkpoint was not evaluated.
      weights: the type in which weights are stored.
      names: the model's own vocabulary; None or empty if it has none.
    """
    data = run.data
    level = "frame" if data.frame_features else "video"
    features = ", ".join(f"{name} ({size})" for name, size in zip(data.feature_names, data.feature_sizes, strict=True))
    lines = [
        f"# {run.model.model}, step {step}",
        "",
        f"Scores {data.num_classes} classes from {level}-level features: {features}.",
        "",
        *(_classes(names) if names else []),
        "## Data",
        "",
        f"- trained on: `{data.data_pattern or 'sample data'}`",
        f"- examples: {'rated segments' if data.segment_labels else 'videos'}, loss: {run.model.label_loss}",
        *([f"- frames of a video that are read: {data.max_frames}"] if data.frame_features else []),
        "",
        "## Flags",
        "",
        "The flags that differ from their defaults, and the hyper-parameters of model and loss:",
        "",
        *("```", *flags(run), "```"),
        "",
        *("## Figures", "", *_figures(figures), ""),
        *("## Size", "", f"- parameters: {parameters:,}", f"- stored as: {weights}"),
        *(f"- {name}: {size(count)}" for name, count in sizes.items()),
        "",
        *("## Versions", "", *(f"- {name}: {value}" for name, value in run_dir.versions().items())),
    ]
    return "\n".join([*lines, ""])


def flags(run: TrainConfig) -> list[str]:
    """The flags of a run that differ from their defaults, and all published flags, sorted; no paths of folders."""
    shown_paths = options.changed(run).keys() | run_dir.PUBLISHED
    values = {
        options.flag_of(field): options.value_at(run, path)
        for path, field in options.fields_of(TrainConfig)
        if path in shown_paths and field.metadata["is_flag"] and field.metadata["belongs_to"] != "start"
    }
    values |= _hyper_parameters(run.model.hyper_parameters) | _hyper_parameters(run.model.loss_hyper_parameters)
    return [f"--{name}={shown(values[name])}" for name in sorted(values)]


def report_of(train_dir: str, step: int) -> dict[str, Any]:
    """The metrics in the run's eval/report.json; empty if they are of another step."""
    try:
        report = storage.read_json(storage.join(train_dir, "eval", "report.json"))
    except (RunError, ValueError):
        return {}
    if not isinstance(report, dict) or report.get("global_step") != step:
        return {}
    return {
        name: value
        for name, value in report.items()
        if name != "global_step" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def sizes_in(folder: str) -> dict[str, int]:
    """{part of an exported model: bytes}, without the card itself.

    `files` stands for the files of the folder itself and those in `variables` and `assets`; each other folder is a
    part of its own.
    """
    sizes: dict[str, int] = {}
    for here, _, names in sorted(os.walk(folder)):
        part = os.path.relpath(here, folder).split(os.sep)[0]
        count = sum(os.path.getsize(os.path.join(here, name)) for name in names if name != NAME)
        name = "files" if part in (".", "variables", "assets") else part
        sizes[name] = sizes.get(name, 0) + count
    return sizes


def size(count: int) -> str:
    """`count` bytes as text, with their share of the 2018 size limit."""
    over = "over the" if count > LIMIT_BYTES else f"{100 * count / LIMIT_BYTES:.2f} % of the"
    return f"{count:,} bytes ({over} 1 GB allowed in the 2018 challenge)"


_SHOWN = 20


def _classes(names: Vocabulary) -> list[str]:
    """The section with the first class names. They are formatted as code, so that no character of a name is markup."""
    first = [f"{index}: {name}" for index, name in enumerate(names.names[:_SHOWN])]
    rest_text = f"and {len(names) - _SHOWN:,} more in {vocabulary.NAME}"
    listed = [*first, rest_text] if len(names) > _SHOWN else first
    return ["## Classes", "", "```", *listed, "```", ""]


def _figures(figures: Mapping[str, Any]) -> list[str]:
    if not figures:
        return ["This checkpoint was not evaluated when the model was exported."]
    rows = [
        f"| {name} | {value:.4f} |" if isinstance(value, float) else f"| {name} | {value} |"
        for name, value in figures.items()
    ]
    return ["| figure | value |", "|---|---|", *rows]


def _hyper_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """{name: value}. Hyper-parameters of a part, such as the classifier, are not nested: each has its own flag."""
    flat = {name.rpartition(".")[2]: value for name, value in options.flat(values).items()}
    return {name: value for name, value in flat.items() if value not in ((), None)}
