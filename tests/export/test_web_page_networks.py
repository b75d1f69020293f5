"""The extractors that a page can run on videos, and why others cannot be run."""

from __future__ import annotations

import pathlib
import re
import types
from typing import Any

import numpy as np
import pytest
import stand_ins

from yt8m import extractors
from yt8m.datasets.extract.computing import ChosenExtractor, Settings, describe_extractors, locate
from yt8m.errors import UsageError
from yt8m.export.web_page import networks_of
from yt8m.records.data_format import DataFormat, FeatureFormat


def model(*entries: Any, features: tuple[str, ...] = ("colour",)) -> Any:
    """What an ONNX file says of its extractors and features."""
    described = DataFormat("frame", tuple(FeatureFormat(name, 6) for name in features))
    return types.SimpleNamespace(about={"extractors": list(entries)}, format=described)


def entry(path: str, **settings: Any) -> dict[str, Any]:
    name = f"onnx:{path}"
    extractor = extractors.create(name, settings)
    (described,) = describe_extractors(locate([ChosenExtractor(name, extractor)]), [(-9.0, 9.0)], Settings())
    return dict(described)


def test_the_page_gets_what_the_declaration_says(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_onnx(tmp_path / "colour.onnx", batch=2, axes=("H", "W", 3))
    (network,) = networks_of(model(entry(path, picture_size=16, shorter_side=20, mean=(0.5, 0.5, 0.5))))
    assert network.content == pathlib.Path(path).read_bytes()
    of_file = {"input": "pictures", "output": "feature", "colours_first": False, "is_bytes": False, "batch": 2}
    declared = {"picture_size": 16, "shorter_side": 20, "mean": (0.5, 0.5, 0.5), "pooling": "first"}
    assert network.facts == network.facts | of_file | declared | {"interpolation": "bicubic", "range": [-9.0, 9.0]}
    assert str(tmp_path) not in str(network.facts)  # the page tells nobody where a file lay


def test_features_have_their_networks_in_the_order_of_the_model(tmp_path: pathlib.Path) -> None:
    paths = [stand_ins.write_onnx(tmp_path / f"{name}.onnx") for name in ("a", "b")]
    entries = [entry(path, picture_size=size) for path, size in zip(paths, (8, 9), strict=True)]
    found = networks_of(model(*entries, features=("mean_b", "mean_a")))
    assert [network.facts["picture_size"] for network in found] == [9, 8]


def refused(*entries: Any) -> str:
    with pytest.raises(UsageError) as raised:
        networks_of(model(*entries))
    return str(raised.value)


def test_what_a_browser_cannot_run_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "colour.onnx"
    stand_ins.write_onnx(path)
    whole = entry(str(path))
    assert "`yt8m extract`" in refused()
    assert re.search("colour .*no extractor", refused({**whole, "feature": "other"}))
    assert "computed by inception" in refused({**whole, "name": "inception", "feature": "colour"})
    assert "pictures by spline" in refused(entry(str(path), interpolation="spline"))
    for name in ("clips", "outside"):
        (tmp_path / name).mkdir()
    clips = stand_ins.write_onnx(tmp_path / "clips/colour.onnx", axes=(4, 3, "H", "W"))
    assert "takes clips" in refused(entry(clips))
    outside = stand_ins.write_onnx(tmp_path / "outside/colour.onnx", weights="colour.bin")
    assert "in other files" in refused(entry(outside))
    changed = path.read_bytes().replace(stand_ins.PROJECTION.tobytes(), np.float32(stand_ins.PROJECTION * 2).tobytes())
    path.write_bytes(changed)
    assert "no longer the file" in refused(whole)
    path.unlink()
    assert "colour.onnx" in refused(whole)
