"""The generated page of each model: complete, with commands that our parsers take and the true number of parameters."""

from __future__ import annotations

import re

import pytest

from docs import command_blocks
from recipes import files, pages
from yt8m import models
from yt8m.command_line import flags
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video import workload

every_model = pytest.mark.parametrize("name", models.names())
QUICK = ("LogisticModel", "NetVladModel", "TransformerModel")


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
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in models.names()]
)
def test_its_commands_are_taken(name: str) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", pages.page(name), re.MULTILINE | re.DOTALL)
    for words in command_blocks.commands(block):
        command_blocks.check(words)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in models.names()]
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
    for name in models.names():
        assert f"[**{name}**](models/{name}.md)" in text
