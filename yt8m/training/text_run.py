"""`yt8m from-text`: makes a run from texts that name its classes, without training; or adds classes to such a run.

SigLIP and CLIP map pictures and texts to vectors that can be compared. The vectors of the classes' texts become the
weights of a `LogisticModel` on features of unit length. The run can then be used and trained like any other run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import extractors
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.datasets.extract import choose, weights
from yt8m.datasets.extract.computing import Settings, describe_extractors, locate
from yt8m.errors import UsageError, quantity
from yt8m.extractors.hugging_face import EVEN_COSINE, HuggingFaceNetwork, TextClassifier, text_classifier
from yt8m.graph.restore import name_of_weights
from yt8m.lazy import tf
from yt8m.options import Checked, option, path_option
from yt8m.records import vocabulary
from yt8m.runs.opened_run import OpenedRun, open_run
from yt8m.scoring.video_features import refuse_code, refuse_other_weights
from yt8m.storage import copies
from yt8m.storage.new_outputs import new_output
from yt8m.tables.reading import open_columns
from yt8m.tables.words.class_names import clean_name
from yt8m.training.checkpoint_import import write_run

# Names of the variables of a `LogisticModel`: weights [D, C] and biases [C], for D values of the features, C classes.
_VARIABLES = ("tower/fully_connected/weights", "tower/fully_connected/biases")
# {whether the network has a bias: what the scores of the classes then mean}
_MEANINGS = {
    True: "A score is the network's probability that the text fits.",
    False: "The network has no bias, so a score is no probability: it only ranks classes and videos, and is 0.5 at a "
    f"cosine of {EVEN_COSINE:g}. With labels, yt8m eval --report chooses a threshold for each class (yt8m predict "
    "--tags), and --calibrated_run scales the scores to probabilities.",
}


@dataclass(frozen=True)
class TextConfig(Checked):
    """The flags of `yt8m from-text`."""

    _: KW_ONLY
    classes: str = path_option(
        "table or list with the names of the classes, and perhaps a prompt each; prompts of one name are averaged",
        is_required=True,
    )
    extractor: str = option(
        "",
        "hf:NAME of a network of pictures and text: SigLIP (scores are probabilities) or CLIP (scores only rank)",
        is_required=True,
    )
    out: str = path_option("folder of the run to write", is_required=True)
    template: str = option("a video of {}", "the text of a class without a prompt; {} is its name")
    frames_per_second: float = option(1.0, "frames that are taken of a second", minimum=1e-3, maximum=1000)
    max_frames: int = option(300, "frames of a video", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if "{}" not in self.template:
            raise UsageError(
                f"--template={self.template}: it has no {{}}, which stands for the name of a class; write it like "
                "'a video of {}'."
            )


def run(config: TextConfig, settings: Mapping[str, Any]) -> int:
    """Makes a run out of the texts in --classes, writes it to --out, and returns the exit status.

    Args:
      settings: {name: value} of the extractor's options.

    Raises:
      UsageError: the table or the network cannot be used, or the folder exists already.
      RunError: weights cannot be fetched.
    """
    with new_output(config.out, repr((config, settings)), sources=[config.classes]) as is_done:
        return 0 if is_done else _make(config, settings)


def _make(config: TextConfig, settings: Mapping[str, Any]) -> int:
    """Computes the weights of the classes, and writes the run; returns the exit status 0."""
    prompts = read_prompts(config.classes, config.template)
    (chosen,) = choose((config.extractor,), settings)
    extractor = chosen.extractor
    if not isinstance(extractor, HuggingFaceNetwork) or extractor.pooling != "output":
        raise UsageError(
            f"--extractor={config.extractor}: expected hf:NAME with its pooled output (without --pooling=mean) of a "
            "network of pictures and text such as SigLIP or CLIP."
        )
    (located,) = locate([chosen])
    classifier = text_classifier(extractor, located.weights.paths["hf_model"], list(prompts.values()))
    width, count = classifier.weights.shape
    entries = describe_extractors([located], [None], Settings(config.frames_per_second, config.max_frames))
    data = DataConfig(
        feature_names=(f"mean_{extractor.feature}",),
        feature_sizes=(width,),
        num_classes=count,
        max_frames=config.max_frames,
        extractors=tuple(entries),
    )
    trained = TrainConfig(train_dir=config.out, data=data, model=ModelConfig("LogisticModel"))
    values = dict(zip(_VARIABLES, (classifier.weights, classifier.biases), strict=True))
    write_run(trained, values, 0, vocabulary.of_names(list(prompts)), f"made from texts by {config.extractor}")
    print(
        f"{config.out}: {quantity(count, 'class')} as texts of {config.extractor}, {width} values of "
        f"mean_{extractor.feature}"
    )
    print(_MEANINGS[classifier.has_bias])
    print(f"Tag a video by\n  yt8m predict --model={config.out} clip.mp4")
    return 0


def read_prompts(path: str, template: str, flag: str = "classes") -> dict[str, list[str]]:
    """{name of a class: its texts} from a table, in the order of the table.

    Args:
      template: the text of a class without a prompt; {} stands for the name of the class.
    """
    prompts: dict[str, list[str]] = {}
    for rows in open_columns(f"--{flag}", path, ["name"], optional=["prompt"]).batches(8192):
        for number, problem in rows.bad.items():
            raise UsageError(f"--{flag}={path}, row {number}: {problem}.")
        texts = rows.cells.get("prompt", [""] * rows.size)
        for number, (cell, prompt) in enumerate(zip(rows.cells["name"], texts, strict=True), rows.first):
            name = clean_name(str(cell or ""))
            if not name or vocabulary.has_control_character(name):
                problem = "holds a line break or a control character; remove it" if name else "is empty"
                raise UsageError(f"--{flag}={path}, row {number}: the name {problem}.")
            prompts.setdefault(name, []).append(str(prompt or "").strip() or template.replace("{}", name))
    if not prompts:
        raise UsageError(f"--{flag}={path} has no classes: add a row for each class.")
    return prompts


def add_classes(model: str, classes: str, template: str, out: str, *, trust_code: bool = False) -> int:
    """Writes a run with the classes of another run and those of a table; returns the exit status.

    Args:
      model: folder of the other run, which must be like one that `yt8m from-text` makes: a LogisticModel on video-level
        features of exactly one extractor hf:NAME.
      template: the text of a class without a prompt; {} stands for the name of the class.
    """
    with new_output(out, repr((model, classes, template)), sources=[model, classes]) as is_done:
        return 0 if is_done else _grow(model, classes, template, out, trust_code)


def _grow(model: str, classes: str, template: str, out: str, trust_code: bool) -> int:
    """Computes the weights of the new classes, and writes the grown run; see `add_classes`."""
    old = open_run(model, trust_code=trust_code)
    prompts = read_prompts(classes, template, "from_text")
    repeated_names = sorted(set(old.shown_names.names) & prompts.keys())
    if repeated_names:
        raise UsageError(
            f"--from_text={classes}: {model} has the class {repeated_names[0]} already; leave out its rows."
        )
    classifier = _make_classifier(old, list(prompts.values()), trust_code)
    names = vocabulary.of_names([*old.shown_names.names, *prompts])
    step, (matrix, biases) = _old_weights(old)
    grown = (np.concatenate([matrix, classifier.weights], 1), np.concatenate([biases, classifier.biases]))
    values = dict(zip(_VARIABLES, grown, strict=True))
    data = dataclasses.replace(old.config.data, num_classes=len(names), vocabulary="")
    config = TrainConfig(train_dir=out, data=data, model=old.config.model)
    write_run(config, values, step, names, f"made from {model}, with {quantity(len(prompts), 'class')} added by texts")
    old_classes = quantity(len(names) - len(prompts), "class")
    print(f"{out}: {old_classes} of {model}, {quantity(len(prompts), 'new class')} by their texts")
    if data.one_class:
        print(
            f"each video has one class, as in {model}: its scores add up to 1, over all classes now, so those of "
            "former classes are lower where a new one fits"
        )
    return 0


def _make_classifier(old: OpenedRun, prompts: list[list[str]], trust_code: bool) -> TextClassifier:
    """Computes the weights of the classes to add, by the network that computed the features of the run."""
    entries, data = old.extractors, old.config.data
    has_one_network = len(entries) == 1 and str(entries[0]["name"]).startswith("hf:")
    if not has_one_network or old.config.model.model != "LogisticModel" or data.frame_features:
        raise UsageError(
            f"--from_text: {old.folder} cannot get classes from texts. It must be a LogisticModel on video-level "
            "features of exactly one extractor hf:NAME, as `yt8m from-text` makes it. To any other run, add classes by "
            "--data with labelled videos."
        )
    entry: Any = entries[0]
    refuse_code(old.folder, [entry], {}, is_trusted=trust_code or old.is_own)
    extractor = extractors.create(entry["name"], entry["settings"])
    if not isinstance(extractor, HuggingFaceNetwork) or extractor.pooling != "output":
        raise UsageError(
            f"--from_text: {old.folder} cannot get classes from texts, because its features are not the pooled output "
            f"of {entry['name']}, with which texts can be compared. Add classes by --data with labelled videos."
        )
    files = weights.find(extractor, entry["name"])
    refuse_other_weights(old.folder, entry, files)
    return text_classifier(extractor, files.paths["hf_model"], prompts)


def _old_weights(old: OpenedRun) -> tuple[int, list[NDArray[np.float32]]]:
    """Reads the newest checkpoint of a run; returns (step, [weights [D, C], biases [C]]).

    If the checkpoint has moving averages of the weights and biases, these are returned.
    """
    checkpoint = tf.train.load_checkpoint(copies.copy_of(old.checkpoint()))
    names = [name_of_weights(name, checkpoint.get_variable_to_shape_map()) for name in _VARIABLES]
    return int(checkpoint.get_tensor("global_step")), [checkpoint.get_tensor(name) for name in names]
