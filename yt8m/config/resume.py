"""Trainings that begin from a saved run: which options a resumed run may change, and what `--config` takes over.

What a resumed run may change follows from the `shapes` of each option. For example, another `--moe_num_mixtures`
changes the variables: it is refused. Another `--precision` changes the graph: code builds the graph again. Another
`--num_readers` also changes the order of examples: the pass over the data starts again. Another
`--log_every_n_steps` changes nothing in the graph that was saved.

`--config` takes the options of another run. Flags that are given take precedence over them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from yt8m import losses, models, options
from yt8m.config.run_dir import SavedRun
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.options import Shapes, Shaping

_INITIAL = ["init_from", *options.paths_where(TrainConfig, needs="init_from")]  # where initial weights come from


class Change(NamedTuple):
    """An option that has another value at a later start of a run."""

    name: str
    shapes: Shapes
    old: Any
    new: Any

    @property
    def matters_at_the_start(self) -> bool:
        """Whether the new value would give another run, even if no step has been taken yet."""
        return self.shapes != "nothing" or self.name in _INITIAL

    def __str__(self) -> str:
        return f"{self.name.rpartition('.')[2]}: {_shown(self.old)} -> {_shown(self.new)}"


def changes(old: SavedRun, new: TrainConfig) -> list[Change]:
    """The options that differ between the old and the new config.

    Values that the old run did not save count as equal.
    """
    before, after = (options.flat(dataclasses.asdict(config)) for config in (old.config, new))
    if old.published:
        del before["data.num_classes"]
    return [
        Change(option.name, option.shapes, before[option.name], after[option.name])
        for option in shaping(new)
        if option.name in before and before[option.name] != after[option.name]
    ]


def refuse_other_model(train_dir: str, changed_options: list[Change]) -> None:
    """Refuses to resume a run as another model.

    Raises:
      UsageError: a change shapes the variables; the message names each such change.
    """
    refused = [str(change) for change in changed_options if change.shapes == "variables"]
    if refused:
        raise UsageError(
            f"{train_dir} holds a run of another model ({'; '.join(refused)}). Give the same flags to go on with it, "
            "another --train_dir, or --start_new_model to move it aside."
        )


def shaping(config: TrainConfig) -> Iterator[Shaping]:
    """{option: what it shapes} for a run, including the hyper-parameters of its model and loss."""
    model = config.model
    yield from options.shaping(config)
    yield from _of_class("model.hyper_parameters", models.get(model.model), model.hyper_parameters)
    yield from _of_class("model.loss_hyper_parameters", losses.get(model.label_loss), model.loss_hyper_parameters)


def _of_class(section: str, cls: Any, values: Mapping[str, Any]) -> Iterator[Shaping]:
    declared = options.declared(cls)
    for name, value in values.items():
        shapes = declared[name].shapes if name in declared else "variables"
        for path, inner in options.flat({name: value}, f"{section}.").items():
            yield Shaping(path, shapes, inner, None)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
