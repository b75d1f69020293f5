"""A head over windows of several lengths: a model that classifies a cell of a video also sees its neighbours.

The input is a cell of `size` frames with `context` frames before and after it. To each frame of the cell are appended
the means of the windows beside it, which begin at the cell and double in length:

    | 3 ... | 2 1 | 0 |  cell  | 0 | 1 2 | 3 ... |

A model of these frames learns what the neighbours say: that a cell goes on, begins or ends what is seen in them. An
input of another length is a whole video: then the mean of all its frames stands in the place of each window. A whole
video of exactly `size + 2 context` frames would be taken for a cell, so readers and scorers give it with each frame
twice; whoever calls an exported graph without this package must do so too.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any, ClassVar, NamedTuple

from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.types import ModelOutput


class CellWindows(NamedTuple):
    """The frames that a model gets for a cell.

    Attributes:
      size: number of frames of the cell.
      context: number of frames before the cell, and as many after it.
    """

    size: int
    context: int

    @property
    def frames(self) -> int:
        """Number of frames of the input."""
        return self.size + 2 * self.context

    def sides(self) -> list[tuple[int, int]]:
        """(first frame, frame after the last) of each window beside the cell, in the input."""
        ends, length = [0], self.size
        while ends[-1] < self.context:
            ends.append(min(ends[-1] + length, self.context))
            length *= 2
        before = [(self.context - far, self.context - near) for near, far in itertools.pairwise(ends)]
        return [part for first, last in before for part in ((first, last), (self.frames - last, self.frames - first))]

    @property
    def parts(self) -> int:
        """How many times as wide as a frame the frames of the cell are."""
        return 1 + len(self.sides())


def append_windows(
    inputs: tf.Tensor, num_frames: tf.Tensor | None, windows: CellWindows
) -> tuple[tf.Tensor, tf.Tensor]:
    """The frames of cells with the means of the windows beside them.

    What is a cell is told by the number of real frames of each input, never by T: else the longest video of a batch
    would decide how the others are scored.

    Args:
      inputs: float32 [B, T, D], cells with their context, or whole videos.
      num_frames: int [B]; None if every frame is real.

    Returns:
      float32 [B, size or T, D parts], zeros for padding; and the number of frames, int32 [B].
    """
    real, total = frames.count(inputs, num_frames), tf.shape(inputs)[1]
    is_cell = tf.equal(real, windows.frames)
    whole = frames.mean(inputs, num_frames)
    means = [
        tf.where_v2(is_cell[:, tf.newaxis], tf.reduce_sum(inputs[:, first:last], axis=1) / (last - first), whole)
        for first, last in windows.sides()
    ]
    counts = tf.where_v2(is_cell, windows.size, real)
    count = tf.where_v2(tf.reduce_all(is_cell), windows.size, total)
    firsts = tf.where_v2(is_cell, windows.context, 0)
    numbers = tf.minimum(tf.range(count) + firsts[:, tf.newaxis], total - 1)
    seen = tf.gather(inputs, numbers, batch_dims=1)
    is_real = tf.sequence_mask(counts, count, tf.float32)[:, :, tf.newaxis]
    repeated = is_real * tf.concat(means, -1)[:, tf.newaxis, :]
    joined = tf.concat([seen * is_real, repeated], -1)
    return tf.ensure_shape(joined, [None, None, inputs.shape[-1] * windows.parts]), counts


class _SeesWindows:
    """A base class that makes a model get the means of the windows beside a cell; see `with_windows`."""

    takes_mean: ClassVar[bool] = False
    picked_frames: ClassVar[int] = 0  # the means are those of all frames
    windows: CellWindows

    def create_model(
        self, model_input: tf.Tensor, *, num_frames: tf.Tensor | None = None, **others: Any
    ) -> ModelOutput:
        """Builds the model on `append_windows` of the input [B, T, D]; the arguments are those of the model."""
        model: Any = super()
        extended, counts = append_windows(model_input, num_frames, self.windows)
        return model.create_model(extended, num_frames=counts, **others)  # type: ignore[no-any-return]


def with_windows(model: Any, windows: CellWindows) -> Any:
    """A copy of `model` that sees the neighbours of a cell."""
    cls = type(model)
    extended = copy.copy(model)
    # The class is replaced, not wrapped, so that the copy is still an instance of the class of the model. The model is
    # a frozen dataclass, so `object.__setattr__` sets it.
    namespace = {"__module__": cls.__module__, "windows": windows}
    object.__setattr__(extended, "__class__", type(cls.__name__, (_SeesWindows, cls), namespace))
    return extended
