"""Compares the config of a run with that of its next start, and decides which options a resumed run may change.

Each option declares by its argument `shapes` (see `yt8m.options.option`) what another value of it changes. For example,
another `--moe_num_mixtures` changes the variables, so it is refused. Another `--precision` changes the graph, so the
model's code builds the graph again, and the saved graph is not used. Another `--num_readers` also changes the order of
examples, so the data are read from their beginning. Another `--log_every_n_steps` changes nothing of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from yt8m import losses, models, options
from yt8m.config.run_dir import SavedRun, flag_at
from yt8m.config.search_config import TRANSFORM, USUAL_TRANSFORM
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.options import Shapes, Shaping

_TRANSFORM = f"model.hyper_parameters.{TRANSFORM}"
# The options that set the initial weights, so a change matters only until the run has taken a step.
_INITIAL = ["init_from", *options.paths_where(TrainConfig, needs="init_from")]


class Change(NamedTuple):
    """An option that has another value at the next start of a run.

    Attributes:
      name: the path of the option in the config, such as `data.batch_size`.
      shapes: what another value changes, see `yt8m.options.option`: variables, graph, input or nothing.
    """

    name: str
    shapes: Shapes
    old: Any
    new: Any

    @property
    def matters_at_the_start(self) -> bool:
        """Whether the new value makes a difference to a run that has not taken a step yet."""
        return self.shapes != "nothing" or self.name in _INITIAL

    def __str__(self) -> str:
        return f"{flag_at(self.name)}: {_format_value(self.old)} -> {_format_value(self.new)}"


def list_changes(old: SavedRun, new: TrainConfig) -> list[Change]:
    """Lists the options that differ between the config of a run and that of its next start.

    An option that the run did not save, because it did not exist at that time, counts as equal. So does the number of
    classes of a run of the published code, because that code never saves the number.
    """
    before, after = (options.flat(dataclasses.asdict(config)) for config in (old.config, new))
    if old.published:
        del before["data.num_classes"]
    for values in (before, after):  # the usual transform is not saved
        values.setdefault(_TRANSFORM, USUAL_TRANSFORM)
    transform = Shaping(_TRANSFORM, "variables", after[_TRANSFORM], None)
    others = [option for option in shaping(new) if option.name != _TRANSFORM]
    return [
        Change(option.name, option.shapes, before[option.name], after[option.name])
        for option in (*others, transform)
        if option.name in before and before[option.name] != after[option.name]
    ]


def refuse_other_model(train_dir: str, changed_options: list[Change]) -> None:
    """Raises `UsageError` if an option that shapes the variables has changed; the message names each such option."""
    refused = [str(change) for change in changed_options if change.shapes == "variables"]
    if refused:
        raise UsageError(
            f"{train_dir} holds a run of another model ({'; '.join(refused)}). Give the same flags to resume it, "
            "another --train_dir, or --start_new_model to move it aside."
        )


def shaping(config: TrainConfig) -> Iterator[Shaping]:
    """Yields what each option of a run, and each hyper-parameter of its model and loss, affects in a resumed run."""
    model = config.model
    yield from options.shaping(config)
    yield from _shaping_of_class("model.hyper_parameters", models.get(model.model), model.hyper_parameters)
    yield from _shaping_of_class(
        "model.loss_hyper_parameters", losses.get(model.label_loss), model.loss_hyper_parameters
    )


def _shaping_of_class(section: str, cls: Any, values: Mapping[str, Any]) -> Iterator[Shaping]:
    declared = options.declared(cls)
    for name, value in values.items():
        shapes = declared[name].shapes if name in declared else "variables"
        for path, inner in options.flat({name: value}, f"{section}.").items():
            yield Shaping(path, shapes, inner, None)


def _format_value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
