"""Makes robust_losses.npz: `python make_robust_losses.py MISSING_LABELS TWO_WAY`, in this folder, with PyTorch.

MISSING_LABELS is a checkout of github.com/xinyu1205/robust-loss-mlml (dcfa4d5), TWO_WAY one of
github.com/tk1980/TwoWayMultiLabelLoss (ef8b2d6). Their code computes every value and every gradient, in float64.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any
from unittest import mock

import numpy as np
import torch

SEED, ROWS, CLASSES = 41, 32, 10


def module(path: pathlib.Path) -> Any:
    """A file of a checkout, imported."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels; row 0 and class 0 have no label, row 1 has all the others."""
    draw = np.random.default_rng(SEED)
    labels = (draw.random((ROWS, CLASSES)) < 0.3).astype(float)
    labels[0], labels[1], labels[:, 0] = 0, 1, 0
    return torch.tensor(draw.normal(0, 3, (ROWS, CLASSES))), torch.tensor(labels)


def main(missing_labels: pathlib.Path, two_way: pathlib.Path) -> None:
    """Writes the file."""
    published = module(missing_labels / "src/loss_functions/losses.py")
    criterion = module(two_way / "utils/criterion.py")
    logits, labels = inputs()
    cases = {
        "hill": lambda z: published.Hill()(z, labels),
        "hill_other": lambda z: published.Hill(lamb=1.2, margin=0.5, gamma=1.5)(z, labels),
        "splc": lambda z: published.SPLC()(z, labels, 1),
        "splc_other": lambda z: published.SPLC(tau=0.8, margin=0.5, gamma=1.0)(z, labels, 1),
        "splc_first_epoch": lambda z: published.SPLC()(z, labels, 0),
        "two_way": lambda z: criterion.TwoWayLoss()(z, labels),
        "two_way_other": lambda z: criterion.TwoWayLoss(Tp=1.5, Tn=0.5)(z, labels),
    }
    arrays = {"logits": logits.numpy(), "labels": labels.numpy()}
    # SPLC moves one constant to a GPU; on a CPU it stays where it is.
    with mock.patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
        for name, case in cases.items():
            leaf = logits.clone().requires_grad_()
            value = case(leaf)
            value.backward()
            arrays |= {name: value.detach().numpy(), f"{name}/grad": leaf.grad.numpy()}
    np.savez_compressed("robust_losses.npz", **arrays)


if __name__ == "__main__":
    main(*(pathlib.Path(argument) for argument in sys.argv[1:]))
