"""The published picture feature `rgb`: Inception-v3 of 2015-12-05, then the PCA and the whitening of YouTube-8M."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.extractors import frozen_graphs
from yt8m.extractors.base import Compute, Extractor, PublishedFile, named, weights
from yt8m.records.data_format import PUBLISHED, Range

_GRAPH = PublishedFile(
    "inception-2015-12-05.tgz", "https://download.tensorflow.org/models/image/imagenet/inception-2015-12-05.tgz"
)
_PCA = PublishedFile("yt8m_pca.tgz", "http://data.yt8m.org/yt8m_pca.tgz")
_IN_ARCHIVE = "classify_image_graph_def.pb"
# The published graph decodes one JPEG into DecodeJpeg:0. After it, these tensors take and give whole batches: pictures
# of any size as floats from 0 to 255, which the graph scales to 299 x 299, and the 2048 values of each.
PICTURES, POOLED = "ExpandDims:0", "pool_3:0"
_STABILIZER = 1e-4  # added to the eigenvalues, as the published feature extractor does


@named("inception")
@dataclass(frozen=True)
class Inception(Extractor):
    """Features of pictures as YouTube-8M has them, approximately: 1024 values."""

    feature: ClassVar[str] = "rgb"
    size: ClassVar[int] = 1024
    bytes_range: ClassVar[Range | None] = PUBLISHED

    inception_graph: str = weights("Inception-v3 of 2015-12-05: the .tgz, or the frozen graph (.pb) out of it", _GRAPH)
    inception_pca: str = weights(
        "PCA of rgb: the .tgz, or a folder or .npz with mean, eigenvals and eigenvecs (.npy)", _PCA
    )

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`."""
        path, pca = weights["inception_graph"], weights["inception_pca"]
        mean, matrix = whitening(pca, self.size)
        content, shape = frozen_graphs.member(path, _IN_ARCHIVE), [None, None, None, 3]
        with frozen_graphs.opened(content, path, PICTURES, POOLED, shape) as pooled:

            def values_of(pictures: NDArray[Any]) -> NDArray[np.float32]:
                return pooled(pictures.astype(np.float32)).reshape(len(pictures), -1)

            yield frozen_graphs.projected(values_of, mean, matrix, pca)


def whitening(path: str, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean [D], and the matrix [D, size] of the first principal components by the roots of their eigenvalues.

    (x - mean) @ eigenvecs.T[:, :size] / sqrt(eigenvals[:size] + 1e-4), as google/youtube-8m's feature extractor.

    Args:
      path: the arrays mean [D], eigenvals [D] and eigenvecs [D, D], a component in each row.
      size: number of components.

    Raises:
      UsageError: the arrays cannot be read, or have other shapes.
    """
    mean, values, vectors = frozen_graphs.arrays(path, ("mean", "eigenvals", "eigenvecs"))
    width = mean.size
    if values.size != width or vectors.shape != (width, width) or width < size:
        shapes = ", ".join(str(list(array.shape)) for array in (mean, values, vectors))
        raise UsageError(f"{path}: mean, eigenvals and eigenvecs are {shapes}; expected [D], [D] and [D, D].")
    return mean.reshape(-1), vectors.T[:, :size] / np.sqrt(values.reshape(-1)[:size] + _STABILIZER)
