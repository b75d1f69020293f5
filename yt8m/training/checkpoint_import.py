"""`yt8m import-checkpoint`: makes a run from a checkpoint that the published code of another group wrote.

`yt8m.models.published` declares which variable of the network becomes which variable of the model, and which ones have
no effect and are left out. If a variable of the network is not declared, or a variable of the model gets no value, the
command fails and names the variable. Values are copied, never summed, averaged or cut. The optimizer's variables are
left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from google.protobuf.message import DecodeError

from yt8m import forks, storage
from yt8m.config import run_dir
from yt8m.config.programs import ImportConfig
from yt8m.config.run_dir import Ended
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError, first_line, quantity
from yt8m.export.saved_model import replaced_folder
from yt8m.graph import collections
from yt8m.graph.restore import assign
from yt8m.lazy import tf
from yt8m.models import published
from yt8m.models.published import Variable
from yt8m.records import vocabulary
from yt8m.records.opened_data import open_data
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import Status, checkpoints, creation
from yt8m.storage import copies
from yt8m.storage.new_outputs import new_output
from yt8m.training import training_run, training_workload
from yt8m.video import workload

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

STEP = "global_step"
# To find the number of classes of a checkpoint, a model with this number of classes and one with a class more are
# built; the difference between their shapes shows how the shapes depend on the number of classes.
_FEW = 2
# Names of an optimizer's variables: its state of the weight `a/w` is in `a/w/Adam`, and the powers of Adam's two decay
# rates are in `beta1_power` and `beta2_power`.
_SLOT = re.compile(r"(.+)/(Adam|AdaMax|Adagrad|Adadelta|Momentum|RMSProp|Ftrl)(_\d+)?")
_POWER = re.compile(r"(.+/)?beta[12]_power(_\d+)?")


def run(request: ImportConfig, config: TrainConfig, flag_names: set[str]) -> int:
    """Writes `--out`, the folder of a run, with one checkpoint; returns the exit status.

    The checkpoint has the step of the imported one, and the initial state of the optimizer. Evaluation, inference and
    export can read it, and a training in the same folder resumes from it.

    Raises:
      UsageError: a flag is wrong, the checkpoint does not exist, the folder exists already, or the vocabulary has
        another number of classes than the checkpoint.
      RunError: the file is not a checkpoint, or does not fit the model.
    """
    with new_output(request.out, repr((request, config)), sources=[request.checkpoint]) as is_done:
        return 0 if is_done else _import(request, config, flag_names)


def _import(request: ImportConfig, config: TrainConfig, flag_names: set[str]) -> int:
    """Reads the checkpoint, and writes the run; see `run`."""
    checkpoint, network = Checkpoint.open(request.checkpoint), published.find(request.source, config.model.model)
    if network.transforms:
        config = _with_input_transform(config, network, checkpoint, "input_transform" in flag_names)
    weights, left_out = checkpoint.split()
    variables_by_name = published.variables(network, weights)
    shapes = {
        name: variables_by_name[name].shape(shape) for name, shape in weights.items() if variables_by_name[name].name
    }
    config, model_shapes = _with_class_count(
        config, request.num_classes, {variables_by_name[name].name: shape for name, shape in shapes.items()}
    )
    classes = open_data(None, vocabulary=config.data.vocabulary)
    names = classes.names_for(vocabulary.of_names(()), config.data.num_classes, checkpoint.path)
    _refuse_misfits(checkpoint.path, config, variables_by_name, weights, model_shapes)
    values = {
        counterpart.name: counterpart.to_ours(checkpoint.value(name))
        for name, counterpart in variables_by_name.items()
        if counterpart.name
    }
    write_run(config, values, checkpoint.step(), names, f"imported from {checkpoint.path}")
    _report_import(config, checkpoint, variables_by_name, left_out)
    return 0


class Checkpoint(NamedTuple):
    """A checkpoint of TensorFlow 1: in format V2 (files `.index` and `.data`), or in format V1, a single file.

    Attributes:
      shapes: {name: shape} of its variables.
    """

    path: str
    reader: Any
    shapes: Shapes

    @classmethod
    def open(cls, path_in_flag: str) -> Checkpoint:
        """Opens the checkpoint that --checkpoint names."""
        path = _find_prefix(path_in_flag)
        is_single = not storage.exists(f"{path}.index")
        if is_single and not storage.exists(path):
            raise UsageError(
                f"--checkpoint={path_in_flag}: there is neither {path}.index nor a file {path}; name the prefix of a "
                "checkpoint, such as run/model.ckpt-700000."
            )
        local_path = copies.file_copy(path) if is_single else copies.copy_of(path)
        try:
            reader = tf.train.load_checkpoint(local_path)
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise RunError(
                f"{path} is not a checkpoint of TensorFlow, or is damaged: {first_line(error)}. Copy it again, or "
                "name another one."
            ) from error
        shapes = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
        return cls(path, reader, shapes)

    def split(self) -> tuple[Shapes, list[str]]:
        """Divides the variables into those of the network and the others (the step and the optimizer's variables).

        Returns:
          {name: shape} of the network's variables, and the names of the others.
        """
        left_out = [name for name in sorted(self.shapes) if name == STEP or self._is_of_optimizer(name)]
        return {name: self.shapes[name] for name in sorted(self.shapes.keys() - set(left_out))}, left_out

    def _is_of_optimizer(self, name: str) -> bool:
        slot = _SLOT.fullmatch(name)
        return bool(_POWER.fullmatch(name)) or (slot is not None and slot[1] in self.shapes)

    def step(self) -> int:
        """The step at which the checkpoint was saved; 0 if it has no variable `global_step`."""
        return int(self.value(STEP)) if STEP in self.shapes else 0

    def input_transform(self) -> str:
        """Finds out from the graph in the checkpoint's `.meta` file how the network transforms its input.

        Returns:
          `l2_normalize` or `reverse_whitening`; empty if there is no such file, or its graph has neither transform.
        """
        try:
            graph = tf.MetaGraphDef.FromString(storage.read_bytes(f"{self.path}.meta"))
            output = collections.predict_names_in(graph)["input_batch"]
        except (RunError, KeyError, DecodeError):
            return ""
        nodes = {node.name: node for node in graph.graph_def.node}
        last = nodes[output.partition(":")[0]]
        inputs = {nodes[name.lstrip("^").partition(":")[0]].op for name in last.input}
        # Both transforms end in a product: tf.nn.l2_normalize computes x * rsqrt(sum of squares), and the reverse of
        # whitening is (x - offset) * sqrt(eigenvalues). So the factors show which of the two it is.
        transforms = {"Rsqrt": "l2_normalize", "Sub": "reverse_whitening"} if last.op == "Mul" else {}
        return next((transforms[op] for op in sorted(inputs) if op in transforms), "")

    def value(self, name: str) -> np.ndarray:
        """The value of a variable."""
        try:
            value = np.asarray(self.reader.get_tensor(name))
        except Exception as error:  # TensorFlow's reader raises errors of many types
            raise RunError(
                f"{self.path}: the variable {name} cannot be read: {first_line(error)}. The checkpoint may be damaged: "
                "copy it again, or name another one."
            ) from error
        if not np.isfinite(value).all():
            raise RunError(
                f"{self.path}: the variable {name} holds NaN or infinity, so its training had failed; name an "
                "earlier checkpoint."
            )
        return value


def _with_input_transform(
    config: TrainConfig, network: published.Network, checkpoint: Checkpoint, is_given: bool
) -> TrainConfig:
    """The config with the input transform of the checkpoint's graph, or else with the one that the user gave."""
    options, in_graph = dict(config.model.hyper_parameters), checkpoint.input_transform()
    if not in_graph and not is_given:
        choices = ", or ".join(f"--input_transform={name} for {code}" for name, code in network.transforms.items())
        raise UsageError(
            f"the programs of {network.source} transform the input in different ways. The variables do not show which "
            f"way, and there is no graph in {checkpoint.path}.meta that shows it: give {choices}."
        )
    if in_graph and is_given and in_graph != options["input_transform"]:
        raise UsageError(
            f"--input_transform={options['input_transform']}, but the graph in {checkpoint.path}.meta has "
            f"{in_graph}; leave the flag out."
        )
    options["input_transform"] = in_graph or options["input_transform"]
    logging.info("input transform: %s (%s)", options["input_transform"], network.transforms[options["input_transform"]])
    return dataclasses.replace(config, model=dataclasses.replace(config.model, hyper_parameters=options))


def _find_prefix(path_in_flag: str) -> str:
    """Returns the prefix of the checkpoint that the user names by its prefix, one of its files, or its folder."""
    if storage.is_dir(path_in_flag):
        newest = checkpoints.newest_readable(path_in_flag)
        if newest is None:
            raise UsageError(
                f"--checkpoint={path_in_flag}: the folder has no checkpoint named model.ckpt-N; name a file of the "
                "checkpoint."
            )
        return newest
    return re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path_in_flag)


def _with_class_count(
    config: TrainConfig, num_classes: int | None, checkpoint_shapes: Shapes
) -> tuple[TrainConfig, Shapes]:
    """Finds the number of classes of the checkpoint: the one that most sizes of its variables show.

    If no size depends on it, the number stays that of the config.

    Args:
      num_classes: the value of --num_classes; None to derive the number from the shapes of the checkpoint.
      checkpoint_shapes: {name: shape} of the checkpoint's variables, in the layout and by the names of the model.

    Returns:
      The config with the number of classes, and {name: shape} of the variables of the model with that number.
    """
    model = workload.create_model(config.model, config.data)
    few, with_one_more = (training_workload.shapes_of(model, config.data, count) for count in (_FEW, _FEW + 1))
    if num_classes is None:
        votes = Counter(_possible_class_counts(few, with_one_more, checkpoint_shapes))
        num_classes = votes.most_common(1)[0][0] if votes else config.data.num_classes
    # Every size is a * C + b for C classes; two values of C give a and b.
    model_shapes = {
        name: tuple(
            low + (num_classes - _FEW) * (high - low) for low, high in zip(few[name], with_one_more[name], strict=True)
        )
        for name in few
    }
    return dataclasses.replace(config, data=dataclasses.replace(config.data, num_classes=num_classes)), model_shapes


def _possible_class_counts(few: Shapes, with_one_more: Shapes, checkpoint_shapes: Shapes) -> Iterator[int]:
    """Yields the number of classes according to each size in the checkpoint that depends on that number.

    Args:
      few: {name: shape} of the variables of a model with `_FEW` classes.
      checkpoint_shapes: {name: shape} of the checkpoint's variables.
    """
    for name in few.keys() & with_one_more.keys() & checkpoint_shapes.keys():
        for low, high, size in zip(few[name], with_one_more[name], checkpoint_shapes[name], strict=False):
            per_class = high - low
            count, remainder = divmod(size - low, per_class) if per_class else (0, 1)
            if not remainder and count + _FEW > 0:
                yield count + _FEW


def _refuse_misfits(
    checkpoint: str,
    config: TrainConfig,
    variables_by_name: Mapping[str, Variable],
    weights: Shapes,
    model_shapes: Shapes,
) -> None:
    """Compares the variables of the checkpoint with those of the model.

    Args:
      weights: {name: shape} of the checkpoint's variables.
      model_shapes: {name: shape} of the model's variables.
    """
    takers = Counter(variable.name for variable in variables_by_name.values() if variable.name)
    untaken = [
        name
        for name, counterpart in variables_by_name.items()
        if counterpart.name and (counterpart.name not in model_shapes or takers[counterpart.name] > 1)
    ]
    lacking = sorted(model_shapes.keys() - takers.keys() - {STEP})
    pairs = [(name, shape, variables_by_name[name]) for name, shape in weights.items()]
    other_shapes = [
        f"{name} has {list(shape)}, and {variable.name} has {list(model_shapes[variable.name])}"
        for name, shape, variable in pairs
        if variable.name in model_shapes and variable.shape(shape) != model_shapes[variable.name]
    ]
    problems = [
        f"no variable of the model takes {', '.join(untaken)}" if untaken else "",
        f"the checkpoint has no variable for {', '.join(lacking)}" if lacking else "",
        f"shapes differ (those of the checkpoint are in its own layout): {'; '.join(other_shapes)}"
        if other_shapes
        else "",
    ]
    if any(problems):
        raise RunError(
            f"{checkpoint} is not of this {config.model.model} with {config.data.num_classes} classes: "
            f"{'; '.join(filter(None, problems))}. Give the flags that it was trained with, and the right --from."
        )


def write_run(config: TrainConfig, values: Mapping[str, np.ndarray], step: int, names: Vocabulary, origin: str) -> None:
    """Writes the folder of a run with the given weights, either complete or not at all.

    Later commands take the run for one that this user made on this machine, so they import the code that it names.

    Args:
      values: {name of a variable of the model: value}.
      names: the vocabulary of the run; empty if it has none.
    """
    with replaced_folder(config.train_dir.rstrip("/")) as part:
        save_checkpoint(checkpoints.path_of(part, step), config, values, step)
        checkpoints.write_state(part, step, keep=1)
        run_dir.write(part, config, names, is_own=True)
        run_dir.note_end(part, Ended(Status.FINISHED, step, origin))


def save_checkpoint(path: str, config: TrainConfig, values: Mapping[str, np.ndarray], step: int) -> None:
    """Saves a checkpoint of the run's training graph, with the given weights and the initial state of the optimizer.

    Variables without a given value get the initial values of a training.
    """
    settings, workload = training_run.runner_config(config), training_workload.create_training(config)
    deployment = creation.deployment_for(settings, quiet=True)
    with tf.Graph().as_default():
        ops = creation.replicate(settings, workload.inputter, workload.modeler, deployment)
        saver, start = tf.train.Saver(), tf.global_variables_initializer()
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        averages = dict(getattr(ops, "averages", ()))
        with forks.new_session(config=creation.session_config(deployment, settings.devices)) as session:
            session.run(start)
            for name, value in values.items():
                for target in (name, averages.get(name)):
                    if target:
                        assign(session, variables[target], value)
            assign(session, variables[STEP], step)
            saver.save(session, path, write_meta_graph=False, write_state=False)


def _report_import(
    config: TrainConfig, checkpoint: Checkpoint, variables_by_name: Mapping[str, Variable], left_out: Sequence[str]
) -> None:
    """Logs which variables were imported and which were not, and prints what the user can do next."""
    for name, variable in variables_by_name.items():
        logging.info("%s -> %s", name, variable.name or "left out: it has no effect in the softmax over the frames")
    optimizer_variables = [name for name in left_out if name != STEP]
    if optimizer_variables:
        logging.info("left out: %s", ", ".join(optimizer_variables))
    taken = sum(bool(counterpart.name) for counterpart in variables_by_name.values())
    print(
        f"{config.train_dir}: {config.model.model} with {quantity(config.data.num_classes, 'class')} at step "
        f"{checkpoint.step()}, "
        f"{taken} variables of {checkpoint.path}; left out: {len(optimizer_variables)} of its optimizer\n"
        f"{training_run.next_commands(config.train_dir)}",
        flush=True,
    )
