"""Every model has recipes that our parser takes, and one figure wherever it is told."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from golden_data import golden, published_vector
from models.published_networks import network

from recipes import figures, files
from yt8m import models
from yt8m.command_line import flags
from yt8m.datasets.sample_data import SampleConfig
from yt8m.models.base import ClassifiedModel
from yt8m.records import vocabulary
from yt8m.video import workload

FULL = [name for name in models.built_in_names() if (files.FOLDER / f"{name}.flags").exists()]
every_model = pytest.mark.parametrize("name", models.built_in_names())
every_full_recipe = pytest.mark.parametrize("name", FULL)
both_sizes = pytest.mark.parametrize(
    ("folder", "name"),
    [(files.FOLDER, name) for name in FULL] + [(files.SMALL, name) for name in models.built_in_names()],
    ids=lambda value: value if isinstance(value, str) else "small" if value == files.SMALL else "full",
)


def test_there_is_a_recipe_for_each_model_and_no_other() -> None:
    assert {path.stem for path in files.FOLDER.glob("*.flags")} == {*FULL, files.DATA.stem}
    assert files.names() == models.built_in_names()


@both_sizes
def test_recipes_parse(name: str, folder: pathlib.Path) -> None:
    """By the parser of train.py, with all that it refuses."""
    parsed = flags.train_config([f"--flagfile={folder / name}.flags"])
    assert parsed.model.model == name
    assert parsed.data.frame_features == (files.level(name) == "frame")
    assert parsed.data.feature_sizes == (1024, 128)
    assert parsed.data.num_classes == (config_of_data().num_classes if folder == files.SMALL else 3862)
    assert parsed.seed == 0


@both_sizes
def test_recipes_say_where_they_come_from(name: str, folder: pathlib.Path) -> None:
    text = (folder / f"{name}.flags").read_text()
    relative = (folder / f"{name}.flags").relative_to(files.FOLDER.parent)
    assert f"# Command: yt8m train --flagfile={relative} " in text
    if folder == files.FOLDER:
        assert re.search("^# Source: .+", text, re.MULTILINE)
        assert re.search("^# Published: .+", text, re.MULTILINE)
    else:
        assert "# Ours: all sizes, steps and learning rates" in text


@pytest.mark.parametrize("loss", sorted(path.stem for path in (files.FOLDER / "losses").glob("*.flags")))
def test_recipes_of_losses_go_with_those_of_models(loss: str) -> None:
    path = files.FOLDER / "losses" / f"{loss}.flags"
    parsed = flags.train_config([f"--flagfile={files.FOLDER / 'MoeModel'}.flags", f"--flagfile={path}"])
    assert (parsed.model.model, parsed.model.label_loss) == ("MoeModel", loss)
    text = path.read_text()
    assert f"--flagfile=recipes/losses/{loss}.flags" in text
    assert "# Source: " in text
    made = workload.create_loss(parsed.model, parsed.data)
    counts = getattr(made, "class_counts", ())
    assert counts == (tuple(vocabulary.load().counts.tolist()) if loss == "LogitAdjustmentLoss" else ())


OPTIONS = {
    "GroupedQueries": ("AttentiveProbeModel", "model.hyper_parameters", "decoder_queries", 100),
    "Mixup": ("MoeModel", "augmentation", "mixup", 0.4),
    "Balance": ("MoeModel", "data", "balance", 0.5),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in (files.FOLDER / "options").glob("*.flags")))
def test_recipes_of_options_go_with_those_of_models(name: str) -> None:
    model, section, option, value = OPTIONS[name]
    path = files.FOLDER / "options" / f"{name}.flags"
    parsed: Any = flags.train_config([f"--flagfile={files.FOLDER / model}.flags", f"--flagfile={path}"])
    for part in section.split("."):
        parsed = getattr(parsed, part)
    assert (parsed[option] if isinstance(parsed, Mapping) else getattr(parsed, option)) == value
    text = path.read_text()
    assert f"--flagfile=recipes/{model}.flags --flagfile=recipes/options/{name}.flags" in text
    assert "# Source: " in text


# What to read, not how to learn from it.
READ = {"model", "frame_features", "feature_names", "feature_sizes", "seed"}


@every_full_recipe
def test_full_recipes_tell_published_values_from_ours(name: str) -> None:
    text = (files.FOLDER / f"{name}.flags").read_text()
    told = re.search(r"^# As published: (.*?)\.\n# Ours: (.*?)\.\n# Network: ", text, re.MULTILINE | re.DOTALL)
    assert told is not None
    published, ours = (set(re.findall(r"\w+", part.split(";")[0])) for part in told.groups())
    given = set(re.findall(r"^--(\w+)", text, re.MULTILINE)) - READ
    assert not published & ours
    assert (published | ours) - {"nothing"} == given


@pytest.mark.published
@every_full_recipe
def test_a_network_that_is_said_to_be_exact_is_the_one_of_its_vectors(name: str) -> None:
    """In all but its sizes; the part before the classifier, and the classifier, which may have vectors of its own."""
    vectors = files.shown_by(name)
    if not vectors:
        return
    chosen = flags.train_config([f"--flagfile={files.FOLDER / name}.flags"]).model
    ours = models.create(chosen.model, chosen.hyper_parameters)
    if vectors[0].startswith("model_"):  # of the starter code, whose networks are our defaults
        assert all(golden(f"{vector}.npz").exists() for vector in vectors)
        assert form(ours) == form(models.create(name))
        return
    shown = [network(np.load(published_vector(vector))) for vector in vectors]
    if isinstance(ours, models.get("MoeModel")):
        assert form(ours) == {**form(shown[0]), "moe_prob_gating": True}
        return
    assert type(ours) is type(shown[0])
    assert form(ours) == form(shown[0])
    if isinstance(ours, ClassifiedModel):
        assert form(ours.classifier()) == form(shown[1] if len(shown) > 1 else shown[0].classifier())


# Sizes, and how frames are drawn, which the vectors leave out.
SIZES = re.compile(r"(_size|_cells|_layers|_attentions|_mixtures|_number|_temperature|_lambda|_reduction|_penalty)$")
OTHERS = {
    "feature_sizes",
    "iterations",
    "sequence_frames",
    "lstm_random_sequence",
    "drop_rate",
    "classifier_hyper_parameters",
}


def form(model: Any) -> dict[str, Any]:
    """The options of a model that make its form."""
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    return {name: value for name, value in fields.items() if not SIZES.search(name) and name not in OTHERS}


@every_model
def test_one_figure_is_told_everywhere(name: str) -> None:
    stated = {files.stated(path) for path in files.recipes_of(name).values()}
    assert stated == {figures.read_table(files.DOCS)[name].gap}
    assert 0 < stated.pop() < 1


def test_the_figures_bear_out_the_claims() -> None:
    gaps = {name: row.gap for name, row in figures.read_table(files.DOCS).items()}
    assert figures.broken_claims(gaps, margin=0.0) == []
    assert set(figures.IN_ORDER + figures.WEIGHED) <= set(gaps)


def config_of_data():
    """What the sample data of the recipes are."""
    return flags.read(SampleConfig, "recipes", "", [f"--flagfile={files.DATA}", "--out_dir=x"])


def test_the_sample_data_hide_classes_in_time() -> None:
    assert config_of_data().temporal
