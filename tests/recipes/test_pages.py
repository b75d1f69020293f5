"""The generated page of each model: complete, with commands that our parsers take and the true number of parameters."""

from __future__ import annotations

import contextlib
import pathlib
import re

import pytest

from docs import command_blocks
from recipes import figures, files, pages
from recipes.__main__ import TOLERANCE
from yt8m import models
from yt8m.command_line import flags
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video import workload

every_model = pytest.mark.parametrize("name", models.built_in_names())
QUICK = ("LogisticModel", "NetVladModel", "TransformerModel")


def block_of(name: str) -> str:
    """The commands on the page of a model."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", pages.page(name), re.MULTILINE | re.DOTALL)
    return block


@every_model
def test_it_has_each_option_and_both_recipes(name: str) -> None:
    text = pages.page(name)
    listed = re.findall(r"^\| `--(\w+)` \|", text, re.MULTILINE)
    assert listed == list(models.hyper_parameters(models.get(name)))
    for path in files.recipes_of(name).values():
        assert path.read_text() in text
    assert "Network: " in text
    assert "Published figure: " in text


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in models.built_in_names()]
)
def test_its_commands_are_taken(name: str) -> None:
    for words in command_blocks.commands(block_of(name)):
        command_blocks.check(words)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder that has the recipes, as a checkout has them, and what the blocks make."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "recipes").symlink_to(files.FOLDER)
    return folder


@pytest.mark.heavy
@every_model
def test_its_commands_reach_its_figure(name: str, checkout: pathlib.Path) -> None:
    """As they stand: the small recipe is small enough to be trained to its end."""
    with contextlib.chdir(checkout):
        printed = command_blocks.run(block_of(name))
    (gap,) = re.findall(r"epoch/eval .* \| GAP: (0\.\d+) \|", printed)
    assert float(gap) == pytest.approx(figures.read_table(files.DOCS)[name].gap, abs=TOLERANCE)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in models.built_in_names()]
)
def test_the_parameters_are_those_of_the_small_recipe(name: str) -> None:
    """Counted in the graph that predicts, which an export holds."""
    (written,) = re.findall(r"^\| ([\d,]+) \| 0\.\d+ \|", pages.page(name), re.MULTILINE)
    config = flags.train_config([f"--flagfile={files.SMALL / name}.flags"])
    with tf.Graph().as_default():
        modeler = workload.create_modeler(config.data, config.model, "infer")
        modeler.predict(batch_of(config.data))
        count = sum(variable.shape.num_elements() for variable in tf.global_variables())
    assert count == int(written.replace(",", ""))


def batch_of(data) -> Batch:
    """Two videos of the sizes of the data."""
    shape, kind = ([2, 5], tf.uint8) if data.frame_features else ([2], tf.float32)
    features = tuple(tf.zeros([*shape, size], kind) for size in data.feature_sizes)
    labels = tf.zeros([2, data.num_classes], tf.bool)
    return Batch(tf.constant(["a", "b"]), features, tf.constant([5, 3]), labels, None)


def test_a_model_that_the_page_lacks_gets_a_line_of_its_docstring() -> None:
    text = files.DOCS.read_text()
    assert pages.with_description(text, "MoeModel") == text
    for name, last in (("LogisticModel", "- **ResidualMlpModel**"), ("NetVladModel", "- **")):
        without = text.replace(f"**{name}**", "*another*")
        added = pages.with_description(without, name)
        (line,) = set(added.splitlines()) - set(without.splitlines())
        assert line.startswith(f"- **{name}**: ")
        assert added.replace(f"\n{line}", "") == without
        section = added.partition(f"## {files.level(name).capitalize()} level")[2].partition("\n## ")[0]
        assert section.rindex(line) > section.rindex(last) - 1
        assert section[section.index(line) + len(line)] == "\n"


def test_the_page_on_models_links_each() -> None:
    text = pages.linked(files.DOCS.read_text())
    for name in models.built_in_names():
        assert f"[**{name}**](models/{name}.md)" in text
