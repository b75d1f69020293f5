"""Every registered model at a tiny size, with its number of trainable parameters by formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
    """

    hyper_parameters: Mapping[str, Any]
    parameters: Callable[[], int]
    ordered: bool = False
    random: bool = False


def norm(units: int) -> int:
    """Scale and centre of a batch normalisation."""
    return 2 * units


def lstm(inputs: int, cells: int) -> int:
    """Four gates on input, state and a bias."""
    return 4 * affine(inputs + cells, cells)


CASES: dict[str, Case] = {
    "LogisticModel": Case({}, lambda: affine(D, C)),
    "MoeModel": Case({"moe_num_mixtures": 3}, lambda: moe(D, experts=3)),
    "FrameLevelLogisticModel": Case({}, lambda: affine(D, C)),
    "DbofModel": Case(
        {"iterations": 4, "dbof_cluster_size": 8, "dbof_hidden_size": 6, "moe_num_mixtures": 3},
        lambda: norm(D) + D * 8 + norm(8) + 8 * 6 + norm(6) + moe(6, experts=3),
        random=True,
    ),
    "LstmModel": Case(
        {"lstm_cells": 5, "lstm_layers": 2}, lambda: lstm(D, 5) + lstm(5, 5) + moe(5), ordered=True
    ),
    "GruModel": Case(
        {"gru_cells": 5, "gru_layers": 2, "all_layers": True},
        lambda: 3 * affine(D + 5, 5) + 3 * affine(5 + 5, 5) + moe(10),
        ordered=True,
    ),
    "BiLstmModel": Case({"lstm_cells": 5, "lstm_layers": 1}, lambda: 2 * lstm(D, 5) + moe(10), ordered=True),
}
