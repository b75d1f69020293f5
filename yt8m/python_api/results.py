"""What the functions of the Python interface return: figures, rows and predictions, each also as a DataFrame."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yt8m.errors import UsageError, quantity
from yt8m.eval_util.named_figures import NamedFigures, spelling_of

if TYPE_CHECKING:
    import pandas


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> pandas.DataFrame:
    """A DataFrame with these rows, or without rows with these columns; says what to do if pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError("to_frame() needs pandas, which is not installed: run pip install pandas.") from error
    return pandas.DataFrame(list(rows), columns=None if rows else list(columns))


def html_of(cells: Mapping[str, Any], title: str) -> str:
    """A table of two columns for a notebook."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(_shown(value))}</td></tr>"
        for name, value in cells.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return "" if value is None else str(value)


@dataclass(frozen=True)
class ScoredClass:
    """A predicted class: its index, its name in the model's vocabulary, and its score from 0 to 1.

    Attributes:
      index, name, score: as said above.
      few_positives: of a tag whose threshold was chosen on fewer than 20 videos with the label, their number; the
        threshold may be far off. None for other tags, and for classes that are no tags.
    """

    index: int
    name: str
    score: float
    few_positives: int | None = None


@dataclass(frozen=True)
class VideoPrediction:
    """The prediction for one video.

    Attributes:
      id: the id of a record as a text, or the path of a video file.
      classes: the best classes, best first.
      seconds: how many seconds of a video file were scored; None for a record.
      tags: of a video file, the classes whose scores reach their thresholds, best first; None for a record, and if the
        model has no thresholds.
      window_seconds: of a film, which is longer than the videos of the training, the length of the windows in which it
        was scored; 0 for other videos.
    """

    id: str
    classes: tuple[ScoredClass, ...]
    seconds: float | None = None
    tags: tuple[ScoredClass, ...] | None = None
    window_seconds: float = 0.0


class Predictions(Iterator[VideoPrediction]):
    """The predictions for the videos of some data, one after the other; only one batch is in memory."""

    def __init__(self, predictions: Iterator[VideoPrediction]) -> None:
        self._predictions = predictions

    def __next__(self) -> VideoPrediction:
        return next(self._predictions)

    def to_frame(self) -> pandas.DataFrame:
        """The predictions that are left as a DataFrame with the columns id, index, name and score.

        Returns:
          A row for each of the best classes of each video.

        Raises:
          UsageError: pandas is not installed.
          RunError: a record is damaged.
        """
        return frame_of(
            [
                {"id": video.id, "index": scored.index, "name": scored.name, "score": scored.score}
                for video in self
                for scored in video.classes
            ],
            ("id", "index", "name", "score"),
        )

    def __repr__(self) -> str:
        return "<predictions of videos, to be read once: use a for loop, list() or to_frame()>"


class EvaluationReport(NamedFigures):
    """The result of an evaluation: a dict with the content of eval/report.json.

    `GAP`, `mAP`, `Hit@1`, `PERR` and `loss` are found by these names, and by the keys of the file, such as `gap`.

    Attributes:
      intervals: {figure: (low, high)}, the 95 % confidence intervals of the figures; empty if they were not computed.
      thresholds: {name of a class: the score from which on a video gets it as a tag}, chosen for the best F1 on these
        data; empty if they were not chosen.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        intervals: Mapping[str, tuple[float, float]] | None = None,
        thresholds: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(content)
        self.intervals, self.thresholds = dict(intervals or {}), dict(thresholds or {})

    @property
    def figures(self) -> NamedFigures:
        """{name: value} of `GAP`, `mAP`, `Hit@1`, `PERR` and `loss`; None for a value that is not defined."""
        return NamedFigures(self.spelled())

    @property
    def classes(self) -> list[Mapping[str, Any]]:
        """For each class with a label its `class`, `name`, `average_precision` and `positives`."""
        return list(self["classes"])

    def to_frame(self) -> pandas.DataFrame:
        """The classes as a DataFrame, with their thresholds if these were chosen.

        Returns:
          A row for each class with a label.

        Raises:
          UsageError: pandas is not installed.
        """
        added = [{"threshold": self.thresholds.get(row["name"])} if self.thresholds else {} for row in self.classes]
        return frame_of([{**row, **others} for row, others in zip(self.classes, added, strict=True)])

    def __repr__(self) -> str:
        return f"<report on {quantity(self['num_examples'], 'video')}: {self.short()}>"

    def _repr_html_(self) -> str:
        cells = {
            name: f"{_shown(value)} ({', '.join(map(_shown, self.intervals[name]))})"
            if name in self.intervals
            else _shown(value)
            for name, value in self.figures.items()
        }
        return html_of(
            cells,
            f"{self.get('model') or 'model'}, step {self.get('global_step')}: {quantity(len(self.classes), 'class')}",
        )


def _spelled(figures: Any) -> dict[str, Any]:
    """The figures of a run by their spellings, such as `GAP`; none for what are no figures."""
    return {spelling_of(name): value for name, value in figures.items()} if isinstance(figures, Mapping) else {}


def _with_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose `figures`, if it has some, are found by all their spellings."""
    figures = row.get("figures")
    return {**row, "figures": NamedFigures(figures)} if isinstance(figures, Mapping) else dict(row)


class ResultRows(list[dict[str, Any]]):
    """A list of rows, each a dict, that knows what they are.

    Attributes:
      kind: what the rows are, such as `runs`.
      columns: the columns of a DataFrame without rows.
    """

    def __init__(self, kind: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
        super().__init__(map(_with_names, rows))
        self.kind, self.columns = kind, tuple(columns)

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a DataFrame, in which each of the `figures` of a run has a column of its own.

        Returns:
          A row for each.

        Raises:
          UsageError: pandas is not installed.
        """
        return frame_of([{**row, **_spelled(row.get("figures"))} for row in self], self.columns)

    def __repr__(self) -> str:
        return f"<{len(self)} {self.kind}>"

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(itertools.chain.from_iterable(self)))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        lines = ["".join(f"<td>{html.escape(_shown(row.get(name)))}</td>" for name in names) for row in self]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><caption>{html.escape(repr(self)[1:-1])}</caption><tr>{head}</tr>{body}</table>"
