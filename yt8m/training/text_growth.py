"""Adds classes to a run by their names alone: a run on features of a network that compares pictures with texts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import extractors, registry
from yt8m.config.train_config import TrainConfig
from yt8m.datasets.extract import weights
from yt8m.errors import UsageError
from yt8m.export.saved_model import refuse_used
from yt8m.extractors.hugging_face import HuggingFaceNetwork, TextClassifier, text_classifier
from yt8m.graph.restore import name_of_weights
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.runs.opened_run import OpenedRun, open_run
from yt8m.scoring.video_features import refuse_code, refuse_other_weights
from yt8m.storage import copies
from yt8m.training.checkpoint_import import write_run
from yt8m.training.text_run import read_prompts

_VARIABLES = ("tower/fully_connected/weights", "tower/fully_connected/biases")


def run(model: str, classes: str, template: str, out: str, *, trust_code: bool = False) -> int:
    """Writes a run with the classes of another one and those of a table; returns the exit status.

    Args:
      model: folder of the run, a LogisticModel on the mean features of one network of pictures and text.
      classes: table as of `yt8m from-text`.
      template: the text of a class without a prompt; {} is its name.
      out: folder of the run to write.
      trust_code: use the network's own code, if it has some.

    Raises:
      UsageError: the run is another one, it has a class of the table already, or the folder exists.
      RunError: weights cannot be fetched or read.
    """
    refuse_used(out)
    old = open_run(model, trust_code=trust_code)
    prompts = read_prompts(classes, template, "from_text")
    repeated_names = sorted(set(old.shown_names.names) & prompts.keys())
    if repeated_names:
        raise UsageError(
            f"--from_text={classes}: {model} has the class {repeated_names[0]} already; leave out its rows."
        )
    classifier = _classifier(old, list(prompts.values()), trust_code)
    names = vocabulary.of_names([*old.shown_names.names, *prompts])
    step, (matrix, biases) = _old_weights(old)
    values = dict(
        zip(
            _VARIABLES,
            (np.concatenate([matrix, classifier.weights], 1), np.concatenate([biases, classifier.biases])),
            strict=True,
        )
    )
    data = dataclasses.replace(old.config.data, num_classes=len(names), vocabulary="")
    config = TrainConfig(train_dir=out, data=data, model=old.config.model)
    write_run(config, values, step, names, f"made of {model} and {len(prompts)} classes by their texts")
    print(f"{out}: {len(names) - len(prompts)} classes of {model}, {len(prompts)} new ones by their texts")
    return 0


def _classifier(old: OpenedRun, prompts: list[list[str]], trust_code: bool) -> TextClassifier:
    """The columns of the new classes, by the network that the features of the run are from."""
    entries, data = old.extractors, old.config.data
    is_text = len(entries) == 1 and str(entries[0]["name"]).startswith("hf:")
    if not is_text or old.config.model.model != "LogisticModel" or data.frame_features:
        raise UsageError(
            f"--from_text: {old.folder} must be a LogisticModel on the mean features of one network of pictures and "
            "text, as `yt8m from-text` makes it. Add classes to other runs by data (--data)."
        )
    entry: Any = entries[0]
    is_trusted = trust_code or old.is_own
    registry.set_trust(registry.names_of_code([entry]), old.folder, is_trusted=is_trusted)
    if not is_trusted:
        refuse_code(old.folder, [entry], {})
    extractor = extractors.create(entry["name"], entry["settings"])
    if not isinstance(extractor, HuggingFaceNetwork) or extractor.pooling != "output":
        raise UsageError(f"--from_text: the features of {old.folder} are not the pooled output of its network.")
    files = weights.find(extractor, entry["name"])
    refuse_other_weights(old.folder, entry, files)
    return text_classifier(extractor, files.paths["hf_model"], prompts)


def _old_weights(old: OpenedRun) -> tuple[int, list[NDArray[np.float32]]]:
    """The step of the newest checkpoint, and its weights [D, C] and biases [C], or their moving averages."""
    checkpoint = tf.train.load_checkpoint(copies.copy_of(old.newest_checkpoint()))
    names = [name_of_weights(name, checkpoint.get_variable_to_shape_map()) for name in _VARIABLES]
    return int(checkpoint.get_tensor("global_step")), [checkpoint.get_tensor(name) for name in names]
