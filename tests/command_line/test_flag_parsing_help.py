"""The text of `--help`, word for word, and which flags the programs have."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line import flag_parsing, flags
from yt8m.command_line.flag_parsing import Flag, Program, usage
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.options import option, shown

KNOWN = [
    Flag("batch_size", int, 1024, "examples per step", "Data"),
    Flag("rate", float, 0.1, "the rate", "Data"),
    Flag("frame_features", bool, False, "frames", "Data"),
    Flag("a_switch_with_a_long_name", bool, True, "words before", "Data"),
    Flag("names", tuple[str, ...], ("rgb", "audio"), "names", "Data"),
    Flag("sizes", tuple[int, ...], (), "sizes", "Data"),
    Flag("model", str, "", "the model " + "word " * 20 + "end", "Model"),
    Flag("seed", int, None, "where the order starts", "Model"),
    Flag("classes", int, 10, "how many [as many as there are]", "Model"),
]

TEXT = """\
usage: train.py [--flag=value ...]

Trains.

Data:
  --batch_size=N              examples per step [1024]
  --rate=X                    the rate [0.1]
  --[no]frame_features        frames
  --[no]a_switch_with_a_long_name
                              words before [true]
  --names=A,B,...             names [rgb,audio]
  --sizes=A,B,...             sizes

Model:
  --model=TEXT                the model word word word word word word word word word word word word
                              word word word word word word word word end
  --seed=N                    where the order starts
  --classes=N                 how many [as many as there are]

Names:
  models: A, B

--flagfile=FILE reads flags from a file, one per line.
"""


def test_the_text_lists_flags_by_group_with_their_defaults_and_the_names() -> None:
    assert usage(Program("train.py", "Trains.", KNOWN), {"models": ["A", "B"]}) == TEXT


def test_without_names_there_is_no_heading_for_them() -> None:
    expected = "usage: x [--flag=value ...]\n\nDoes.\n\n--flagfile=FILE reads flags from a file, one per line.\n"
    assert usage(Program("x", "Does.", []), {}) == expected


def test_long_lists_are_wrapped_under_their_beginning() -> None:
    text = usage(Program("x", "Does. " * 30, []), {"models": [f"Model{number}" for number in range(30)]}, show_all=True)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert max(map(len, lines)) > 85
    start = next(number for number, line in enumerate(lines) if line.startswith("  models: Model0, "))
    assert lines[start + 1].startswith("  Model")
    assert lines[2].startswith("Does. ")
    assert lines[3].startswith("Does. ")


def listed(text: str) -> list[str]:
    return re.findall(r"^  --(?:\[no\])?(\w+)", text, re.MULTILINE)


def help_of(main: Any, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit):
        main([*words])
    return capsys.readouterr().out


def test_help_lists_what_most_runs_need_on_two_screens_and_all_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    short, whole = (help_of(train.main, capsys, word) for word in ("--help", "--help=all"))
    assert len(listed(short)) == 20
    assert len(short.splitlines()) <= 2 * 24
    assert {"train_dir", "train_data_pattern", "model", "batch_size", "num_gpu"} <= set(listed(short))
    known = flags.training_flags()
    assert listed(whole) == [flag.name for flag in (*known, *flags.hyper_parameters(known))]
    assert f"--help=all lists {len(listed(whole)) - 20} more flags." in short
    assert "more flags" not in whole
    assert ("optimizers:" in short, "optimizers:" in whole) == (False, True)
    for main in (evaluation.main, inference.main):
        assert set(listed(help_of(main, capsys, "--help"))) < set(listed(help_of(main, capsys, "--helpfull")))


def test_the_hyper_parameters_of_the_chosen_model_and_loss_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(train.main, capsys, "--model=MoeModel", "--label_loss=FocalLoss", "--help")
    gates = {
        "moe_prob_gating",
        "moe_prob_gating_input",
        "prob_gating_rank",
        "moe_low_rank_gating",
        "gating_remove_diag",
    }
    of_model = {"batch_norm_decay", "moe_num_mixtures", "l2_penalty", "input_transform", *gates}
    assert {*of_model, "focal_gamma"} == set(listed(text)[20:])
    assert "(MoeModel: 2)" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (("a", "b"), "a,b"), ([1, 2], "1,2"), ((), ""), (1e-8, "1e-08"), ("x", "x")],
)
def test_values_are_shown_as_they_are_typed(value: Any, text: str) -> None:
    assert shown(value) == text


def test_flags_are_made_of_the_declared_fields() -> None:
    @dataclasses.dataclass
    class Config:
        kind: str = option("saw", "which one", choices=("saw", "drill"))
        limit: int | None = option(None, "how much")
        seed: int = option(0, "where it starts", is_flag=False)
        source: str = option("", "whose", flag="from", aliases=("of",), is_common=True, is_code=True)
        inner: int = 3

    Config.__annotations__ = {"kind": str, "limit": int | None, "seed": int, "source": str, "inner": int}
    assert flag_parsing.flags_of(Config, "Group") == [
        Flag("kind", str, "saw", "which one (saw or drill)", "Group"),
        Flag("limit", int, None, "how much", "Group"),
        Flag("from", str, "", "whose", "Group", ("of",), is_common=True, is_code=True),
    ]


def groups(flags: list[Flag]) -> list[str]:
    return list(dict.fromkeys(flag.group for flag in flags))


def test_the_flags_of_each_program_stand_in_their_groups() -> None:
    training = {flag.name: flag for flag in flags.training_flags()}
    expected = ["Run", "Data", "Model", "Optimizer", "Devices", "Checkpoints"]
    assert groups(list(training.values())) == [
        *expected,
        "Cluster",
        "Distillation",
        "Augmentation",
        "Validation",
        "Buckets",
        "Search",
    ]
    assert {"train_data_pattern", "seed", "model", "num_gpu"} <= set(training)
    assert {"data_pattern", "segment_size", "feature_ranges"} & set(training) == set()
    assert len(training) == len(flags.training_flags())
    assert training["train_data_pattern"].help.endswith(" [sample data]")
    for name, end in (
        ("feature_names", "[all of yours; mean_rgb or rgb of YouTube-8M]"),
        ("feature_sizes", "in the same order [as in the data]"),
    ):
        assert training[name].help.endswith(end)
    assert training["num_classes"].help.endswith("[as many as the vocabulary has, else 3862]")
    assert groups(flag_parsing.program_flags(EvalConfig, "Evaluation")) == ["Evaluation", "Buckets"]
    assert groups(flag_parsing.program_flags(InferenceConfig, "Inference")) == ["Inference", "Buckets"]


@dataclasses.dataclass
class _First:
    size: int = option(1, "how large")
    rate: float | None = option(None, "how fast")


@dataclasses.dataclass
class _Second:
    size: int = option(2, "how large it is")


class _Catalogue:
    """Classes by name, as `models` and `losses` give them."""

    def __init__(self, **classes: type) -> None:
        self._classes = classes

    def names(self) -> list[str]:
        return sorted(self._classes)

    built_in_names = names

    def get(self, name: str) -> type:
        return self._classes[name]

    def hyper_parameters(self, cls: type) -> Any:
        from yt8m import options

        return options.declared(cls)


def test_a_hyper_parameter_of_several_is_one_flag_and_the_chosen_one_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "models", _Catalogue(First=_First, Second=_Second))
    monkeypatch.setattr(flags, "losses", _Catalogue(Loss=_Second))
    heading = "Hyper-parameters of the models"
    rate = Flag("rate", float, None, "how fast (First: None)", heading)
    size = Flag("size", int, None, "how large (First: 1, Second: 2)", heading)
    assert flags.hyper_parameters([]) == [size, rate]
    turned = size._replace(help="how large it is (Second: 2)")
    assert flags.hyper_parameters([], "Second") == [turned, rate]
    loss = Flag("size", int, None, "how large it is (Loss: 2)", "Hyper-parameters of the losses")
    monkeypatch.setattr(flags, "models", _Catalogue())
    assert flags.hyper_parameters([]) == [loss]
    assert flags.hyper_parameters([], with_losses=False) == []
    assert flags.hyper_parameters([Flag("size", int, 1, "taken", "x")]) == []


@dataclasses.dataclass
class _Third:
    size: int = option(3, "how big")
    weights: str = option("", "its file [fetched]")
    parts: tuple[str, ...] = option((), "its parts")


def test_settings_of_parts_are_flags_whose_help_has_the_defaults() -> None:
    catalogue = _Catalogue(First=_First, Third=_Third)
    size = Flag("size", int, None, "how large (First: 1, Third: 3)", "Parts")
    rate = Flag("rate", float, None, "how fast (First: None)", "Parts")
    weights = Flag("weights", str, None, "its file [fetched]", "Parts")
    parts = Flag("parts", tuple[str, ...], None, "its parts", "Parts")
    assert flag_parsing.flags_of_parts(catalogue, [], "Parts", set()) == [size, rate, weights, parts]
    big = size._replace(help="how big (Third: 3, First: 1)")
    assert flag_parsing.flags_of_parts(catalogue, ["Third", "First"], "Parts", {"rate"}) == [big, weights, parts]
