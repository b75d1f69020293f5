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


_CHAIN = (
    (r"(gates|experts)-prediction-(\d+)/", r"chain_\2/\1/"),
    (r"relu-(\d+)/", r"chain_\1/fully_connected/"),
    (r"(gates|experts)--main/", r"\1/"),
)
_MIXTURE = ((r"gating_prob_weights$", "prob_gating/weights"), (r"gating_prob_bn/", "prob_gating/bn/"))

# By published class: (pattern, replacement) of names; the first that fits is used.
_RENAMED: Mapping[str, Sequence[tuple[str, str]]] = {"DeepCombineChainModel": _CHAIN, "MoeModel": _MIXTURE}


def variable(published_class: str, name: str) -> Variable:
    """What the variable `name` of a published class (without `:0`, with the scope `tower`) is here."""
    scope, _, rest = name.partition("/")
    for pattern, replacement in _RENAMED[published_class]:
        renamed, count = re.subn(f"^{pattern}", replacement, rest)
        if count:
            return Variable(f"{scope}/{renamed}")
    return Variable(name)
