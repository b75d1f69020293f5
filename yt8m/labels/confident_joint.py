"""The confident joint: shares of wrong and missing labels that need no assumption on which videos have them.

A video shows a class confidently if its chance of the label is at least the mean chance of the videos with the label.
It lacks the class confidently if its chance of no label is at least the mean of the videos without. The share of labels
whose videos confidently lack the class, and that of other pairs that confidently show it, are those among the videos
that are confident at all. Source: C. Northcutt, L. Jiang and I. Chuang, Confident Learning: Estimating Uncertainty in
Dataset Labels, Journal of Artificial Intelligence Research 70 (2021), section 3.1, for each class and its absence.

If classes are hard to tell apart, these shares are too high: doubtful videos count as wrongly labelled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats64, Ints64

_LEAST = 1e-9  # keeps divisors off 0


class JointShares(NamedTuple):
    """The estimates of the confident joint.

    Attributes:
      wrong: the share of the labels that are wrong.
      missing: the share of the true labels that are missing.
    """

    wrong: float
    missing: float


def joint_shares(chances: Floats64, labelled: Ints64, others: Ints64) -> JointShares:
    """Estimates both shares over all classes.

    Args:
      chances: [C, B], the chance of the label that the videos in each of B bins have.
      labelled, others: [C, B], number of videos with and without the label in each bin.
    """
    labels, no_labels = labelled.sum(1), others.sum(1)
    least_shown = (labelled * chances).sum(1) / np.maximum(labels, _LEAST)
    least_lacking = (others * (1 - chances)).sum(1) / np.maximum(no_labels, _LEAST)
    shows, lacks = chances >= least_shown[:, np.newaxis], 1 - chances >= least_lacking[:, np.newaxis]
    both = shows & lacks  # then the larger chance decides
    shows, lacks = shows & ~(both & (chances < 0.5)), lacks & ~(both & (chances >= 0.5))
    wrong = labels * _share(labelled, lacks, shows)
    missing = no_labels * _share(others, shows, lacks)
    sum_labels, sum_wrong, sum_missing = float(labels.sum()), float(wrong.sum()), float(missing.sum())
    return JointShares(
        sum_wrong / max(sum_labels, _LEAST), sum_missing / max(sum_labels - sum_wrong + sum_missing, _LEAST)
    )


def _share(counts: Ints64, counted: Bools, others: Bools) -> Floats64:
    """[C], the share of the videos in the bins `counted` among those in the bins `counted` and `others`."""
    part = (counts * counted).sum(1)
    return np.asarray(part / np.maximum(part + (counts * others).sum(1), _LEAST))
