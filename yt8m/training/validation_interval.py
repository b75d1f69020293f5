"""How many epochs lie between two validations of a training whose epochs have only a few steps."""

from __future__ import annotations

# A validation takes about as long as so many steps of a small batch, so it does not follow each epoch of fewer.
_STEPS_BETWEEN = 50
_LEAST_VALIDATIONS = 10  # of a training, if it has as many epochs


def epochs_between(videos: int, batch_size: int, max_steps: int | None) -> int:
    """Whole epochs between two validations, from sizes alone, so that a resumed run validates at the same steps.

    Args:
      batch_size: examples of a step, of all towers.
      max_steps: steps of the training; None if it is not known.
    """
    steps_of_epoch = max(1.0, videos / batch_size)
    epochs = _STEPS_BETWEEN / steps_of_epoch
    if max_steps is not None:
        epochs = min(epochs, max_steps / steps_of_epoch / _LEAST_VALIDATIONS)
    return max(1, round(epochs))
