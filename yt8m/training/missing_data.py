"""What a training without data means: a bare one takes the sample data, and any other one is refused.

Whoever names a folder, weights or features means data of their own, and has forgotten to name them. A run that was
trained on the sample data goes on with them.
"""

from __future__ import annotations

from collections.abc import Collection

from yt8m import options
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.runs.default_data import is_sample_data


def flags_of_own_data() -> list[str]:
    """The flags that nobody gives to a training of the sample data: paths, and what the features are."""
    paths = [path for path in options.paths_where(TrainConfig, is_path=True) if not path.startswith("storage.")]
    # The names of the features follow from --frame_features, so that one is looked at first.
    names = ["frame_features", *options.paths_where(DataConfig, shapes="variables")]
    described = [*paths, *(f"data.{name}" for name in names)]
    return [run_dir.flag_at(path) for path in dict.fromkeys(described) if path != "data.data_pattern"]


def refuse(config: TrainConfig, typed: Collection[str] = ()) -> None:
    """Raises `UsageError` unless a training that names no data is a bare one, or one that goes on with sample data.

    Args:
      typed: flags that the user gave, also if their values are the defaults.
    """
    saved = run_dir.read(config.train_dir) if config.train_dir else None
    if saved is not None and is_sample_data(saved.config.data):
        return
    if saved is not None and not config.checkpoints.start_new_model:
        raise UsageError(
            f"--train_data_pattern is missing: {config.train_dir} has a run that was trained on "
            f"{saved.config.data.data_pattern}; name the files again (--data for short), or another folder."
        )
    changed = {*map(run_dir.flag_at, options.changed(config)), *typed}
    if own_flags := [flag for flag in flags_of_own_data() if flag in changed]:
        raise UsageError(
            f"--train_data_pattern is missing (--data for short): name the files to train on beside --{own_flags[0]}. "
            "Only a bare training takes the sample data; `yt8m sample-data --out=data` makes some to name."
        )
