"""Every registered model at a tiny size, with its number of trainable parameters by formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from yt8m import models
from yt8m.config.data_config import DataConfig

# Features (rgb and audio), classes, frames and rows of the contract suite.
SIZES, D, C, T, B = (6, 4), 10, 5, 7, 6


def affine(inputs: int, units: int) -> int:
    """Weights and biases of a dense layer."""
    return (inputs + 1) * units


def moe(inputs: int, classes: int = C, experts: int = 2) -> int:
    """Gates without biases, one a dummy; experts with."""
    return inputs * classes * (experts + 1) + affine(inputs, classes * experts)


class Case(NamedTuple):
    """A tiny configuration.

    Attributes:
      hyper_parameters: of the model.
      parameters: its trainable values, given nothing.
      ordered: the order of frames matters.
      random: training draws frames or dropout masks.
      has_hidden: a hidden layer has one vector a video. A model without one computes each class from the features
        themselves, or from a query of its own.
    """

    hyper_parameters: Mapping[str, Any]
    parameters: Callable[[], int]
    ordered: bool = False
    random: bool = False
    has_hidden: bool = True


def norm(units: int) -> int:
    """Scale and centre of a batch normalisation."""
    return 2 * units


def lstm(inputs: int, cells: int) -> int:
    """Four gates on input, state and a bias."""
    return 4 * affine(inputs + cells, cells)


def hidden(inputs: int, units: int) -> int:
    """A layer of `units` with batch normalisation, gated by context."""
    return inputs * units + norm(units) + units * units + norm(units)


def words(clusters: int = 6) -> int:
    """Assignment of all features, a hidden layer of 5, a mixture; no gating."""
    return D * clusters + norm(clusters) + clusters * 5 + norm(5) + moe(5)


def vlad(anchors: int, described: int = 1) -> int:
    """4 clusters for the first feature, 2 for the second; `anchors` values a cluster and feature."""
    rgb, audio = SIZES
    assigned = sum(size * k + norm(k) + anchors * size * k for size, k in ((rgb, 4), (audio, 2)))
    return assigned + hidden(described * (rgb * 4 + audio * 2), 5) + moe(5)


def nextvlad() -> int:
    """2 groups and 4 clusters for the first feature, 1 and 2 for the second; expanded twice."""
    described = parts = 0
    for size, groups, clusters in ((SIZES[0], 2, 4), (SIZES[1], 1, 2)):
        wide = 2 * size
        flat = clusters * wide // groups
        parts += affine(size, wide) + affine(wide, groups) + wide * groups * clusters
        parts += norm(groups * clusters) + flat + norm(flat)
        described += flat
    gate = 8 * 2 + norm(2) + affine(2, 8)
    return parts + described * 8 + norm(8) + gate + affine(8, C)


VLAD = {"iterations": 4, "netvlad_cluster_size": 4, "netvlad_hidden_size": 5}
NEXTVLAD = {"nextvlad_cluster_size": 4, "nextvlad_hidden_size": 8, "groups": 2, "gating_reduction": 4}
WORDS = {"iterations": 4, "dbof_cluster_size": 6, "dbof_hidden_size": 5}

CASES: dict[str, Case] = {
    "LogisticModel": Case({}, lambda: affine(D, C), has_hidden=False),
    "MoeModel": Case({"moe_num_mixtures": 3}, lambda: moe(D, experts=3), has_hidden=False),
    "FrameLevelLogisticModel": Case({}, lambda: affine(D, C), has_hidden=False),
    "DbofModel": Case(
        {"iterations": 4, "dbof_cluster_size": 8, "dbof_hidden_size": 6, "moe_num_mixtures": 3},
        lambda: norm(D) + D * 8 + norm(8) + 8 * 6 + norm(6) + moe(6, experts=3),
        random=True,
    ),
    "LstmModel": Case({"lstm_cells": 5, "lstm_layers": 2}, lambda: lstm(D, 5) + lstm(5, 5) + moe(5), ordered=True),
    "GruModel": Case(
        {"gru_cells": 5, "gru_layers": 2, "all_layers": True},
        lambda: 3 * affine(D + 5, 5) + 3 * affine(5 + 5, 5) + moe(10),
        ordered=True,
    ),
    "BiLstmModel": Case({"lstm_cells": 5, "lstm_layers": 1}, lambda: 2 * lstm(D, 5) + moe(10), ordered=True),
    "SoftDbowModel": Case(WORDS, words, random=True),
    "GatedDbofModel": Case(WORDS, lambda: words() + 2 * 6 * D + norm(6), random=True),
    "NetVladModel": Case(VLAD, lambda: vlad(1), random=True),
    "NetRvladModel": Case(VLAD, lambda: vlad(0), random=True),
    "NetVlagdModel": Case(VLAD, lambda: vlad(1), random=True),
    "NetFvModel": Case({"iterations": 4, "fv_cluster_size": 4, "fv_hidden_size": 5}, lambda: vlad(2, 2), random=True),
    "NeXtVladModel": Case(NEXTVLAD, nextvlad, random=True),
    "MixNeXtVladModel": Case(
        {**NEXTVLAD, "mix_number": 2}, lambda: 2 * nextvlad() + norm(D) + affine(D, 2), random=True
    ),
    "AttentionLstmModel": Case(
        {"lstm_cells": 4}, lambda: 2 * sum(lstm(size, 4) + 4 for size in SIZES) + affine(16, C), ordered=True
    ),
    "AttentionClusterModel": Case(
        {"iterations": 5, "attention_cluster_size": 3}, lambda: 3 * D + 2 * 2 * 3 + affine(3 * D, C), random=True
    ),
    "LstmAttentionMaxModel": Case(
        {"lstm_cells": 4, "lstm_attentions": 3, "moe_num_mixtures": 3},
        lambda: lstm(D, 4) + 4 * 3 + moe(4, experts=3),
        ordered=True,
    ),
    "AttentionPoolingModel": Case({"attention_queries": 3, "attention_size": 4}, lambda: 3 * 4 + 2 * D * 4 + moe(12)),
    "AttentiveProbeModel": Case(
        {"probe_size": 6, "probe_heads": 2}, lambda: norm(D) + 2 * D * 6 + 6 * C + affine(6, C), has_hidden=False
    ),
    "TransformerModel": Case(
        {"transformer_size": 6, "transformer_heads": 2, "transformer_feed_forward": 7},
        lambda: (
            affine(D, 6) + 2 * (2 * norm(6) + 3 * 36 + affine(6, 6) + affine(6, 7) + affine(7, 6)) + norm(6) + moe(6)
        ),
        ordered=True,
        random=True,
    ),
    "GatedMoeModel": Case({}, lambda: moe(D) + C * C + norm(C), has_hidden=False),
    "DeepCombineChainModel": Case(
        {"deep_chain_layers": 2, "deep_chain_relu_cells": 3},
        lambda: moe(D) + moe(D + 3) + moe(D + 6) + 2 * affine(C, 3),
    ),
    "GatedMlpModel": Case(
        {"mlp_hidden_size": 4, "mlp_layers": 2}, lambda: D + affine(D, 4) + affine(4, 4) + affine(4, C)
    ),
    "ResidualMlpModel": Case(
        {"mlp_hidden_size": 6}, lambda: D * 6 + norm(6) + 2 * (36 + norm(6) + affine(6, 6)) + moe(6), random=True
    ),
}


def published_vlad(anchors: int, described: int = 1) -> int:
    """`vlad` with batch norm of the input, a hidden layer with biases alone, and gates of the predictions."""
    return vlad(anchors, described) + norm(D) - norm(5) + 5 + C * C + norm(C)


def published_words(gated: bool) -> int:
    """16 words for the first feature, 2 for the second; batch norm of the input, a hidden layer with relu6."""
    rgb, audio = SIZES
    gates = 2 * 16 * rgb + norm(16) if gated else 0
    return norm(D) + rgb * 16 + norm(16) + audio * 2 + norm(2) + gates + 18 * 5 + norm(5) + moe(5)


GATED = {"input_batch_norm": True, "moe_prob_gating": True}
LATE = {"iterations": 4, "dbof_cluster_size": 16, "dbof_hidden_size": 5, "input_batch_norm": True, "dbof_relu": True}

# Models with the options that make them the published ones: `MODEL/variant`.
VARIANTS: dict[str, Case] = {
    "NetVladModel/published": Case({**VLAD, **GATED, "netvlad_relu": False}, lambda: published_vlad(1), random=True),
    "NetFvModel/published": Case(
        {"iterations": 4, "fv_cluster_size": 4, "fv_hidden_size": 5, "fv_variances_as_whole": True}
        | {**GATED, "fv_relu": False},
        lambda: published_vlad(2, 2),
        random=True,
    ),
    "MoeModel/low rank": Case({"moe_low_rank_gating": 3}, lambda: affine(D, 2 * C) + 3 * (D + 3 * C), has_hidden=False),
    "GatedDbofModel/published": Case({**LATE, "dbof_late_fusion": True}, lambda: published_words(True), random=True),
}


RUN = {"sequence_frames": 4, "all_layers": True}
VARIANTS |= {
    "LstmModel/published": Case(
        {"lstm_cells": 5, "lstm_layers": 2, "lstm_memory": True, "lstm_random_sequence": True, **RUN},
        lambda: lstm(D, 5) + lstm(5, 5) + moe(20),
        ordered=True,
        random=True,
    ),
    "GruModel/published": Case(
        {"gru_cells": 5, "gru_layers": 1, "gru_random_sequence": True, **RUN},
        lambda: 3 * affine(D + 5, 5) + moe(5),
        ordered=True,
        random=True,
    ),
    "BiLstmModel/published": Case(
        {"lstm_cells": 5, "lstm_layers": 1, "lstm_memory": True}, lambda: 2 * lstm(D, 5) + moe(20), ordered=True
    ),
    "LstmAttentionMaxModel/published": Case(
        {"lstm_cells": 4, "lstm_attentions": 3, "attention_on_input": True},
        lambda: lstm(D, 4) + (D + 4) * 3 + moe(4, experts=8),
        ordered=True,
    ),
    "AttentionLstmModel/published": Case(
        {"lstm_cells": 4, "embedding_size": 5, "hidden_sizes": (6, 3), "drop_rate": 0.5},
        lambda: (
            sum(affine(size, 5) + 2 * (lstm(5, 4) + 4) for size in SIZES) + affine(16, 6) + affine(6, 3) + affine(3, C)
        ),
        ordered=True,
        random=True,
    ),
    "AttentionClusterModel/published": Case(
        {"iterations": 5, "attention_cluster_size": 3, "hidden_sizes": (6, 3), "drop_rate": 0.5},
        lambda: 3 * D + 2 * 2 * 3 + affine(3 * D, 6) + affine(6, 3) + affine(3, C),
        random=True,
    ),
    "NeXtVladModel/published": Case({**NEXTVLAD, "as_published": True}, lambda: nextvlad() - 8, random=True),
    "MixNeXtVladModel/published": Case(
        {**NEXTVLAD, "mix_number": 2, "as_published": True, "cl_both_sides": True, "l2_biases": True},
        lambda: 2 * (nextvlad() - 8) + norm(D) + affine(D, 2),
        random=True,
    ),
}


def decoder(inputs: int, size: int, feed_forward: int) -> int:
    """Embedding, four projections (no bias of the keys), the feed-forward part, three norms, and the classes."""
    fed = affine(size, feed_forward) + affine(feed_forward, size)
    return affine(inputs, size) + 3 * affine(size, size) + size * size + fed + 3 * norm(size) + affine(size, C)


TRANSFORMER = {"transformer_size": 6, "transformer_heads": 2, "transformer_feed_forward": 7}
VARIANTS |= {
    "AttentiveProbeModel/decoder": Case(
        {"probe_size": 6, "probe_heads": 2, "decoder_queries": 3, "decoder_feed_forward": 7},
        lambda: norm(D) + decoder(D, 6, 7),
        random=True,
        has_hidden=False,
    ),
    "AttentiveProbeModel/learned decoder": Case(
        {"probe_size": 6, "probe_heads": 2, "decoder_queries": 8, "decoder_feed_forward": 7}
        | {"decoder_learns_queries": True},
        lambda: norm(D) + decoder(D, 6, 7) + 8 * 6,
        random=True,
        has_hidden=False,
    ),
    "TransformerModel/decoder": Case(
        {**TRANSFORMER, "decoder_queries": 2},
        lambda: (
            affine(D, 6) + 2 * (2 * norm(6) + 3 * 36 + affine(6, 6) + affine(6, 7) + affine(7, 6)) + norm(6)
            + decoder(6, 6, 7)
        ),
        ordered=True,
        random=True,
        has_hidden=False,
    ),
}  # fmt: skip
CASES |= VARIANTS


def class_of(name: str) -> str:
    """The model's name, without that of the variant."""
    return name.partition("/")[0]


# Of videos, of frames with batch statistics and random draws, and of frames in a loop.
FEW = ("LogisticModel", "DbofModel", "LstmModel")


def sizes_of(name: str) -> tuple[int, int]:
    """Tiny, but for what is whitened by the published eigenvalues of 1024 rgb features."""
    return (1024, 4) if models.get(name).input_transform == "reverse_whitening" else SIZES


def data_of(name: str, shard: str = "", batch_size: int = B) -> DataConfig:
    """What the model at its tiny size reads."""
    level = models.get(name).level
    return DataConfig(
        data_pattern=shard,
        feature_names=("rgb", "audio") if level == "frame" else ("mean_rgb", "mean_audio"),
        feature_sizes=sizes_of(name),
        frame_features=level == "frame",
        num_classes=C,
        max_frames=T,
        batch_size=batch_size,
        num_readers=1,
        num_epochs=None,
    )


def quick(few: Sequence[str], names: Sequence[str] = ()) -> list[Any]:
    """`names`, by default all registered models, for `parametrize`; those that are not in `few` are marked heavy."""
    every = names or models.built_in_names()
    return [name if name in few else pytest.param(name, marks=pytest.mark.heavy) for name in every]
