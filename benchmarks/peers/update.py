"""The update of PyTorch's weights as this project does it: penalties, clipping by variable, Adam.

Eager it is PyTorch's fused Adam after a pass that clips. Compiled it is one function that PyTorch fuses to two passes
over the weights: one for the norms, one for everything else.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

# Of Adam. TensorFlow rounds the decays to float32, which changes 1 - 0.999 by 1e-5 of its value.
_DECAY, _SECOND_DECAY, _EPSILON = float(np.float32(0.9)), float(np.float32(0.999)), 1e-8


class Update:
    """Changes the weights of a network by their gradients, with TensorFlow's form of Adam.

    TensorFlow adds epsilon before the correction of the second moment (Kingma and Ba 2015, end of section 2), PyTorch
    after it. TensorFlow also rounds the powers of the decays to float32, which changes steps by up to 1e-5. So the
    eager optimizer gets another rate and another epsilon at every step.
    """

    def __init__(self, network: nn.Module, rate: float, *, is_compiled: bool) -> None:
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        self._penalties = [network.penalties.get(weight, 0.0) for weight in self._weights]
        places = {id(weight): place for place, weight in enumerate(self._weights)}
        self._joined = [[places[id(part)] for part in parts] for parts in getattr(network, "joined", ())]
        self._rate, self._count, self._is_compiled = rate, 0, is_compiled
        self._powers = np.ones(2, np.float32)
        if is_compiled:
            self._moments = [torch.zeros_like(weight) for weight in self._weights]
            self._squares = [torch.zeros_like(weight) for weight in self._weights]
            self._all_at_once = torch.compile(self._penalise_clip_and_step)
        else:
            decays = (_DECAY, _SECOND_DECAY)
            self._optimizer = torch.optim.Adam(self._weights, rate, decays, _EPSILON, fused=True)

    @torch.no_grad()
    def __call__(self) -> None:
        """One step by the gradients of the weights, which are removed."""
        self._count += 1
        gradients: list[Tensor] = [weight.grad for weight in self._weights]  # type: ignore[misc]
        if self._is_compiled:
            self._all_at_once(gradients, torch.tensor(self._next_rate()))
        else:
            correction = (1.0 - _SECOND_DECAY**self._count) ** 0.5
            rate = self._next_rate() * (1.0 - _DECAY**self._count) / correction
            self._penalise_and_clip(gradients)
            self._optimizer.param_groups[0].update(lr=rate, eps=_EPSILON / correction)
            self._optimizer.step()
        for weight in self._weights:
            weight.grad = None

    def _next_rate(self) -> float:
        """The rate with the corrections of both moments."""
        self._powers *= np.float32([_DECAY, _SECOND_DECAY])
        first, second = np.float32(1.0) - self._powers
        return float(np.float32(self._rate) * np.sqrt(second) / first)

    def _penalise_and_clip(self, gradients: list[Tensor]) -> None:
        for weight, gradient, penalty in zip(self._weights, gradients, self._penalties, strict=True):
            if penalty:
                gradient.add_(weight, alpha=penalty)
        norms = self._norms([_norm(gradient) for gradient in gradients])
        for gradient, norm in zip(gradients, torch.stack(norms).tolist(), strict=True):
            if norm > 1.0:
                gradient.mul_(1.0 / norm)

    def _norms(self, norms: list[Tensor]) -> list[Tensor]:
        """The norms by variable of this project, some of which are several weights here."""
        for places in self._joined:
            joined = torch.stack([norms[place] for place in places]).norm()
            for place in places:
                norms[place] = joined
        return norms

    def _penalise_clip_and_step(self, gradients: list[Tensor], rate: Tensor) -> None:
        sums = [
            gradient + penalty * weight if penalty else gradient
            for weight, gradient, penalty in zip(self._weights, gradients, self._penalties, strict=True)
        ]
        norms = self._norms([total.square().sum(-1).sum().sqrt() for total in sums])
        parts = zip(self._weights, sums, norms, self._moments, self._squares, strict=True)
        for weight, total, norm, moment, square in parts:
            clipped = total / norm.clamp(min=1.0)
            moment.lerp_(clipped, 1.0 - _DECAY)
            square.lerp_(clipped.square(), 1.0 - _SECOND_DECAY)
            weight.sub_(rate * moment / (square.sqrt() + _EPSILON))


def _norm(values: Tensor) -> Tensor:
    """The norm by way of those of the rows: PyTorch's sum of millions of squares is exact to three digits only."""
    return torch.linalg.vector_norm(torch.linalg.vector_norm(values, dim=-1))
