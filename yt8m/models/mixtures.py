"""What the experts of a mixture say together, with the gradient in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from yt8m.lazy import tf

_LEAST = 1e-30  # what speaks for a class, and what speaks against it, is at least so much


def log_odds(gates: tf.Tensor, votes: tf.Tensor) -> tf.Tensor:
    """log F - log A with F = sum_e g_e sigmoid(v_e), A = sum_e g_e sigmoid(-v_e) + g_dummy.

    For and against are summed apart, so that neither is the rounding error of one minus the other.

    Args:
      gates: float32 [B, C, E + 1] before their softmax, the dummy expert's last.
      votes: float32 [B, C, E] before their sigmoid.

    Returns:
      float32 [B, C].
    """
    shape = tf.shape(votes)[:-1]
    # Experts one by one: along an axis of two or three the kernels for sums and slices are slow.
    odds = tf.custom_gradient(_log_odds)(*(tf.reshape(x, [-1, x.shape[-1]]) for x in (gates, votes)))
    return tf.ensure_shape(tf.reshape(odds, shape), votes.shape[:-1])


def _log_odds(gates: tf.Tensor, votes: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """[N] of gates [N, E + 1] and votes [N, E]; and its gradient for both."""
    *chosen, dummy = _softened(tf.unstack(gates, axis=-1))
    yes = [tf.sigmoid(vote) for vote in tf.unstack(votes, axis=-1)]
    no = [tf.sigmoid(-vote) for vote in tf.unstack(votes, axis=-1)]
    for_it = [gate * says for gate, says in zip(chosen, yes, strict=True)]
    against = [gate * says for gate, says in zip(chosen, no, strict=True)]
    in_favour = tf.maximum(tf.add_n(for_it), _LEAST)
    opposed = tf.maximum(tf.add_n([*against, dummy]), _LEAST)

    def gradient(slope: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        up, down = slope / in_favour, slope / opposed
        both = up + down
        of_gates = [a * up - b * down for a, b in zip(for_it, against, strict=True)]
        of_votes = [a * says * both for a, says in zip(for_it, no, strict=True)]
        return _side_by_side([*of_gates, -dummy * down]), _side_by_side(of_votes)

    return tf.math.log(in_favour / opposed), gradient


def _softened(gates: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """exp(gate - largest gate) of each: the softmax before its division, which cancels."""
    largest = gates[0]
    for gate in gates[1:]:
        largest = tf.maximum(largest, gate)
    return [tf.exp(gate - largest) for gate in gates]


def _side_by_side(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """[N, E] of E columns; the transposition is twice as fast as stacking along the last axis."""
    return tf.transpose(tf.stack(columns))
