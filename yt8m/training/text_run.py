"""`yt8m from-text`: makes a run out of the names of its classes, without training.

SigLIP and CLIP compare a picture with a text. The texts of all classes are then a `LogisticModel` on features of unit
length, which predicts, evaluates, serves, exports and trains like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from yt8m.config.train_config import DataConfig, ModelConfig, TrainConfig
from yt8m.datasets.extract import choose, weights
from yt8m.datasets.extract.computing import Settings, describe_extractors
from yt8m.datasets.make_records.tables import open_columns
from yt8m.errors import UsageError
from yt8m.export.saved_model import refuse_used
from yt8m.extractors.hugging_face import EVEN_COSINE, HuggingFaceNetwork, text_classifier
from yt8m.options import Checked, option
from yt8m.records import vocabulary
from yt8m.training.checkpoint_import import write_run

_MEANINGS = {
    True: "A score is the network's probability that the text fits.",
    False: f"The network has no bias: a score ranks classes and videos, is no probability, and is 0.5 at a cosine of "
    f"{EVEN_COSINE:g}. With labels, yt8m eval --report chooses a threshold for each class (yt8m predict --tags), "
    "and --calibrated_run scales the scores to probabilities.",
}


@dataclass(frozen=True)
class TextConfig(Checked):
    """The flags of `yt8m from-text`."""

    _: KW_ONLY
    classes: str = option(
        "",
        "CSV or Parquet file with the column name, and perhaps prompt; prompts of rows with one name are averaged",
        is_required=True,
        is_path=True,
    )
    extractor: str = option(
        "",
        "hf:NAME of a network of pictures and text: SigLIP (scores are probabilities) or CLIP (scores only rank)",
        is_required=True,
    )
    out: str = option("", "folder of the run to write", is_required=True, is_path=True)
    template: str = option("a video of {}", "the text of a class without a prompt; {} is its name")
    frames_per_second: float = option(1.0, "frames that are taken of a second", minimum=1e-3, maximum=1000)
    max_frames: int = option(300, "frames of a video", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if "{}" not in self.template:
            raise UsageError(f"--template={self.template}: it has no {{}}, which stands for the name of a class.")


def run(config: TextConfig, settings: Mapping[str, Any]) -> int:
    """Writes the run; returns the exit status.

    Args:
      config: the flags.
      settings: those of the extractor.

    Raises:
      UsageError: the table or the network cannot be used, or the folder exists already.
      RunError: weights cannot be fetched.
    """
    refuse_used(config.out)
    prompts = read_prompts(config.classes, config.template)
    chosen = choose((config.extractor,), settings)
    extractor = chosen[0].extractor
    if not isinstance(extractor, HuggingFaceNetwork) or extractor.pooling != "output":
        raise UsageError(f"--extractor={config.extractor}: expected hf:NAME with its pooled output.")
    files = weights.find(extractor, config.extractor)
    classifier = text_classifier(extractor, files.paths["hf_model"], list(prompts.values()))
    width, count = classifier.weights.shape
    entries = describe_extractors(chosen, [files], [None], Settings(config.frames_per_second, config.max_frames))
    data = DataConfig(
        feature_names=(f"mean_{extractor.feature}",),
        feature_sizes=(width,),
        num_classes=count,
        max_frames=config.max_frames,
        extractors=tuple(entries),
    )
    trained = TrainConfig(train_dir=config.out, data=data, model=ModelConfig("LogisticModel"))
    values = {"tower/fully_connected/weights": classifier.weights, "tower/fully_connected/biases": classifier.biases}
    write_run(trained, values, 0, vocabulary.of_names(list(prompts)), f"made of texts by {config.extractor}")
    print(f"{config.out}: {count} classes as texts of {config.extractor}, {width} values of mean_{extractor.feature}")
    print(_MEANINGS[classifier.has_bias])
    print(f"Tag a video by\n  yt8m predict --model={config.out} clip.mp4")
    return 0


def read_prompts(path: str, template: str, flag: str = "classes") -> dict[str, list[str]]:
    """{name of a class: its texts} out of a table, in its order.

    Args:
      path: a CSV or a Parquet file with the column `name`, and perhaps `prompt`.
      template: the text of a class without a prompt; {} is its name.
      flag: the flag that names the table, for errors.

    Raises:
      UsageError: there is no such file, it has no column `name`, or a row has no usable name.
      RunError: the file cannot be read.
    """
    prompts: dict[str, list[str]] = {}
    for rows in open_columns(f"--{flag}", path, ["name"], optional=["prompt"]).batches(8192):
        for number, problem in rows.bad.items():
            raise UsageError(f"--{flag}={path}, row {number}: {problem}.")
        texts = rows.cells.get("prompt", [""] * rows.size)
        for number, (cell, prompt) in enumerate(zip(rows.cells["name"], texts, strict=True), rows.first):
            name = str(cell or "").strip()
            if not name or vocabulary.has_control_character(name):
                problem = "holds a line break or a control character; remove it" if name else "is empty"
                raise UsageError(f"--{flag}={path}, row {number}: the name {problem}.")
            prompts.setdefault(name, []).append(str(prompt or "").strip() or template.replace("{}", name))
    if not prompts:
        raise UsageError(f"--{flag}={path} has no classes.")
    return prompts
