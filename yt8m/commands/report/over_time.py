"""The charts of a run over its steps: training, validations and evaluated checkpoints, with the best one marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.commands.report.charts import INK, Mark, Picture, legend, of_run, picture, short
from yt8m.commands.report.loading import Curve, Run, figure
from yt8m.eval_util.arrays import Floats64
from yt8m.eval_util.metrics import Loss, names_of_details

_TITLES = {"examples_per_second": "examples a second"}


def training(runs: Sequence[Run]) -> list[Picture]:
    """One picture for each metric that the runs logged, validated or evaluated, except `metrics.names_of_details`."""
    names = dict.fromkeys(name for run in runs for part in _series(run) for name in part)
    return [_curve(name, runs) for name in names if name not in names_of_details()]


def _series(run: Run) -> tuple[Mapping[str, Curve], Mapping[str, Curve], Mapping[str, Curve]]:
    """The curves of training, validations and evaluated checkpoints.

    If an earlier version evaluated the run, there is only its last evaluation, without the loss, which differs.
    """
    if run.evaluations:
        return run.curves, run.validations, run.evaluations
    known = {one.name: figure(run, one.key) for one in run.samples.described() if one.key != Loss.key}
    step = figure(run, "global_step")
    last = {name: Curve({step: value}) for name, value in known.items() if value is not None and name in run.curves}
    return run.curves, run.validations, last


def _curve(name: str, runs: Sequence[Run]) -> Picture:
    title = _TITLES.get(name, name)
    having = [run for run in runs if any(name in part for part in _series(run))]

    def draw(axes: Any) -> list[Mark]:
        lines, marks = [], []
        for run in having:
            drawn = _draw_series(axes, run, [part.get(name) for part in _series(run)])
            lines.append(drawn[0])
            marks += [mark._replace(text=f"{of_run(runs, run)}{mark.text}") for mark in drawn[1]]
            if (top := best_point(run, name)) is not None:
                axes.plot(*top, "*", color=run.colour, markersize=12, markeredgecolor=INK, markeredgewidth=0.6)
                marks.append(Mark(*top, f"{of_run(runs, run)}the best: {_told(top[1], name, int(top[0]))}"))
        axes.set(xlabel="step", ylabel=short(title))
        legend(axes, lines, (run.name for run in having))
        return marks

    return picture(draw, *_texts(name, title, having))


def _draw_series(axes: Any, run: Run, found: Sequence[Curve | None]) -> tuple[Any, list[Mark]]:
    """Draws the curves of one metric of a run; returns a handle for the legend, and the marks."""
    logged, *measured = found
    lines, marks = [], []
    if logged is not None:
        axes.plot(*_few(logged.steps, logged.values), color=run.colour, alpha=0.3, linewidth=0.8)
        style = "o-" if len(logged.steps) == 1 else "-"  # a line through only one point would be invisible
        steps, values = _few(logged.steps, logged.smoothed())
        lines += axes.plot(steps, values, style, color=run.colour, linewidth=1.6, markersize=4)
        marks += _marks(steps, values, "training, running mean")
    for curve, marker, what in zip(measured, ("s--", "D-"), ("validation", "evaluation"), strict=True):
        if curve is not None:
            lines += axes.plot(curve.steps, curve.values, marker, color=run.colour, linewidth=1, markersize=4)
            marks += _marks(curve.steps, curve.values, what)
    return lines[0], marks


def _marks(steps: Floats64, values: Floats64, what: str) -> list[Mark]:
    points = zip(steps.tolist(), values.tolist(), strict=True)
    return [Mark(step, value, f"{what}, step {int(step):,}: {value:.4g}") for step, value in points]


def _told(value: float, name: str, step: int) -> str:
    return f"{name} {value:.4g} at step {step:,}"


def best_point(run: Run, name: str) -> tuple[float, float] | None:
    """(step, value) of the best validation or evaluated checkpoint by a metric; None if there are fewer than two.

    Validations that no longer count for best/ do not count here either.
    """
    higher = {one.name: one.higher_is_better for one in run.samples.described()}
    validated, evaluated = (_points(part.get(name)) for part in _series(run)[1:])
    points = [point for point in validated if point[0] not in run.forgotten] + evaluated
    if name not in higher or len(points) < 2:
        return None
    return max(points, key=lambda point: (point[1] if higher[name] else -point[1], -point[0]))


def _points(curve: Curve | None) -> list[tuple[float, float]]:
    return [] if curve is None else list(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def _texts(name: str, title: str, runs: Sequence[Run]) -> tuple[str, str]:
    """The alternative text and the caption of the curves of a metric."""
    logged = [run for run in runs if name in run.curves]
    parts = [part for run in runs for part in _series(run)]
    ends = "; ".join(f"{run.name}: {run.curves[name].smoothed()[-1]:.4g}" for run in logged)
    best = "; ".join(
        f"{run.name}: {_told(top[1], name, int(top[0]))}" for run in runs if (top := best_point(run, name)) is not None
    )
    is_dot = all(len(run.curves[name].steps) == 1 for run in logged)
    drawn = "the dot is the one batch that was logged" if is_dot else "single batches (pale) and their running mean"
    told = [f"{title} over the steps{f': {drawn}' if logged else ''}."]
    told += ["Squares are validations."] if any(name in run.validations for run in runs) else []
    told += ["Diamonds are evaluated checkpoints."] if any(name in part for part in parts[2::3]) else []
    told += [f"The star is the best: {best}."] if best else []
    alt = f"{title} over the steps of the training{f', at its end {ends}' if ends else ''}"
    return f"{alt}{f'; the best measured {best}' if best else ''}", " ".join(told)


def _few(steps: Floats64, values: Floats64, most: int = 500) -> tuple[Floats64, Floats64]:
    """The curve thinned to at most `most` points."""
    every = -(-len(steps) // most)
    return steps[::every], values[::every]
