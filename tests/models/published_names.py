"""How the variables of published networks are called and laid out here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Permutation = Callable[[np.ndarray], np.ndarray]


class Variable(NamedTuple):
    """One variable of a published network.

    Attributes:
      name: our name for it, without `:0`; empty if our network does without it.
      to_ours, to_theirs: from the published layout to ours, and back.
    """

    name: str
    to_ours: Permutation = np.asarray
    to_theirs: Permutation = np.asarray


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
_RECURRENT = ((r"RNN/", ""), (r"attention-/weights$", "attention/weights"), (r"(gates|experts)-sub-moe/", r"\1/"))
_CHAIN = (
    (r"(gates|experts)-prediction-(\d+)/", r"chain_\2/\1/"),
    (r"relu-(\d+)/", r"chain_\1/fully_connected/"),
    (r"(gates|experts)--main/", r"\1/"),
)

# By published class: (pattern, replacement) of names; the first that fits is used.
_RENAMED: Mapping[str, Sequence[tuple[str, str]]] = {
    "DeepCombineChainModel": _CHAIN,
    "MoeModel": _EXPERTS,
    "NetVLADModelLF": _POOLED,
    "NetFVModelLF": _POOLED,
    "SoftDbofModelLF": _POOLED,
    "GatedDbofModelLF": _POOLED,
    "LstmModel": _RECURRENT,
    "GruModel": _RECURRENT,
    "BiLstmModel": _RECURRENT,
    "LstmAttentionMaxPoolingModel": _RECURRENT,
    "NeXtVLADModel": _NEXTVLAD,
    "MixNeXtVladModel": _NEXTVLAD,
}

# Biases that shift the scores of all frames alike, and so cancel in a softmax over the frames.
CANCELLED = ("tower/attention-/biases",)

Shapes = Mapping[str, tuple[int, ...]]


def variables(published_class: str, shapes: Shapes) -> dict[str, Variable]:
    """What the variables of a published class are here.

    Args:
      shapes: shape of each published variable, by its name without `:0`, with the scope `tower`.
    """
    found = {name: _variable(_RENAMED[published_class], name, shapes) for name in shapes}
    if published_class == "BiLstmModel":
        for name in ("tower/gates/weights", "tower/experts/weights"):
            found[name] = _permuted(name, _ways_by_layer(shapes))
    return found


def _variable(renamed: Sequence[tuple[str, str]], name: str, shapes: Shapes) -> Variable:
    if name in CANCELLED:
        return Variable("")
    scope, rest = re.fullmatch(r"(tower/(?:branch_\d+/)?)(.*)", name).groups()  # type: ignore[union-attr]
    for pattern, replacement in renamed:
        changed, count = re.subn(f"^{pattern}", replacement, rest)
        if count:
            return _laid_out(f"{scope}{changed}", scope, rest, shapes)
    return Variable(name)


def _laid_out(ours: str, scope: str, rest: str, shapes: Shapes) -> Variable:
    """The variable with its layout: centres are [K, F] here, and a cluster's features stand together."""
    last = rest.rpartition("/")[2]
    if last == "cluster_weights2":
        return Variable(ours, lambda v: v[0].T, lambda v: v.T[np.newaxis])
    if last == "covar_weights":
        return Variable(ours, np.transpose, np.transpose)
    if last == "gate_weights":
        return Variable(ours, lambda v: v[0], lambda v: v[np.newaxis])
    if last == "hidden1_weights":
        return _permuted(ours, _by_cluster(_described(scope, "", shapes)))
    if "/vlad_bn/" in rest:
        return _permuted(ours, _by_cluster(_described(scope, rest[:5], shapes)))
    return Variable(ours)


def _described(scope: str, feature: str, shapes: Shapes) -> list[tuple[int, int]]:
    """(features, clusters) of each part of the pooled vector that is a matrix; empty if it is none.

    Args:
      scope: of the network.
      feature: video or audio; empty for both.
      shapes: of all variables.
    """
    parts = []
    for stream in [feature] if feature else ["video", "audio"]:
        for kind in ("VLAD", "vlad", "FV"):
            place = f"{scope}{stream}_{kind}"
            shape = shapes.get(f"{place}/cluster_weights2", shapes.get(f"{place}/cluster_weights"))
            if shape:
                # A Fisher vector has a part of first and one of second order.
                parts += [(shape[-2], shape[-1])] * (2 if kind == "FV" else 1)
    return parts


def _by_cluster(parts: Sequence[tuple[int, int]]) -> np.ndarray:
    """The places of our values [K, F] in each part [F, K] of the published vector; empty without parts."""
    order, start = [np.zeros(0, int)], 0
    for features, clusters in parts:
        order.append(start + np.arange(features * clusters).reshape(features, clusters).T.ravel())
        start += features * clusters
    return np.concatenate(order)


def _ways_by_layer(shapes: Shapes) -> np.ndarray:
    """The places of our states, by layer and then by way, in the published state: by way and then by layer."""
    cells = [shape[0] // 4 for name, shape in shapes.items() if re.search(r"/fw/.*/basic_lstm_cell/bias$", name)]
    places = np.arange(2 * len(cells) * 2 * cells[0]).reshape(2, len(cells), 2 * cells[0])
    return places.transpose(1, 0, 2).ravel()


def _permuted(ours: str, places: np.ndarray) -> Variable:
    """A variable whose rows are at other places in the published one; the places may be empty: they are the same."""
    if not places.size:
        return Variable(ours)
    back = np.argsort(places)
    return Variable(ours, lambda v: v[places], lambda v: v[back])
