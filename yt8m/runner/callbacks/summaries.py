"""The callback that writes summaries for TensorBoard."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from yt8m.lazy import tf
from yt8m.runner import metric_files
from yt8m.runner.hooks import Callback
from yt8m.runner.lines import Every, StepValues
from yt8m.runner.metric_files import EventFile
from yt8m.runner.run_config import Context

# The published tags, which users have in their dashboards; only PERR is spelled differently there.
_FIGURE_TAG, _SPEED_TAG = "model/Training_{}", "global_step/Examples/Second"
_SPELLING = {"PERR": "Perr"}


class TrainSummary(Callback):
    """Writes the graph's summaries at the first step and every `save_summary_steps`, and each log line's values.

    The summaries are fetched as part of a step, so they never consume a batch.

    Args:
      context: the context of the run.
      folder: the folder of the event files; empty for the run's own.
      hyper_parameters: those of the run, for TensorBoard's table; None to leave the run out of the table.
    """

    def __init__(
        self, context: Context, folder: str = "", hyper_parameters: Mapping[str, bool | float | str] | None = None
    ) -> None:
        super().__init__(context)
        self._hyper_parameters, self._is_open, self._has_written = hyper_parameters, False, False
        self._every = Every(steps=context.config.save_summary_steps)
        self._events = EventFile(folder or context.config.model_dir)
        context.line.listen(self._write_line)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Writes the graph and the hyper-parameters, and starts to count."""
        self._every.fired(self.context.step)
        graph = session.graph.as_graph_def(add_shapes=True)
        self._events.add_graph(graph)
        if self._hyper_parameters and not self._is_open:
            self._events.add(metric_files.session_start(self._hyper_parameters), self.context.step)
            self._is_open = True

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the summaries if they are due."""
        is_first = self.context.config.save_summary_steps > 0 and not self._has_written
        is_due = is_first or self._every.due(self.context.step + 1)
        return tf.train.SessionRunArgs(self.context.ops.summary_op) if is_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the summaries."""
        if run_values.results is None:
            return
        self._every.fired(self.context.step)
        self._has_written = True
        summary = tf.Summary.FromString(run_values.results)
        wanted = self.context.config.summary_names
        if wanted:
            kept = [v for v in summary.value if any(fnmatch.fnmatchcase(v.tag, name) for name in wanted)]
            summary = tf.Summary(value=kept)
        self._events.add(summary, self.context.step)

    def end(self, session: tf.Session) -> None:
        """Records that the run ended well."""
        self._end(is_well=True)

    def close(self) -> None:
        """Closes the event file; a run that did not reach `end` failed."""
        self._end(is_well=False)
        self._events.close()

    def _end(self, is_well: bool) -> None:
        if self._is_open:
            self._events.add(metric_files.session_end(is_well), self.context.step)
            self._is_open = False

    def _write_line(self, values: StepValues) -> None:
        tagged = {_FIGURE_TAG.format(_SPELLING.get(name, name)): value for name, value in values.figures.items()}
        if values.examples_per_second is not None:
            tagged[_SPEED_TAG] = values.examples_per_second
        if values.loss is not None:
            tagged["model/Training_Loss"] = values.loss
        self._events.add_scalars(tagged, values.step)
