"""config.json and model_flags.json: configs come back from them as they were, and damaged files are refused."""

from __future__ import annotations

import json
import platform

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.run_options import CheckpointConfig
from yt8m.config.train_config import DeviceConfig, ModelConfig, OptimizerConfig, TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.records import vocabulary

positive = st.integers(1, 2**40)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
hyper = st.one_of(st.booleans(), st.integers(-9, 9), st.floats(-1, 1), names, st.tuples(positive, positive))


@st.composite
def configs(draw):
    features = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    sizes = tuple(draw(positive) for _ in features)
    frames = draw(st.booleans())
    data = DataConfig(
        draw(names), tuple(features), sizes, frames, frames and draw(st.booleans()),
        num_epochs=draw(st.none() | positive), shuffle_buffer=draw(st.none() | st.integers(1, 10_000_000)),
        feature_ranges=draw(st.just(()) | st.tuples(*(st.sampled_from([(), (-1.5, 3.0)]) for _ in features))),
    )  # fmt: skip
    values = draw(st.dictionaries(names, hyper | st.dictionaries(names, hyper, max_size=2), max_size=3))
    return TrainConfig(
        draw(names),
        data,
        ModelConfig(draw(names), values, draw(names)),
        optimizer=OptimizerConfig(base_learning_rate=draw(st.floats(1e-9, 10)), combine_gradients="sum"),
        devices=DeviceConfig(num_gpu=draw(st.integers(1, 1024))),
        checkpoints=CheckpointConfig(draw(st.none() | positive), start_new_model=draw(st.booleans())),
        callbacks=tuple(draw(st.lists(names, max_size=2))),
        max_steps=draw(st.none() | positive),
    )


@given(configs())
def test_config_json_gives_back_every_config(config):
    assert run_dir.from_json(run_dir.to_json(config), "config.json") == config


@pytest.mark.promise("F2")
@given(st.integers(0, 2000))
def test_a_config_cut_short_anywhere_is_refused(length):
    text = run_dir.to_json(TrainConfig(train_dir="runs/a")).strip()
    with pytest.raises(RunError, match=r"runs/a/config\.json"):
        run_dir.from_json(text[: min(length, len(text) - 1)], "runs/a/config.json")


def edited(**changes):
    whole = json.loads(run_dir.to_json(TrainConfig()))
    for key, value in changes.items():
        section, _, name = key.partition("__")
        (whole["config"][section] if name else whole["config"])[name or section] = value
    return json.dumps(whole)


@pytest.mark.promise("F2")
def test_a_file_takes_the_defaults_for_what_it_lacks():
    old = json.dumps({"config": {"data": {"num_classes": 10}, "seed": 3}})
    expected = TrainConfig(data=DataConfig(num_classes=10), seed=3)
    assert run_dir.from_json(old, "config.json") == expected


@pytest.mark.promise("F2")
@pytest.mark.parametrize(
    ("number", "expected"),
    [(2, "config.json has format 2, and this version of yt8m reads formats up to 1: use"), ("1", "format is '1'")],
)
def test_a_file_of_a_newer_format_is_refused_by_its_number(number, expected):
    whole = json.loads(run_dir.to_json(TrainConfig()))
    assert whole["format"] == 1
    with pytest.raises(RunError, match=expected):
        run_dir.from_json(json.dumps(whole | {"format": number, "new_part": 3}), "config.json")


@pytest.mark.promise("F2")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["cut short or damaged"]),
        ("[]", ["list", "object"]),
        ("{}", ["has no config"]),
        (edited(data__batch_sise=3), ["config.data.batch_sise", "did you mean batch_size? This is yt8m 0."]),
        (edited(new_part={}), ["unknown key config.new_part"]),
        (edited(data__batch_size="many"), ["config.data", "batch_size must be an int"]),
        (edited(data__batch_size=0), ["batch_size must be at least 1"]),
        (edited(data__num_classes=10**19), ["config.data", "num_classes must be at most 10000000; it is 1000"]),
        (edited(data__feature_sizes=[10**19, 8]), ["feature_sizes must be at most 9223372036854775807"]),
        (edited(max_steps=10**19), ["max_steps must be at most 9223372036854775807"]),
        (edited(checkpoints__keep_checkpoints=-(10**19)), ["keep_checkpoints must be at least 0"]),
        ("[" * 100_000, ["cut short or damaged", "nested deeper than 100 levels"]),
        ('{"config":' + "[" * 101 + "]" * 101 + "}", ["nested deeper than 100 levels"]),
        (edited(data__segment_labels=True), ["segment_labels needs"]),
        (edited(data__feature_ranges=[[1, -1], []]), ["two ascending numbers, or none, for each of the features"]),
        (edited(data__feature_ranges=[[-1, 1]]), ["feature_ranges is ((-1, 1),)", "mean_rgb,mean_audio"]),
        (edited(data=3), ["config.data is 3"]),
        (edited(model__hyper_parameters=3), ["config.model.hyper_parameters is 3"]),
        (edited(callbacks=["a", 3]), ["callbacks must be a tuple of str"]),
    ],
)
def test_other_files_are_refused_with_the_key_named(text, parts):
    with pytest.raises(RunError) as refusal:
        run_dir.from_json(text, "here/config.json")
    assert "here/config.json" in str(refusal.value)
    for part in parts:
        assert part in str(refusal.value)


def test_versions_are_written_down():
    written = json.loads(run_dir.to_json(TrainConfig()))["versions"]
    assert written["python"] == platform.python_version()
    assert written["tensorflow"].startswith("2.")
    assert written["yt8m"]


def test_model_flags_have_the_published_form():
    data = DataConfig(feature_names=("mean_rgb", "mean_audio"), feature_sizes=(16, 8))
    written = run_dir.model_flags_to_json(TrainConfig(data=data))
    assert json.loads(written) == {
        "model": "LogisticModel",
        "feature_sizes": "16,8",
        "feature_names": "mean_rgb,mean_audio",
        "frame_features": False,
        "label_loss": "CrossEntropyLoss",
    }
    assert run_dir.model_flags_from_json(written, "f").data == data


def test_model_flags_of_segments_come_back():
    data = DataConfig(feature_names=("rgb",), feature_sizes=(16,), frame_features=True, segment_labels=True)
    config = TrainConfig(data=data, model=ModelConfig("DbofModel", {}, "HingeLoss"))
    assert run_dir.model_flags_from_json(run_dir.model_flags_to_json(config), "f") == config


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"model": None}, r"model .*\bstr\b"),
        ({"feature_sizes": "16,x"}, "invalid literal"),
        ({"feature_sizes": "16,8,4"}, "--feature_sizes 3"),
        ({"feature_names": 3}, "'int' object"),
        ({"frame_features": "yes"}, "frame_features must be a bool"),
    ],
)
def test_unusable_model_flags_are_refused(change, part):
    flags = json.loads(run_dir.model_flags_to_json(TrainConfig())) | change
    with pytest.raises(RunError, match=part):
        run_dir.model_flags_from_json(json.dumps(flags), "model_flags.json")
    del flags["label_loss"]
    with pytest.raises(RunError, match=r"model_flags\.json lacks label_loss"):
        run_dir.model_flags_from_json(json.dumps(flags), "model_flags.json")


def test_lists_at_any_depth_of_hyper_parameters_are_tuples():
    whole = edited(model__hyper_parameters={"parts": {"sizes": [1, [2, 3]]}})
    found = run_dir.from_json(whole, "config.json").model.hyper_parameters
    assert found == {"parts": {"sizes": (1, (2, 3))}}


def test_versions_of_a_run_are_read_if_they_can_be(tmp_path):
    assert run_dir.written_versions(str(tmp_path)) == {}
    (tmp_path / "config.json").write_text('{"versions": {"yt8m": "0.1", "python": 3}}')
    assert run_dir.written_versions(str(tmp_path)) == {"yt8m": "0.1", "python": "3"}
    (tmp_path / "config.json").write_text('{"versions": 7}')
    assert run_dir.written_versions(str(tmp_path)) == {}


def test_a_run_has_the_names_of_its_own_folder(tmp_path):
    assert not run_dir.own_names(str(tmp_path), 2)
    vocabulary.write(str(tmp_path / "vocabulary.csv"), vocabulary.of_names(["cat", "dog"]))
    for count in (None, 2):
        assert run_dir.own_names(str(tmp_path), count).names == ("cat", "dog")
    with pytest.raises(UsageError, match=r"vocabulary\.csv .*\b2 classes.*\b3: .*--num_classes"):
        run_dir.own_names(str(tmp_path), 3)


def test_the_end_of_a_run_is_read_as_it_was_noted(tmp_path):
    assert run_dir.read_end(str(tmp_path)) is None
    for end in (run_dir.Ended("finished", 7, "it is over"), run_dir.Ended("failed", None, "")):
        run_dir.note_end(str(tmp_path), end)
        assert run_dir.read_end(str(tmp_path)) == end
    for damaged in ("{}", '{"status": "", "step": 1}', '{"status": "failed", "step": "1"}'):
        (tmp_path / "ended.json").write_text(damaged)
        with pytest.raises(RunError, match=r"ended\.json is damaged: .*status.*step.*message"):
            run_dir.read_end(str(tmp_path))
    run_dir.forget_end(str(tmp_path))
    assert run_dir.read_end(str(tmp_path)) is None
