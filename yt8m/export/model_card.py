"""Writes the model card of an export, README.md: the flags, the training data, the metrics and the size."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from yt8m import options, storage
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, quantity
from yt8m.options import shown
from yt8m.records import span_rules, thresholds, vocabulary
from yt8m.records.vocabulary import Vocabulary

NAME = "README.md"
LIMIT_BYTES = 10**9  # size limit of a model in the 2018 challenge


def card_writer(run: TrainConfig, names: Vocabulary, train_dir: str, step: int) -> Callable[[str, int], None]:
    """Returns a function that writes the card of an export, and what the evaluations of the run chose.

    Give it as the argument `describe` to `export_saved_model` or `write_inference_model`.
    """

    def describe(folder: str, parameters: int) -> None:
        thresholds.copy(train_dir, folder, step)
        span_rules.copy(run.data, train_dir, folder, step)
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
    """Writes the card of an export, `folder`/README.md; the same input gives the same bytes.

    Args:
      figures: {metric: value}; empty if the checkpoint was not evaluated.
      names: the model's own vocabulary; None or empty if it has none.
    """
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
      sizes: {part of the export: size in bytes}.
      figures: {metric: value}; empty if the checkpoint was not evaluated.
      names: the model's own vocabulary; None or empty if it has none.
    """
    data = run.data
    level = "frame" if data.frame_features else "video"
    features = ", ".join(f"{name} ({size})" for name, size in zip(data.feature_names, data.feature_sizes, strict=True))
    lines = [
        f"# {run.model.model}, step {step}",
        "",
        f"Scores {quantity(data.num_classes, 'class')} from {level}-level features: {features}.",
        "",
        *(_class_section(names) if names else []),
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
        *("## Figures", "", *_figure_lines(figures), ""),
        *("## Size", "", f"- parameters: {parameters:,}", f"- stored as: {weights}"),
        *(f"- {name}: {size(count)}" for name, count in sizes.items()),
        "",
        *("## Versions", "", *(f"- {name}: {value}" for name, value in run_dir.versions().items())),
    ]
    return "\n".join([*lines, ""])


def flags(run: TrainConfig) -> list[str]:
    """The flags of a run as texts --NAME=VALUE, sorted.

    These are the flags that differ from their defaults, and the flags in `run_dir.PUBLISHED`. Flags that say where or
    how one start of the training runs, such as paths of folders, are left out.
    """
    shown_paths = options.changed(run).keys() | run_dir.PUBLISHED
    values = {
        options.flag_of(field): options.value_at(run, path)
        for path, field in options.fields_of(TrainConfig)
        if path in shown_paths and field.metadata["is_flag"] and field.metadata["belongs_to"] != "start"
    }
    values |= _hyper_parameters(run.model.hyper_parameters) | _hyper_parameters(run.model.loss_hyper_parameters)
    return [f"--{name}={shown(values[name])}" for name in sorted(values)]


def report_of(train_dir: str, step: int) -> dict[str, Any]:
    """The metrics and the counts in eval/report.json of a run, {key: number}.

    Empty if the file is missing, cannot be read, or is of another step.
    """
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
    """The sizes of the parts of an exported model, {part: bytes}, without the card itself.

    The part `files` is the files in the folder itself, in `variables` and in `assets`. Each other folder is a part of
    that name.
    """
    sizes: dict[str, int] = {}
    for inner, _, names in sorted(os.walk(folder)):
        part = os.path.relpath(inner, folder).split(os.sep)[0]
        count = sum(os.path.getsize(os.path.join(inner, name)) for name in names if name != NAME)
        name = "files" if part in (".", "variables", "assets") else part
        sizes[name] = sizes.get(name, 0) + count
    return sizes


def size(count: int) -> str:
    """A size of `count` bytes as text, with its share of the size limit of the 2018 challenge."""
    over = "over the" if count > LIMIT_BYTES else f"{100 * count / LIMIT_BYTES:.2f} % of the"
    return f"{count:,} bytes ({over} 1 GB allowed in the 2018 challenge)"


_LISTED_CLASSES = 20  # number of classes that the card lists


def _class_section(names: Vocabulary) -> list[str]:
    """The lines of the section with the names of the first classes.

    The names are formatted as code, so that Markdown does not interpret their characters.
    """
    lines = [f"{index}: {name}" for index, name in enumerate(names.names[:_LISTED_CLASSES])]
    if len(names) > _LISTED_CLASSES:
        lines.append(f"and {len(names) - _LISTED_CLASSES:,} more in {vocabulary.NAME}")
    return ["## Classes", "", "```", *lines, "```", ""]


def _figure_lines(figures: Mapping[str, Any]) -> list[str]:
    """The table of the metrics, or a line that says that there are none."""
    if not figures:
        return ["This checkpoint was not evaluated when the model was exported."]
    rows = [
        f"| {name} | {value:.4f} |" if isinstance(value, float) else f"| {name} | {value} |"
        for name, value in figures.items()
    ]
    return ["| figure | value |", "|---|---|", *rows]


def _hyper_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """{name of the flag: value} of hyper-parameters, without empty ones.

    In `values`, the hyper-parameters of a part of the model, such as its classifier, are nested.
    """
    flat = {name.rpartition(".")[2]: value for name, value in options.flat(values).items()}
    return {name: value for name, value in flat.items() if value not in ((), None)}
