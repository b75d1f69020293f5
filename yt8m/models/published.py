"""The networks that other groups published, and for each the model of this package that computes the same.

To import their checkpoints, this module also finds the variable of our model for each variable of a network. The names
and layouts of published variables are those in the code of the four groups; `tests/models/test_published.py` compares
our models with outputs of that code. Nothing here needs TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError, UsageError, suggestion

Shapes = Mapping[str, tuple[int, ...]]  # {name of a variable: its shape}
Renamed = Sequence[tuple[str, str]]  # (regular expression of published names, replacement that gives our name)


# {name of the group: the repositories with its code}
SOURCES = {
    "google": "https://github.com/google/youtube-8m",
    "willow": "https://github.com/antoine77340/Youtube-8M-WILLOW",
    "wangheda": "https://github.com/wangheda/youtube-8m",
    "linrongc": "https://github.com/linrongc/youtube-8m and https://github.com/linrongc/solution_youtube8m_v3",
}


class Network(NamedTuple):
    """A network that a group published.

    Attributes:
      source: the group, a key of `SOURCES`.
      published_class: the name of the network's class in the group's code.
      model: the name of our model.
      switch: the group's flag that chooses the network within its class; empty if the class has one network.
      always: {option: value} that our model needs to compute the same as the network; the user cannot change them. Most
        of these options cannot be told from the shapes of the variables.
      usual: {option: value} of published flags, and of options for training, whose defaults differ from ours; the user
        can choose other values.
      transforms: {input transform: the group's program that trains with it} if the group's programs differ in it,
        since the variables do not show it; otherwise empty.
      renamed: (regular expression, replacement) of variable names without the scope; the first that matches is used.
    """

    source: str
    published_class: str
    model: str
    switch: str = ""
    always: Mapping[str, Any] = {}
    usual: Mapping[str, Any] = {}
    transforms: Mapping[str, str] = {}
    renamed: Renamed = ()


# What several networks of one kind have as `Network.renamed`.
_EXPERTS = ((r"gating_prob_weights$", "prob_gating/weights"), (r"gating_prob_bn/", "prob_gating/bn/"))
_STREAM = (
    (r"cluster_weights2$", "centres"),
    (r"gate_weights$", "gates"),
    (r"covar_weights$", "spreads"),
    (r"dim_red$", "gate_down/weights"),
    (r"cluster_weights_2$", "gate_up/weights"),
    (r"cluster_bn_2/", "gate_bn/"),
)
_POOLED = (
    *((f"video_[A-Z]+/{pattern}", f"stream_0/{name}") for pattern, name in _STREAM),
    *((f"audio_[A-Z]+/{pattern}", f"stream_1/{name}") for pattern, name in _STREAM),
    (r"video_[A-Z]+/", "stream_0/"),
    (r"audio_[A-Z]+/", "stream_1/"),
    (r"hidden1_weights$", "hidden1/weights"),
    (r"hidden1_biases$", "hidden1/biases"),
    (r"gating_weights_2$", "gating/weights"),
    (r"gating_bn/", "gating/bn/"),
    *_EXPERTS,
)
_NEXTVLAD = (
    *(
        (rf"{feature}_(?:VLAD|vlad)/{theirs}", f"stream_{index}/{ours}")
        for index, feature in enumerate(("video", "audio"))
        for theirs, ours in (
            ("fully_connected/", "expansion/"),
            ("fully_connected_1/", "group_attention/"),
            ("cluster_weights2$", "centres"),
            ("", ""),
        )
    ),
    (r"hidden1_weights$", "hidden1/weights"),
    (r"gating_weights_1$", "se_gating/squeeze/weights"),
    (r"gating_bn/", "se_gating/bn/"),
    (r"gating_weights_2$", "se_gating/excite/weights"),
    (r"mix_weights_bn/", "mixture_bn/"),
    (r"mix_weights/", "mixture/"),
)
_RECURRENT = (
    (r"RNN/", ""),
    (r"attention-/weights$", "attention/weights"),
    (r"(gates|experts)-sub-moe/", r"\1/"),
    *_EXPERTS,
)
_CHAIN = (
    (r"(gates|experts)-prediction-(\d+)/", r"chain_\2/\1/"),
    (r"relu-(\d+)/", r"chain_\1/fully_connected/"),
    (r"(gates|experts)--main/", r"\1/"),
)

# Published variables that our models do not need: biases that add the same to the scores of all frames, which cancels
# in the softmax over the frames.
CANCELLED = ("attention-/biases",)


def _pooling_fields(family: str, **always: Any) -> dict[str, Any]:
    """The fields of `Network` that all of WILLOW's networks with clusters share."""
    usual = dict({f"{family}_relu": True}, input_batch_norm=True, gating=False, l2_penalty=1e-8)
    return {"always": always, "usual": usual, "renamed": _POOLED}


_LINRONGC = {  # `Network.transforms` of the NeXtVLAD networks
    "reverse_whitening": "train.py of linrongc/youtube-8m (2018)",
    "l2_normalize": "train.py of linrongc/solution_youtube8m_v3 (2019)",
}


def _nextvlad_fields(**usual: Any) -> dict[str, Any]:
    """The fields of `Network` that the NeXtVLAD networks share."""
    # The published mixture of experts cannot be imported: it averages logits, and ours probabilities.
    always = dict(as_published=True, video_level_classifier_model="LogisticModel")
    usual = dict(l2_biases=True, l2_penalty=1e-8) | usual
    return {"always": always, "usual": usual, "transforms": _LINRONGC, "renamed": _NEXTVLAD}


_MEMORY_OF_ALL_LAYERS = dict(lstm_memory=True, all_layers=True)
_ATTENTION_ON_INPUT = {"attention_on_input": True}

NETWORKS = (
    Network("google", "LogisticModel", "LogisticModel"),
    Network("google", "MoeModel", "MoeModel"),
    Network("google", "FrameLevelLogisticModel", "FrameLevelLogisticModel"),
    Network("google", "DbofModel", "DbofModel"),
    Network("google", "LstmModel", "LstmModel"),
    Network("willow", "MoeModel", "MoeModel", renamed=_EXPERTS),
    Network("willow", "MoeModel", "GatedMoeModel", "moe_prob_gating", renamed=_EXPERTS),
    Network("willow", "NetVLADModelLF", "NetVladModel", **_pooling_fields("netvlad")),
    Network("willow", "NetVLADModelLF", "NetRvladModel", "lightvlad", **_pooling_fields("netvlad")),
    Network("willow", "NetVLADModelLF", "NetVlagdModel", "vlagd", **_pooling_fields("netvlad")),
    Network("willow", "NetFVModelLF", "NetFvModel", **_pooling_fields("fv", fv_variances_as_whole=True)),
    Network("willow", "SoftDbofModelLF", "SoftDbowModel", **_pooling_fields("dbof", dbof_late_fusion=True)),
    Network("willow", "GatedDbofModelLF", "GatedDbofModel", **_pooling_fields("dbof", dbof_late_fusion=True)),
    Network("willow", "LstmModel", "LstmModel", always=_MEMORY_OF_ALL_LAYERS, renamed=_RECURRENT),
    Network("willow", "GruModel", "GruModel", always={"all_layers": True}, renamed=_RECURRENT),
    Network("wangheda", "LogisticModel", "LogisticModel"),
    Network("wangheda", "MoeModel", "MoeModel"),
    Network("wangheda", "DeepCombineChainModel", "DeepCombineChainModel", renamed=_CHAIN),
    Network("wangheda", "BiLstmModel", "BiLstmModel", always=_MEMORY_OF_ALL_LAYERS, renamed=_RECURRENT),
    Network(
        "wangheda",
        "LstmAttentionMaxPoolingModel",
        "LstmAttentionMaxModel",
        always=_ATTENTION_ON_INPUT,
        renamed=_RECURRENT,
    ),
    Network("linrongc", "NeXtVLADModel", "NeXtVladModel", **_nextvlad_fields()),
    Network(
        "linrongc", "MixNeXtVladModel", "MixNeXtVladModel", **_nextvlad_fields(cl_both_sides=True, cl_temperature=2.0)
    ),
)


def find(source: str, model: str) -> Network:
    """The network of a group that corresponds to one of our models.

    Args:
      source: the group, a key of `SOURCES`.
      model: the name of our model.

    Raises:
      UsageError: there is no such group, or none of its networks corresponds to the model; the message lists the
        models to which one does.
    """
    if source not in SOURCES:
        raise UsageError(f"--from={source}: expected {' or '.join(SOURCES)}{suggestion(source, SOURCES)}")
    of_source = [network for network in NETWORKS if network.source == source]
    for network in of_source:
        if network.model == model:
            return network
    importable = ", ".join(map(_both_names, of_source))
    other_sources = [network.source for network in NETWORKS if network.model == model]
    hint = f" {model} is a network of --from={' or '.join(other_sources)}." if other_sources else ""
    raise UsageError(
        f"--model={model} is not among the networks of {source} ({SOURCES[source]}) that can be imported: "
        f"{importable}.{hint}"
    )


def _both_names(network: Network) -> str:
    """The name of our model, followed by the published name of the network if that is another one."""
    published_name = _class_with_switch(network)
    return network.model if published_name == network.model else f"{network.model} ({published_name} there)"


def _class_with_switch(network: Network) -> str:
    """The published name of a network: its class, with the flag that chooses it within the class if there is one."""
    return f"{network.published_class} with --{network.switch}" if network.switch else network.published_class


def options(network: Network, values: Mapping[str, Any], *, usual: bool = True) -> dict[str, Any]:
    """The options with which our model computes the same as the network.

    Args:
      network: the network.
      values: {option: value} that the user chose.
      usual: whether options that the user did not choose get the published defaults.

    Raises:
      UsageError: the network never has the value that the user chose.
    """
    for name, value in network.always.items():
        if values.get(name, value) != value:
            raise UsageError(
                f"--{name}={values[name]}: {_class_with_switch(network)} of {SOURCES[network.source]} always has "
                f"{value}; leave the flag out."
            )
    return {**(network.usual if usual else {}), **network.always, **values}


class Variable(NamedTuple):
    """The variable of our model that corresponds to a published one, and how to convert the value.

    Attributes:
      name: the name of our variable, without `:0`; empty if our model does not need the published one.
      drops_axis: whether the published variable has a first axis of length 1 that ours lacks.
      transposes: whether our variable is the transpose of the published one (without that axis).
      rows: int [N]: row i of our variable is row rows[i] of the published one; None if the order is the same.
    """

    name: str
    drops_axis: bool = False
    transposes: bool = False
    rows: NDArray[np.intp] | None = None

    def shape(self, published_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of our variable, given the shape of the published one."""
        has_axis = self.drops_axis and published_shape[:1] == (1,)
        without_axis = published_shape[1:] if has_axis else published_shape
        return without_axis[::-1] if self.transposes else without_axis

    def to_ours(self, value: NDArray[Any]) -> NDArray[Any]:
        """The value of our variable, given that of the published one."""
        converted = np.squeeze(value, 0) if self.drops_axis else value
        converted = converted.T if self.transposes else converted
        return converted if self.rows is None else converted[self.rows]


# The scope of all variables of our models, and of the published ones except in code of 2017, which has none.
SCOPE = "tower/"

# In TensorFlow 1.0 and 1.1 recurrent cells named their variables `weights` and `biases`; ours have the later names.
_FORMER_CELLS = re.compile(r"(basic_lstm_cell|gru_cell/gates|gru_cell/candidate)/(weights|biases)$")
_CELLS = {"weights": "kernel", "biases": "bias"}


def variables(network: Network, shapes: Shapes) -> dict[str, Variable]:
    """Finds the variable of our model, and the order of its rows, for each variable of a published network.

    Args:
      network: the network.
      shapes: {name of each published variable, without `:0`, with or without the scope `tower`: its shape}.

    Returns:
      {name of the published variable, as in `shapes`: our variable}.

    Raises:
      RunError: the number of a variable's rows does not fit the number of the network's clusters or cells.
    """
    without_scope = {name.removeprefix(SCOPE): shape for name, shape in shapes.items()}
    by_name = {name: _find_variable(network.renamed, name.removeprefix(SCOPE), without_scope) for name in shapes}
    if network.published_class == "BiLstmModel":
        for name in shapes:
            if name.endswith(("gates/weights", "experts/weights")):
                by_name[name] = by_name[name]._replace(rows=_order_by_layer(shapes))
    for name, variable in by_name.items():
        if variable.rows is not None and shapes[name][:1] != variable.rows.shape:
            raise RunError(
                f"{name} has the shape {list(shapes[name])}, but the network's clusters or cells, as its other "
                f"variables show them, make {len(variable.rows)} rows: it is not the {network.published_class} "
                f"of {SOURCES[network.source]}."
            )
    return by_name


def _find_variable(renamed: Renamed, name: str, shapes: Shapes) -> Variable:
    """Finds our variable for a published one.

    Args:
      renamed: see `Network`.
      name: name of the published variable, without the scope.
      shapes: the shapes of all published variables, by name without the scope.
    """
    if name in CANCELLED:
        return Variable("")
    branch, own_name = re.fullmatch(r"(branch_\d+/)?(.*)", name, re.DOTALL).groups("")  # type: ignore[union-attr]
    for pattern, replacement in renamed:
        changed, count = re.subn(f"^{pattern}", replacement, own_name)
        if count:
            break
    else:
        changed = own_name
    ours = _FORMER_CELLS.sub(lambda match: f"{match[1]}/{_CELLS[match[2]]}", changed)
    return _variable_with_layout(f"{SCOPE}{branch}{ours}", branch, own_name, shapes)


def _variable_with_layout(ours: str, branch: str, own_name: str, shapes: Shapes) -> Variable:
    """Our variable, and how its layout differs from the published one.

    Our centres are [clusters, features], so that in pooled vectors the features of a cluster are adjacent.

    Args:
      ours: the name of our variable.
      branch: see `_pooled_matrices`.
      own_name: the name of the published variable, without scope and branch.
      shapes: the shapes of all published variables, by name without the scope.
    """
    last = own_name.rpartition("/")[2]
    if last == "cluster_weights2":
        return Variable(ours, drops_axis=True, transposes=True)
    if last == "covar_weights":
        return Variable(ours, transposes=True)
    if last == "gate_weights":
        return Variable(ours, drops_axis=True)
    if last == "hidden1_weights":
        return Variable(ours, rows=_order_by_cluster(_pooled_matrices(branch, "", shapes)))
    if "/vlad_bn/" in own_name:
        return Variable(ours, rows=_order_by_cluster(_pooled_matrices(branch, own_name[:5], shapes)))
    return Variable(ours)


def _pooled_matrices(branch: str, feature: str, shapes: Shapes) -> list[tuple[int, int]]:
    """The shapes (features, clusters) of the matrices that, flattened and joined, make up the pooled vector.

    Args:
      branch: the scope of one network in a mixture, such as `branch_0/`; empty if there is no mixture.
      feature: video or audio; empty for both.
      shapes: the shapes of all published variables, by name without the scope.

    Returns:
      The shapes; empty if the vector is not made of matrices.
    """
    matrices = []
    for stream in [feature] if feature else ["video", "audio"]:
        for kind in ("VLAD", "vlad", "FV"):
            scope = f"{branch}{stream}_{kind}"
            shape = shapes.get(f"{scope}/cluster_weights2", shapes.get(f"{scope}/cluster_weights"))
            if shape and len(shape) > 1:
                # A Fisher vector has two matrices: the statistics of first and of second order.
                matrices += [(shape[-2], shape[-1])] * (2 if kind == "FV" else 1)
    return matrices


def _order_by_cluster(matrices: Sequence[tuple[int, int]]) -> NDArray[np.intp] | None:
    """For each value of our pooled vector, its index in the published one.

    The published vector is made of matrices [F, K], ours of the same matrices as [K, F].

    Args:
      matrices: (F, K) of each matrix.

    Returns:
      int [N]; None if there are no matrices.
    """
    order, start = [], 0
    for features, clusters in matrices:
        order.append(start + np.arange(features * clusters).reshape(features, clusters).T.ravel())
        start += features * clusters
    return np.concatenate(order) if order else None


def _order_by_layer(shapes: Shapes) -> NDArray[np.intp] | None:
    """For each value of our final state of a bidirectional LSTM, its index in the published one.

    The published state is sorted by direction and then by layer, ours by layer and then by direction.

    Args:
      shapes: the shapes of all published variables, by name.

    Returns:
      int [N]; None if there is no variable of an LSTM cell that runs forwards.
    """
    biases = re.compile(r"/fw/.*/basic_lstm_cell/bias(es)?$")
    cells = [shape[0] // 4 for name, shape in shapes.items() if shape and biases.search(name)]
    if not cells:
        return None
    places = np.arange(2 * len(cells) * 2 * cells[0]).reshape(2, len(cells), 2 * cells[0])
    return places.transpose(1, 0, 2).ravel()
