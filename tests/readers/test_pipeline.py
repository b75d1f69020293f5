"""AutoGraph stays away from what is built within."""

from __future__ import annotations

import pytest

from yt8m.lazy import tf
from yt8m.readers.pipeline import without_autograph


def evens(count: int) -> tf.Tensor:
    """The numbers of a dataset whose function AutoGraph alone makes sense of."""

    def kept(number: tf.Tensor) -> tf.Tensor:
        if number % 2 < 1:  # a branch on a tensor
            return number
        return tf.constant(-1, tf.int64)

    return tf.data.make_one_shot_iterator(tf.data.Dataset.range(count).map(kept)).get_next()


def test_functions_of_datasets_are_left_as_they_are() -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match="AutoGraph"):
        without_autograph(evens)(3)


def test_arguments_and_result_are_handed_on() -> None:
    divided = without_autograph(divmod)
    assert divided(7, 2) == (3, 1)
    assert divided.__name__ == "divmod"
