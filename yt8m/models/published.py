"""The networks of other groups: which of our models each one is, and where its variables lie in ours.

The names and layouts were read in the code of the four groups, and are compared with vectors that this code made
(`tests/models/test_published.py`). Nothing here needs TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError, UsageError, suggestion

Shapes = Mapping[str, tuple[int, ...]]
Renamed = Sequence[tuple[str, str]]


# {source: the repositories with its code}
SOURCES = {
    "google": "https://github.com/google/youtube-8m",
    "willow": "https://github.com/antoine77340/Youtube-8M-WILLOW",
    "wangheda": "https://github.com/wangheda/youtube-8m",
    "linrongc": "https://github.com/linrongc/youtube-8m and https://github.com/linrongc/solution_youtube8m_v3",
}


class Network(NamedTuple):
    """A network of a group.

    Attributes:
      source: the group that published it, a key of `SOURCES`.
      published_class: its class there.
      model: our model.
      switch: the flag that chooses the network within its class; empty if the class has one network.
      always: {option: value} that make our model this network. Many of them are not visible in its variables.
      usual: {option: value} for published flags whose defaults differ from ours, and for what only training needs.
      transforms: {input transform: the group's code that trains with it}, if its programs have several; no variable
        shows which. Empty if they have one.
      renamed: (pattern, replacement) of names without the scope; the first pattern that fits is used.
    """

    source: str
    published_class: str
    model: str
    switch: str = ""
    always: Mapping[str, Any] = {}
    usual: Mapping[str, Any] = {}
    transforms: Mapping[str, str] = {}
    renamed: Renamed = ()


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

# Biases that shift the scores of all frames alike, and so cancel in a softmax over the frames.
CANCELLED = ("attention-/biases",)


def _of_pooling(family: str, **always: Any) -> dict[str, Any]:
    """What WILLOW's networks of clusters share."""
    usual = dict({f"{family}_relu": True}, input_batch_norm=True, gating=False, l2_penalty=1e-8)
    return {"always": always, "usual": usual, "renamed": _POOLED}


_LINRONGC = {
    "reverse_whitening": "train.py of linrongc/youtube-8m (2018)",
    "l2_normalize": "train.py of linrongc/solution_youtube8m_v3 (2019)",
}


def _of_nextvlad(**usual: Any) -> dict[str, Any]:
    # Its mixture of experts averages logits, and ours probabilities.
    always = dict(as_published=True, video_level_classifier_model="LogisticModel")
    usual = dict(l2_biases=True, l2_penalty=1e-8) | usual
    return {"always": always, "usual": usual, "transforms": _LINRONGC, "renamed": _NEXTVLAD}


_STATES = dict(lstm_memory=True, all_layers=True)
_ATTENTION = {"attention_on_input": True}

NETWORKS = (
    Network("google", "LogisticModel", "LogisticModel"),
    Network("google", "MoeModel", "MoeModel"),
    Network("google", "FrameLevelLogisticModel", "FrameLevelLogisticModel"),
    Network("google", "DbofModel", "DbofModel"),
    Network("google", "LstmModel", "LstmModel"),
    Network("willow", "MoeModel", "MoeModel", renamed=_EXPERTS),
    Network("willow", "MoeModel", "GatedMoeModel", "moe_prob_gating", renamed=_EXPERTS),
    Network("willow", "NetVLADModelLF", "NetVladModel", **_of_pooling("netvlad")),
    Network("willow", "NetVLADModelLF", "NetRvladModel", "lightvlad", **_of_pooling("netvlad")),
    Network("willow", "NetVLADModelLF", "NetVlagdModel", "vlagd", **_of_pooling("netvlad")),
    Network("willow", "NetFVModelLF", "NetFvModel", **_of_pooling("fv", fv_variances_as_whole=True)),
    Network("willow", "SoftDbofModelLF", "SoftDbowModel", **_of_pooling("dbof", dbof_late_fusion=True)),
    Network("willow", "GatedDbofModelLF", "GatedDbofModel", **_of_pooling("dbof", dbof_late_fusion=True)),
    Network("willow", "LstmModel", "LstmModel", always=_STATES, renamed=_RECURRENT),
    Network("willow", "GruModel", "GruModel", always={"all_layers": True}, renamed=_RECURRENT),
    Network("wangheda", "LogisticModel", "LogisticModel"),
    Network("wangheda", "MoeModel", "MoeModel"),
    Network("wangheda", "DeepCombineChainModel", "DeepCombineChainModel", renamed=_CHAIN),
    Network("wangheda", "BiLstmModel", "BiLstmModel", always=_STATES, renamed=_RECURRENT),
    Network("wangheda", "LstmAttentionMaxPoolingModel", "LstmAttentionMaxModel", always=_ATTENTION, renamed=_RECURRENT),
    Network("linrongc", "NeXtVLADModel", "NeXtVladModel", **_of_nextvlad()),
    Network("linrongc", "MixNeXtVladModel", "MixNeXtVladModel", **_of_nextvlad(cl_both_sides=True, cl_temperature=2.0)),
)


def find(source: str, model: str) -> Network:
    """The network of a source that our model builds.

    Raises:
      UsageError: there is no such source, or none of its networks is this model; the message lists those it has.
    """
    if source not in SOURCES:
        raise UsageError(f"--from={source}: expected {' or '.join(SOURCES)}{suggestion(source, SOURCES)}")
    of_source = [network for network in NETWORKS if network.source == source]
    for network in of_source:
        if network.model == model:
            return network
    importable = ", ".join(map(_both_names, of_source))
    others = [network_of_other.source for network_of_other in NETWORKS if network_of_other.model == model]
    hint = f" {model} is a network of --from={' or '.join(others)}." if others else ""
    raise UsageError(
        f"--model={model} is not among the networks of {source} ({SOURCES[source]}) that can be imported: "
        f"{importable}.{hint}"
    )


def _both_names(network: Network) -> str:
    theirs = _class_with_switch(network)
    return network.model if theirs == network.model else f"{network.model} ({theirs} there)"


def _class_with_switch(network: Network) -> str:
    return f"{network.published_class} with --{network.switch}" if network.switch else network.published_class


def options(network: Network, values: Mapping[str, Any], *, usual: bool = True) -> dict[str, Any]:
    """The options of our model: those `values`, and those that make it the network.

    Args:
      network: the network.
      values: {option: value} that the user chose.
      usual: whether options that are not given have the published defaults.

    Raises:
      UsageError: an option that is given makes it another network.
    """
    for name, value in network.always.items():
        if values.get(name, value) != value:
            raise UsageError(
                f"--{name}={values[name]}: {_class_with_switch(network)} of {SOURCES[network.source]} always has "
                f"{value}; leave the flag out."
            )
    return {**(network.usual if usual else {}), **network.always, **values}


class Variable(NamedTuple):
    """A variable of a published network, and how its values are moved to ours.

    Attributes:
      name: our name for it, without `:0`; empty if our network does without it.
      drops_axis: whether it has a first axis of length 1, which ours lacks.
      transposes: whether the axes that are left change places.
      rows: int [N], which of its rows each row of ours is; None if they are in the same order.
    """

    name: str
    drops_axis: bool = False
    transposes: bool = False
    rows: NDArray[np.intp] | None = None

    def shape(self, theirs: tuple[int, ...]) -> tuple[int, ...]:
        """Our shape of a variable of the shape `theirs`."""
        without_axis = theirs[1:] if self.drops_axis and theirs[:1] == (1,) else theirs
        return without_axis[::-1] if self.transposes else without_axis

    def to_ours(self, value: NDArray[Any]) -> NDArray[Any]:
        """The value in our layout."""
        moved = np.squeeze(value, 0) if self.drops_axis else value
        moved = moved.T if self.transposes else moved
        return moved if self.rows is None else moved[self.rows]


SCOPE = "tower/"  # the scope of all variables; the code of 2017 had none

# The cells of TensorFlow 1.0 and 1.1 called kernel and bias so.
_FORMER_CELLS = re.compile(r"(basic_lstm_cell|gru_cell/gates|gru_cell/candidate)/(weights|biases)$")
_CELLS = {"weights": "kernel", "biases": "bias"}


def variables(network: Network, shapes: Shapes) -> dict[str, Variable]:
    """The variable of this project, and the order of its rows, for each variable of a published network.

    Args:
      network: the network.
      shapes: the shape of each published variable, by its name without `:0`, with or without the scope `tower`.

    Raises:
      RunError: a variable has other rows than the network's clusters or cells make.
    """
    without_scope = {name.removeprefix(SCOPE): shape for name, shape in shapes.items()}
    by_name = {name: _variable(network.renamed, name.removeprefix(SCOPE), without_scope) for name in shapes}
    if network.published_class == "BiLstmModel":
        for name in shapes:
            if name.endswith(("gates/weights", "experts/weights")):
                by_name[name] = by_name[name]._replace(rows=_ways_by_layer(shapes))
    for name, variable in by_name.items():
        if variable.rows is not None and shapes[name][:1] != variable.rows.shape:
            raise RunError(
                f"{name} has the shape {list(shapes[name])}, but the network's clusters or cells, as its other "
                f"variables show them, make {len(variable.rows)} rows: it is not the {network.published_class} "
                f"of {SOURCES[network.source]}."
            )
    return by_name


def _variable(renamed: Renamed, name: str, shapes: Shapes) -> Variable:
    """The variable of this name without the scope."""
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
    return _laid_out(f"{SCOPE}{branch}{ours}", branch, own_name, shapes)


def _laid_out(ours: str, branch: str, own_name: str, shapes: Shapes) -> Variable:
    """The variable with its layout: centres are [K, F] here, and a cluster's features stand together."""
    last = own_name.rpartition("/")[2]
    if last == "cluster_weights2":
        return Variable(ours, drops_axis=True, transposes=True)
    if last == "covar_weights":
        return Variable(ours, transposes=True)
    if last == "gate_weights":
        return Variable(ours, drops_axis=True)
    if last == "hidden1_weights":
        return Variable(ours, rows=_by_cluster(_matrices_of(branch, "", shapes)))
    if "/vlad_bn/" in own_name:
        return Variable(ours, rows=_by_cluster(_matrices_of(branch, own_name[:5], shapes)))
    return Variable(ours)


def _matrices_of(branch: str, feature: str, shapes: Shapes) -> list[tuple[int, int]]:
    """The parts of the pooled vector that are matrices, as (features, clusters); empty if no part is a matrix.

    Args:
      branch: scope of one of several networks; empty for a single one.
      feature: video or audio; empty for both.
      shapes: of all variables.
    """
    matrices = []
    for stream in [feature] if feature else ["video", "audio"]:
        for kind in ("VLAD", "vlad", "FV"):
            place = f"{branch}{stream}_{kind}"
            shape = shapes.get(f"{place}/cluster_weights2", shapes.get(f"{place}/cluster_weights"))
            if shape and len(shape) > 1:
                # A Fisher vector has a part of first and one of second order.
                matrices += [(shape[-2], shape[-1])] * (2 if kind == "FV" else 1)
    return matrices


def _by_cluster(matrices: Sequence[tuple[int, int]]) -> NDArray[np.intp] | None:
    """The places of our values [K, F] in each part [F, K] of the published vector; None without parts."""
    order, start = [], 0
    for features, clusters in matrices:
        order.append(start + np.arange(features * clusters).reshape(features, clusters).T.ravel())
        start += features * clusters
    return np.concatenate(order) if order else None


def _ways_by_layer(shapes: Shapes) -> NDArray[np.intp] | None:
    """The places of our states, by layer and then by way, in the published state: by way and then by layer."""
    biases = re.compile(r"/fw/.*/basic_lstm_cell/bias(es)?$")
    cells = [shape[0] // 4 for name, shape in shapes.items() if shape and biases.search(name)]
    if not cells:
        return None
    places = np.arange(2 * len(cells) * 2 * cells[0]).reshape(2, len(cells), 2 * cells[0])
    return places.transpose(1, 0, 2).ravel()
