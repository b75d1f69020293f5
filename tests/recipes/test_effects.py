"""The table of effects: its flags, its rows and its place on the page."""

from __future__ import annotations

import re

import pytest

from recipes import effects, figures, files
from yt8m.command_line import flags
from yt8m.config.programs import InferenceConfig
from yt8m.datasets.sample_data import SampleConfig


@pytest.mark.parametrize("variant", effects.VARIANTS, ids=lambda variant: str(variant.name))
def test_flags_are_those_of_our_programs(variant: effects.Variant) -> None:
    plain, changed = (flags.train_config([*variant.training, *more]) for more in ((), variant.trained))
    assert (plain != changed) == bool(variant.trained)
    data = flags.read(SampleConfig, "effects", "", [*variant.data, "--out=data"])
    assert data.levels() == ("segment" if "--segment_labels" in variant.training else data.level,)
    if variant.ranked:
        words = ["--segment_labels", "--train_dir=run", *variant.ranked]
        assert flags.read(InferenceConfig, "effects", "", words) != InferenceConfig(
            train_dir="run", segment_labels=True
        )


def test_flags_on_the_command_line_replace_those_of_a_row() -> None:
    queries = next(variant for variant in effects.VARIANTS if "grouped" in variant.name)
    changed = effects.with_flags(queries, ["--probe_size=64", "--decoder_feed_forward=128", "--seed=3"])
    assert set(changed.training) ^ set(queries.training) == {"--probe_size=32", "--probe_size=64", "--seed=3"}
    assert changed.trained == ("--decoder_queries=10", "--decoder_feed_forward=128")
    assert effects.with_flags(queries, []) == queries


def test_a_row_has_means_and_the_range_of_the_changes() -> None:
    pairs = [
        ({"tail": 0.2, "GAP": 0.5}, {"tail": 0.3, "GAP": 0.4}),
        ({"tail": 0.4, "GAP": 0.5}, {"tail": 0.7, "GAP": 0.5}),
    ]
    expected = "| loss | 0.300 | 0.500 | +0.200 (+0.100 to +0.300) | -0.050 (-0.100 to +0.000) |"
    assert effects.row("loss", pairs) == expected
    assert effects.row("shifts", [({"tail": 0.5}, {"tail": 0.5})]).endswith("| +0.000 (+0.000 to +0.000) | none |")


def test_the_page_has_a_row_for_each() -> None:
    text = files.DOCS.read_text().partition(effects.BEGIN)[2].partition(figures.END)[0]
    assert re.findall(r"^\| ([^|]+?) \| [\d.]+ ", text, re.MULTILINE) == [one.name for one in effects.VARIANTS]
