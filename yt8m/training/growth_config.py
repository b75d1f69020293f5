"""The options of `yt8m add-classes`."""

from __future__ import annotations

from dataclasses import Field, dataclass
from typing import Any

from yt8m import terminal
from yt8m.config.of_run import same_as
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.options import Checked, option, path_option
from yt8m.registry import TRUST_HELP


@dataclass(frozen=True)
class AddClassesConfig(Checked):
    """The options of `yt8m add-classes`: a trained run, data or texts of the new classes, and the run to make."""

    model: str = path_option("folder of the trained run", aliases=("train_dir",), is_required=True)
    data: str = path_option("TFRecord files with the new classes, whose vocabulary names all classes", is_required=True)
    out: str = path_option("folder of the run to make", is_required=True)
    from_text: str = path_option(
        "CSV file with the column name, and optionally prompt: adds these classes by a network of pictures and text, "
        "without data"
    )
    template: str = option("a video of {}", "with --from_text: the text of a class without a prompt; {} is its name")
    rename: str = same_as(TrainConfig, "rename", needs="")
    eval_data_pattern: str = path_option(
        "TFRecord files on which old and new model are compared [those of --data with validate in place of train]",
        flag="eval_data",
    )
    num_epochs: int = option(10, "passes over the data", minimum=1)
    batch_size: int | None = option(None, "examples per step [as in the run]", minimum=1)
    base_learning_rate: float | None = option(None, "the learning rate [as in the run]", minimum=1e-12, maximum=1e6)
    train_only: str = option("new", "new: only the new classes learn; empty: the whole model does", choices=("", "new"))
    trust_code: bool = option(False, TRUST_HELP)
    json: bool = option(False, terminal.JSON_HELP)

    def is_required(self, field: Field[Any]) -> bool:
        """Whether the user must give the option of `field`; --data is not required if --from_text is given."""
        return super().is_required(field) and not (field.name == "data" and self.from_text)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.from_text and self.data:
            raise UsageError("--from_text adds classes without --data; give one of them.")
        if self.from_text and self.json:
            raise UsageError("--json prints how good the classes are, but --from_text compares none: leave it out.")
        if "{}" not in self.template:
            raise UsageError(
                f"--template={self.template}: it has no {{}}, which stands for the name of a class; write it like "
                "'a video of {}'."
            )

    def training_words(self) -> list[str]:
        """The words of the command line `yt8m train WORDS` that trains the new run.

        The position in the data is saved, since passes are few: after a kill, the rest of a pass would be skipped.
        Records are not copied to a GPU ahead, which the saved position would not know; that only costs time.
        """
        words = [f"--config={self.model}", f"--init_from={self.model}", f"--train_data_pattern={self.data}"]
        words += [f"--train_dir={self.out}", f"--num_epochs={self.num_epochs}", f"--train_only={self.train_only}"]
        optional = dict(rename=self.rename, batch_size=self.batch_size, base_learning_rate=self.base_learning_rate)
        words += [f"--{name}={value}" for name, value in optional.items() if value]
        words += ["--exact_resume", "--noprefetch_to_device"]
        return [*words, "--trust_code"] if self.trust_code else words
