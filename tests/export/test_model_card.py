"""The model card: a law of its flags, and what it says of sizes and figures."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from yt8m.command_line import flags
from yt8m.export import model_card

WORDS = [
    "--model=DbofModel",
    "--frame_features",
    "--dbof_cluster_size=12",
    "--dbof_pooling_method=average",
    "--video_level_classifier_model=MoeModel",
    "--moe_num_mixtures=5",
    "--feature_names=rgb,mine",
    "--feature_sizes=1024,7",
    "--num_classes=9",
    "--optimizer=AdamWOptimizer",
    "--weight_decay=0.02",
    "--learning_rate_warmup_examples=500",
    "--augment_noise=0.5",
    "--teacher=runs/big",
    "--num_gpu=2",
    "--seed=4",
    "--max_steps=10",
    "--train_dir=runs/a",
]


def test_the_flags_of_a_card_give_the_same_run_again() -> None:
    run = flags.train_config(WORDS)
    listed = model_card.flags(run)
    assert listed == sorted(listed)
    assert flags.train_config([*listed, "--train_dir=runs/a"]) == run
    assert not any("runs/a" in word for word in listed)
    of_manifest = {"feature_ranges": ((-1.0, 2.5), ()), "extractors": ({"name": "inception"},), "segment_size": 7}
    assert model_card.flags(dataclasses.replace(run, data=dataclasses.replace(run.data, **of_manifest))) == listed


def card(sizes: dict[str, int], figures: dict[str, float]) -> str:
    run = flags.train_config(WORDS)
    return model_card.text(run, 10, 1_234_567, sizes, figures=figures, weights="int8")


def test_sizes_stand_against_the_limit() -> None:
    text = card({"inference_model": 123_000_000, "saved_model": 10**9 + 1}, {})
    assert "- parameters: 1,234,567" in text
    assert "- inference_model: 123,000,000 bytes (12.30 % of the 1 GB" in text
    assert "- saved_model: 1,000,000,001 bytes (over the 1 GB" in text
    assert "was not evaluated" in text
    assert "- stored as: int8" in text
    assert text == card({"inference_model": 123_000_000, "saved_model": 10**9 + 1}, {})


def test_figures_are_those_of_the_same_step(tmp_path: pathlib.Path) -> None:
    (tmp_path / "eval").mkdir()
    report = {"global_step": 10, "gap": 0.81234, "num_examples": 21, "map": None, "classes": [], "model": "X"}
    (tmp_path / "eval/report.json").write_text(json.dumps(report))
    assert model_card.report_of(str(tmp_path), 10) == {"gap": 0.81234, "num_examples": 21}
    assert model_card.report_of(str(tmp_path), 11) == {}
    (tmp_path / "eval/report.json").write_text('{"global_step": 10, "ga')
    assert model_card.report_of(str(tmp_path), 10) == {}
    text = card({}, {"gap": 0.81234, "num_examples": 21})
    assert "| gap | 0.8123 |\n| num_examples | 21 |" in text


def test_a_folder_is_measured_without_its_card(tmp_path: pathlib.Path) -> None:
    for name, count in (("a.meta", 5), ("variables/w", 7), ("saved_model/variables/w", 11), ("README.md", 99)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * count)
    assert model_card.sizes_in(str(tmp_path)) == {"files": 12, "saved_model": 11}


def test_a_run_of_defaults_lists_little() -> None:
    run = dataclasses.replace(flags.train_config([]), train_dir="runs/a")
    names = {word.partition("=")[0] for word in model_card.flags(run)}
    published = {
        "--model",
        "--label_loss",
        "--feature_names",
        "--feature_sizes",
        "--frame_features",
        "--segment_labels",
    }
    assert names == {*published, "--l2_penalty", "--l2_biases"}
