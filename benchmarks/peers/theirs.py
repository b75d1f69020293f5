"""PyTorch as a contestant, eager or compiled, with a fused optimizer and as many threads as cores."""

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

from benchmarks import machine
from benchmarks.peers import networks, reading
from benchmarks.peers.figures import Figures
from benchmarks.peers.networks import Batch
from benchmarks.peers.ours import BATCHES, LOSSES, OPTIMIZER
from benchmarks.peers.rows import Row
from benchmarks.peers.turns import Turns

_LINE_EVERY = 10  # steps between two lines of the log, as in this project
_TOP = 20
_EPSILON = 1e-8  # of Adam
_SECOND_DECAY = 0.999  # of Adam


def take_turns(turns: Turns, row: Row, folder: pathlib.Path, name: str) -> None:
    """Takes the turns of a row. For a row on stored batches it first tells the losses of the first steps."""
    torch.set_num_threads(machine.cores())
    torch.set_flush_denormal(True)
    network = networks.NETWORKS[row.model](np.load(folder / "weights.npz"))
    is_compiled = name == "compiled"
    work = (
        _step(row, network, folder, is_compiled) if row.work == "step" else _WORKS[row.work](row, network, is_compiled)
    )
    turns.tell([work() for _ in range(LOSSES)] if row.work == "step" else work())

    def turn() -> None:
        for _ in range(row.network.steps):
            work()

    turns.take(turn, row.network.steps)


def _step(row: Row, network: nn.Module, folder: pathlib.Path, is_compiled: bool) -> Callable[[], Any]:
    batches = itertools.cycle([_stored(np.load(folder / f"batch_{number}.npz")) for number in range(BATCHES)])
    step = Step(row, network, is_compiled)
    return lambda: float(step(next(batches))[0])


def _stored(arrays: Any) -> Batch:
    features = [torch.tensor(arrays[name]) for name in sorted(arrays.files) if name.startswith("feature_")]
    is_video = features[0].ndim == 2
    return Batch(
        (torch.cat(features, 1),) if is_video else tuple(features),
        torch.tensor(arrays["num_frames"].astype(np.int64)),
        torch.tensor(arrays["labels"]),
    )


def _train_from_files(row: Row, network: nn.Module, is_compiled: bool) -> Callable[[], Any]:
    batches, step, count = reading.batches(row, shuffled=True), Step(row, network, is_compiled), itertools.count()

    def work() -> None:
        batch = next(batches)
        loss, predictions = step(batch)
        if next(count) % _LINE_EVERY == 0:
            figures = Figures()
            figures.add(predictions, batch.labels, loss)
            figures.get()

    return work


def _evaluate(row: Row, network: nn.Module, is_compiled: bool) -> Callable[[], Any]:
    batches, figures, predict = reading.batches(row), Figures(), _predictor(network, is_compiled)

    def work() -> None:
        batch = next(batches)
        with torch.inference_mode():
            outputs = predict(batch)
            figures.add(_probabilities(network, outputs), batch.labels, networks.loss(network, outputs, batch.labels))

    return work


def _write(row: Row, network: nn.Module, is_compiled: bool) -> Callable[[], Any]:
    batches, predict, lines = reading.batches(row), _predictor(network, is_compiled), _Lines()

    def work() -> None:
        with torch.inference_mode():
            lines.write(_probabilities(network, predict(next(batches))).topk(_TOP))

    return work


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
    return torch.compile(network) if is_compiled else network


def _probabilities(network: nn.Module, outputs: Tensor) -> Tensor:
    return outputs.sigmoid() if network.gives_logits else outputs


_WORKS = {"files": _train_from_files, "eval": _evaluate, "infer": _write}


class Step:
    """A step of training: forward, backward, clipping by variable, fused Adam."""

    def __init__(self, row: Row, network: nn.Module, is_compiled: bool) -> None:
        self._network, self._precision = network, row.precision
        self._forward = torch.compile(self._loss) if is_compiled else self._loss
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        self._penalties = [(weight, penalty) for weight, penalty in network.penalties.items() if penalty]
        places = {id(weight): place for place, weight in enumerate(self._weights)}
        self._joined = [[places[id(part)] for part in parts] for parts in getattr(network, "joined", ())]
        rate = OPTIMIZER.base_learning_rate
        self._optimizer = torch.optim.Adam(self._weights, rate, (0.9, _SECOND_DECAY), _EPSILON, fused=True)
        self._count = 0

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """One step: (the loss before it, the predictions [B, C])."""
        loss, outputs = self._forward(batch)
        loss.backward()
        self._add_penalties_and_clip()
        self._count += 1
        # TensorFlow adds epsilon before the correction of the second moment (Kingma and Ba 2015, end of section 2).
        self._optimizer.param_groups[0]["eps"] = _EPSILON / (1.0 - _SECOND_DECAY**self._count) ** 0.5
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return loss.detach(), _probabilities(self._network, outputs.detach())

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._precision == "bfloat16"):
            outputs = self._network(batch)
        return networks.loss(self._network, outputs, batch.labels), outputs

    @torch.no_grad()
    def _add_penalties_and_clip(self) -> None:
        for weight, penalty in self._penalties:
            weight.grad.add_(weight, alpha=penalty)
        gradients = [weight.grad for weight in self._weights]
        norms = list(torch._foreach_norm(gradients))
        for places in self._joined:
            joined = torch.stack([norms[place] for place in places]).norm()
            for place in places:
                norms[place] = joined.clone()
        torch._foreach_clamp_min_(norms, 1.0)
        torch._foreach_div_(gradients, norms)
