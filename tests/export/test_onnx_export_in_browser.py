"""Every registered model in onnxruntime-web, in a real browser: the scores of `yt8m.load` of the same file."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import browser
import numpy as np
import pytest
import small_exports
from contract.model_cases import CASES, C, data_of
from export.web_sites import Site

import yt8m
from yt8m import models
from yt8m.config.train_config import ModelConfig
from yt8m.export import web_page
from yt8m.export.onnx_export import export_onnx
from yt8m.export.saved_model import ModelFacts
from yt8m.video import fitted_transforms
from yt8m.video.fitted_transforms import Statistics

pytestmark = pytest.mark.heavy

LENGTHS = (7, 1, 3)
# The scores of videos, by what the page itself loads and calls.
SCORES = """
const [file, shape, values, lengths] = arguments;
return import("./scoring.js").then(async ({ ort, fetched }) => {
  const session = await ort.InferenceSession.create(await fetched(file));
  const { scores } = await session.run({
    frames: new ort.Tensor("float32", Float32Array.from(values), shape),
    num_frames: new ort.Tensor("int32", Int32Array.from(lengths), [lengths.length]),
  });
  await session.release();
  return [...scores.data];
});
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, onnxruntime_web: str) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("sites")
    small_exports.export_file(folder, "LogisticModel")
    web_page.write(str(folder), web_page.runtime_files(onnxruntime_web))
    with browser.driven(tmp_path_factory.mktemp("driven")) as page, browser.served(folder) as (address, asked):
        site = Site(folder, page, address, asked)
        site.open(".")
        yield site


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize("name", models.built_in_names())
def test_a_model_gives_the_same_scores(site: Site, tmp_path: pathlib.Path, name: str, weights: str) -> None:
    check_scores(site, tmp_path, name, weights)


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize("transform", fitted_transforms.NAMES)
@pytest.mark.parametrize("name", ["LogisticModel", "AttentiveProbeModel"])
def test_a_model_with_a_transform_of_the_training_data_gives_the_same_scores(
    site: Site, tmp_path: pathlib.Path, name: str, transform: str, weights: str
) -> None:
    fit = fitted_transforms.new_fit(transform)
    values = np.random.default_rng(2).normal(size=(200, sum(data_of(name).feature_sizes))).astype("f")
    values[:, 0] = 1
    fit.add(values)
    check_scores(site, tmp_path, name, weights, transform, fit.statistics())


def check_scores(
    site: Site,
    tmp_path: pathlib.Path,
    name: str,
    weights: str,
    transform: str = "",
    statistics: Statistics | None = None,
) -> None:
    """The page gives the scores of `yt8m.load`, for random weights."""
    data = data_of(name)
    options = {**CASES[name].hyper_parameters, **({"input_transform": transform} if transform else {})}
    parts, checkpoint = small_exports.random_weights(tmp_path, data, ModelConfig(name, options), statistics)
    path = site.folder / f"{name}-{weights}-{transform}.onnx"
    export_onnx(str(path), checkpoint, data, parts.modeler, ModelFacts(weights=weights))
    lengths = LENGTHS if data.frame_features else (1,) * len(LENGTHS)
    draw = np.random.default_rng(1)
    features = [draw.normal(size=(len(lengths), max(lengths), size)).astype("f4") for size in data.feature_sizes]
    joined = np.concatenate(features, axis=-1)
    given = {
        key: values if data.frame_features else values[:, 0]
        for key, values in zip(data.feature_names, features, strict=True)
    }
    ids, counts = [str(row) for row in range(len(lengths))], np.array(lengths, np.int32)
    with yt8m.load(str(path)) as model:
        batch = yt8m.NumpyBatch(ids, given, counts, np.zeros((len(lengths), 0), np.bool_))
        expected = np.zeros((len(lengths), C))
        for row, video in enumerate(model.predict(batch, top_k=C)):
            for one in video.classes:
                expected[row, one.index] = one.score
    found = site.page.run(SCORES, path.name, joined.shape, joined.ravel().tolist(), lengths)
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 0
