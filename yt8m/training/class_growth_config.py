"""The options of `yt8m add-classes`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from yt8m.config.of_run import same_as
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.options import Checked, option
from yt8m.registry import TRUST_HELP


@dataclass(frozen=True)
class AddClassesConfig(Checked):
    """A trained run, the data with the classes to add, and the folder of the run to make."""

    model: str = option("", "folder of the trained run", aliases=("train_dir",), is_required=True, is_path=True)
    data: str = option(
        "", "TFRecord files with the new classes, whose vocabulary names all classes", is_required=True, is_path=True
    )
    out: str = option("", "folder of the run to make", is_required=True, is_path=True)
    from_text: str = option(
        "",
        "CSV file with the column name, and perhaps prompt: adds these classes by a network of pictures and text, "
        "without data",
        is_path=True,
    )
    template: str = option("a video of {}", "with --from_text: the text of a class without a prompt; {} is its name")
    rename: str = same_as(TrainConfig, "rename", needs="")
    eval_data_pattern: str = option(
        "",
        "TFRecord files on which old and new model are compared [those of --data with validate in place of train]",
        is_path=True,
        flag="eval_data",
    )
    num_epochs: int = option(10, "passes over the data", minimum=1)
    batch_size: int | None = option(None, "examples per step [as in the run]", minimum=1)
    base_learning_rate: float | None = option(None, "the learning rate [as in the run]", minimum=1e-12, maximum=1e6)
    train_only: str = option("new", "new: only the new classes learn; empty: the whole model does", choices=("", "new"))
    trust_code: bool = option(False, TRUST_HELP)

    def is_required(self, field: dataclasses.Field[Any]) -> bool:
        """Whether an option must be given; classes that are added by their texts need no data."""
        return super().is_required(field) and not (field.name == "data" and self.from_text)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.from_text and self.data:
            raise UsageError("--from_text adds classes without --data; give one of them.")
        if "{}" not in self.template:
            raise UsageError(f"--template={self.template}: it has no {{}}, which stands for the name of a class.")

    def training_words(self) -> list[str]:
        """The command line of the training."""
        words = [f"--config={self.model}", f"--init_from={self.model}", f"--train_data_pattern={self.data}"]
        words += [f"--train_dir={self.out}", f"--num_epochs={self.num_epochs}", f"--train_only={self.train_only}"]
        optional = dict(rename=self.rename, batch_size=self.batch_size, base_learning_rate=self.base_learning_rate)
        words += [f"--{name}={value}" for name, value in optional.items() if value]
        return [*words, "--trust_code"] if self.trust_code else words
