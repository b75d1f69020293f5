"""The figures written out with loops, from their definitions, for small batches."""

from __future__ import annotations

import itertools

import numpy as np


def ranked_classes(row: np.ndarray) -> list[int]:
    """Classes from the best; ties from the lowest index; -inf is not ranked."""
    return sorted((c for c in range(len(row)) if row[c] > -np.inf), key=lambda c: (-row[c], c))


def hit_at_one(scores: np.ndarray, labels: np.ndarray) -> list[float]:
    return [
        float(bool(best) and bool(label[best[0]]))
        for best, label in zip(map(ranked_classes, scores), labels, strict=True)
    ]


def perr(scores: np.ndarray, labels: np.ndarray) -> list[float]:
    values = []
    for row, label in zip(scores, labels, strict=True):
        n = int(label.sum())
        right = sum(bool(label[c]) for c in ranked_classes(row)[:n] if row[c] > 0)
        values.append(right / n if n else 0.0)
    return values


def expected_ap(items: list[tuple[float, bool]], total: int, n: int | None = None) -> float:
    """AP at n, tied items in random order: for each positive and rank, the chance that it is there."""
    total = total if n is None else min(total, n)
    value = 0.0
    for _, group in itertools.groupby(sorted(set(items), reverse=True), key=lambda item: item[0]):
        score = next(group)[0]
        ahead = [hit for other, hit in items if other > score]
        block = [hit for other, hit in items if other == score]
        size, positives = len(block), sum(block)
        for place in range(size if positives else 0):
            rank = len(ahead) + place + 1
            if n is None or rank <= n:
                others_before = place * (positives - 1) / (size - 1) if size > 1 else 0.0
                value += positives / size * (sum(ahead) + 1 + others_before) / rank
    return value / total if total else 0.0


def entries(scores: np.ndarray, labels: np.ndarray, k: int) -> list[tuple[int, float, bool]]:
    """(class, score, hit) of the k best classes of each row."""
    return [
        (c, float(row[c]), bool(label[c]))
        for row, label in zip(scores, labels, strict=True)
        for c in ranked_classes(row)[:k]
    ]


def gap(scores: np.ndarray, labels: np.ndarray, k: int) -> float:
    return expected_ap([item[1:] for item in entries(scores, labels, k)], int(labels.sum()))


def class_ap(scores: np.ndarray, labels: np.ndarray, k: int, n: int | None) -> dict[int, float]:
    """AP of each class that has a positive."""
    kept = entries(scores, labels, k)
    return {
        c: expected_ap([item[1:] for item in kept if item[0] == c], int(labels[:, c].sum()), n)
        for c in range(labels.shape[1])
        if labels[:, c].any()
    }
