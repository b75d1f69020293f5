from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from yt8m import extractors, registry
from yt8m.errors import UsageError
from yt8m.extractors.base import Compute
from yt8m.options import option


@dataclass(frozen=True)
class MeanColour(extractors.Extractor):
    """An extractor of a user: the mean colour of each picture."""

    feature: ClassVar[str] = "colour"
    scale: float = option(1.0, "factor", minimum=0.1)

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        yield lambda pictures: np.float32(self.scale) * pictures.mean(axis=(1, 2), dtype=np.float32)


def test_a_class_of_a_user_by_name() -> None:
    extractor = extractors.create("extractors.test_base:MeanColour", {"scale": 2.0})
    assert (extractor.feature, extractor.takes, extractor.scaling, extractor.weight_files()) == (
        "colour", "frames", None, {},
    )  # fmt: skip
    assert extractor.settings() == {"scale": 2.0}
    with extractor.open({}) as compute:
        assert compute(np.full((2, 3, 3, 3), 7, np.uint8)).tolist() == [[14.0] * 3] * 2


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("incepton", {}, "did you mean inception"),
        ("onnx", {}, r"path .* onnx:PATH"),
        ("owner/network", {}, "A network of Hugging Face is named hf:owner/network"),
        ("extractors.test_base:pytest", {}, "expected a subclass of yt8m.extractors.Extractor"),
        ("extractors.test_base:Missing", {}, "cannot load extractor"),
        ("extractors.test_base:MeanColour", {"scale": 0.0}, r"scale .*at least 0\.1\b"),
        ("inception", {"scale": 1.0}, "has no setting 'scale'. It has: inception_graph, inception_pca"),
    ],
)
def test_what_is_refused(name: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        extractors.create(name, settings)


class Clips(MeanColour):
    takes = "clips"
    frames = 16
    rate = 8


class ClipsOfNoFrames(MeanColour):
    takes = "clips"


def test_what_a_class_says_is_its_form() -> None:
    assert MeanColour().form == extractors.Pictures()
    assert Clips().form == extractors.Clips(16, 8, 1.0)
    assert extractors.create("vggish").form == extractors.Sound(16000, 15600, 16000)
    with pytest.raises(UsageError, match="`frames` and `rate`"):
        ClipsOfNoFrames()


def test_code_that_a_file_names_needs_trust() -> None:
    name = "extractors.test_base:MeanColour"
    registry.distrust([name], "runs/theirs/config.json")
    try:
        with pytest.raises(UsageError, match=r"runs/theirs/config\.json\b.*extractor.*--trust_code"):
            extractors.create(name)
    finally:
        registry.trust([name])
    assert extractors.create(name).feature == "colour"


def test_every_published_file_says_where_it_is() -> None:
    sources = {
        field: source
        for name in ("inception", "vggish")
        for field, source in extractors.create(name).weight_files().items()
    }
    assert {field: source.file for field, source in sources.items() if source} == {
        "inception_graph": "inception-2015-12-05.tgz",
        "inception_pca": "yt8m_pca.tgz",
        "vggish_model": "vggish_model.ckpt",
        "vggish_pca": "vggish_pca_params.npz",
    }
    assert all(source and source.address.endswith(source.file) for source in sources.values())
