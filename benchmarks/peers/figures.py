"""Hit@1, PERR, GAP and MAP as PyTorch computes them, from the best 20 classes of each video."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_average_precision

_TOP = 20


class Figures:
    """Collects the best classes of all videos; computes the figures at the end."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forgets all videos."""
        self._scores: list[Tensor] = []
        self._classes: list[Tensor] = []
        self._hits: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._perr: list[Tensor] = []
        self._losses: list[Tensor] = []

    def add(self, predictions: Tensor, labels: Tensor, loss: Tensor) -> None:
        """Adds predictions [B, C] with labels bool [B, C] and their loss."""
        best = predictions.topk(_TOP)
        hits = labels.gather(1, best.indices)
        self._scores.append(best.values)
        self._classes.append(best.indices)
        self._hits.append(hits)
        self._labels.append(labels.sum(0))
        self._perr.append(self._equal_recall(predictions, labels, hits))
        self._losses.append(loss)

    def _equal_recall(self, predictions: Tensor, labels: Tensor, hits: Tensor) -> Tensor:
        """The precision [B] among the best n classes of a video with n labels; 0 without labels."""
        counts = labels.sum(1)
        if int(counts.max()) > _TOP:
            hits = labels.gather(1, predictions.topk(int(counts.max())).indices)
        among = torch.arange(hits.shape[1]) < counts[:, None]
        return (hits & among).sum(1) / counts.clamp(min=1)

    def get(self) -> dict[str, float]:
        """The figures of all videos so far."""
        scores, hits, classes = (torch.cat(parts) for parts in (self._scores, self._hits, self._classes))
        labels = torch.stack(self._labels).sum(0)
        pairs = scores.flatten(), hits.flatten().long()
        found = binary_average_precision(*pairs) * pairs[1].sum() / labels.sum()
        return {
            "Hit@1": float(hits[:, 0].float().mean()),
            "PERR": float(torch.cat(self._perr).mean()),
            "GAP": float(found),
            "mAP": float(_mean_average_precision(*pairs, classes.flatten(), labels)),
            "loss": float(torch.stack(self._losses).mean()),
        }


def _mean_average_precision(scores: Tensor, hits: Tensor, classes: Tensor, labels: Tensor) -> Tensor:
    """The mean, over all classes, of sum (precision at each hit) / (number of labels)."""
    order = scores.argsort(descending=True, stable=True)
    order = order[classes[order].argsort(stable=True)]
    classes, hits = classes[order], hits[order].float()
    counts = torch.bincount(classes, minlength=len(labels))
    starts = counts.cumsum(0) - counts
    total = hits.cumsum(0)
    before = torch.cat([total.new_zeros(1), total])[starts][classes]
    places = torch.arange(1, len(hits) + 1) - starts[classes]
    precisions = hits * (total - before) / places
    sums = torch.zeros(len(labels)).index_add_(0, classes, precisions)
    return (sums / labels.clamp(min=1)).mean()
