"""PyTorch as a contestant, eager or compiled, with a fused optimizer and as many threads as cores.

The update of the weights is that of this project: penalties, clipping by variable, Adam. Eager it is PyTorch's fused
Adam after a pass that clips. Compiled it is one function that PyTorch fuses to two passes over the weights: one for the
norms, one for everything else.
"""

from __future__ import annotations

import csv
import itertools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import measure
from benchmarks.peers import networks, reading
from benchmarks.peers.comparison import Comparison, losses_path
from benchmarks.peers.contestants import PipeTurns
from benchmarks.peers.figures import Figures
from benchmarks.peers.networks import Batch
from benchmarks.peers.ours import BATCHES, LOSSES, OPTIMIZER

_LINE_EVERY = 10  # steps between two lines of the log, as in this project
_TOP = 20
# Of Adam. TensorFlow rounds the decays to float32, which changes 1 - 0.999 by 1e-5 of its value.
_DECAY, _SECOND_DECAY, _EPSILON = float(np.float32(0.9)), float(np.float32(0.999)), 1e-8


def take_turns(turns: PipeTurns, row: Comparison, folder: pathlib.Path, name: str) -> None:
    """Takes the turns of a row. For a row on stored batches it first stores the losses of the first steps."""
    torch.set_num_threads(measure.cores())
    torch.set_flush_denormal(True)
    network = networks.NETWORKS[row.model](np.load(folder / "weights.npz"))
    is_compiled = name == "compiled"
    if row.work == "step":
        step = _step(row, network, folder, is_compiled)
        np.save(losses_path(folder, name), [networks.loss(network, *step()).item() for _ in range(LOSSES)])
        turns.take(step, row.network.steps, warm=1)
    else:
        work, finish = _WORKS[row.work](row, network, is_compiled)
        work()
        turns.take(work, row.network.steps, finish)


_Work = Callable[[], Any]


def _step(
    row: Comparison, network: nn.Module, folder: pathlib.Path, is_compiled: bool
) -> Callable[[], tuple[Tensor, Tensor]]:
    stored = [_stored(np.load(folder / f"batch_{number}.npz")) for number in range(BATCHES)]
    if not is_compiled:  # A compiled step reads bytes faster; an eager one would make floats of them at every step.
        stored = [batch._replace(labels=batch.labels.float()) for batch in stored]
    batches = itertools.cycle(stored)
    step = Step(row, network, is_compiled)

    def work() -> tuple[Tensor, Tensor]:
        batch = next(batches)
        return step(batch), batch.labels

    return work


def _stored(arrays: Any) -> Batch:
    features = [torch.tensor(arrays[name]) for name in sorted(arrays.files) if name.startswith("feature_")]
    is_video = features[0].ndim == 2
    return Batch(
        (torch.cat(features, 1),) if is_video else tuple(features),
        torch.tensor(arrays["num_frames"].astype(np.int64)),
        torch.tensor(arrays["labels"]),
    )


def _train_from_files(row: Comparison, network: nn.Module, is_compiled: bool) -> tuple[_Work, _Work]:
    batches, step, count = reading.batches(row, shuffled=True), Step(row, network, is_compiled), itertools.count()

    def work() -> None:
        batch = next(batches)
        outputs = step(batch)
        if next(count) % _LINE_EVERY == 0:
            figures = Figures()
            figures.add(networks.probabilities(network, outputs), *_labels_and_loss(network, outputs, batch))
            figures.get()

    return work, _nothing


def _labels_and_loss(network: nn.Module, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    return batch.labels, networks.loss(network, outputs, batch.labels)


def _nothing() -> None:
    """The end of a turn of works that compute nothing at their end."""


def _evaluate(row: Comparison, network: nn.Module, is_compiled: bool) -> tuple[_Work, _Work]:
    batches, figures, predict = reading.batches(row), Figures(), _predictor(network, is_compiled)

    def work() -> None:
        batch = next(batches)
        with torch.inference_mode():
            outputs = predict(batch)
            figures.add(networks.probabilities(network, outputs), *_labels_and_loss(network, outputs, batch))

    def finish() -> None:
        figures.get()
        figures.clear()

    return work, finish


def _write(row: Comparison, network: nn.Module, is_compiled: bool) -> tuple[_Work, _Work]:
    batches, predict, lines = reading.batches(row), _predictor(network, is_compiled), _Lines()

    def work() -> None:
        with torch.inference_mode():
            lines.write(networks.probabilities(network, predict(next(batches))).topk(_TOP))

    return work, _nothing


class _Lines:
    """Writes the best classes of each video as the challenges want them."""

    def __init__(self) -> None:
        file = tempfile.TemporaryFile("w", newline="")  # noqa: SIM115 - open as long as the process
        self._writer, self._ids = csv.writer(file), (f"id{number:08d}" for number in itertools.count())

    def write(self, best: Any) -> None:
        """Writes the lines of one batch."""
        for scores, classes in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            pairs = " ".join(f"{label} {score:.6g}" for label, score in zip(classes, scores, strict=True))
            self._writer.writerow((next(self._ids), pairs))


def _predictor(network: nn.Module, is_compiled: bool) -> Callable[[Batch], Tensor]:
    network.eval()
    compiled: Callable[[Batch], Tensor] = torch.compile(network, options={"freezing": True}) if is_compiled else network
    return compiled


_WORKS = {"files": _train_from_files, "eval": _evaluate, "infer": _write}


class Step:
    """A step of training: forward, backward, and `Update`. The loss itself is not computed, only its gradient."""

    def __init__(self, row: Comparison, network: nn.Module, is_compiled: bool) -> None:
        self._network, self._precision = network, row.precision
        self._forward = torch.compile(self._outputs_and_slopes) if is_compiled else self._outputs_and_slopes
        self._update = Update(network, OPTIMIZER.base_learning_rate, is_compiled=is_compiled)

    def __call__(self, batch: Batch) -> Tensor:
        """One step; returns the outputs [B, C] of the network before it."""
        outputs, slopes = self._forward(batch)
        outputs.backward(slopes)
        self._update()
        return outputs.detach()

    def _outputs_and_slopes(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._precision == "bfloat16"):
            outputs = self._network(batch)
        outputs = outputs.float()
        return outputs, networks.slopes(self._network, outputs.detach(), batch.labels)


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

    @torch.no_grad()  # type: ignore[untyped-decorator]
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
        self._powers *= np.array([_DECAY, _SECOND_DECAY], np.float32)
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
