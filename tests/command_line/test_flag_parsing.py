"""Words on a command line, and the slips that are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.command_line.flag_parsing import Flag, HelpAsked, find_switch, find_word, flags_of, parse
from yt8m.config.export_config import ExportConfig
from yt8m.errors import UsageError
from yt8m.training.growth_config import AddClassesConfig

KNOWN = [
    Flag("batch_size", int, 1024, "examples per step", "Data"),
    Flag("rate", float, 0.1, "the rate", "Data"),
    Flag("frame_features", bool, False, "frames", "Data"),
    Flag("nodes", str, "", "a name that begins with no", "Data"),
    Flag("notify", bool, False, "a switch that begins with no", "Data"),
    Flag("names", tuple[str, ...], (), "names", "Data"),
    Flag("sizes", tuple[int, ...], (), "sizes", "Data"),
    Flag("out", str, "", "a file", "Data", is_path=True),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--batch_size=8"], {"batch_size": 8}),
        (["--batch_size", "8"], {"batch_size": 8}),
        (["-batch_size=8"], {"batch_size": 8}),
        (["--out=./-", "--nodes=-"], {"out": "./-", "nodes": "-"}),
        (["--batch_size", "-8"], {"batch_size": -8}),
        (["--rate=1e-3"], {"rate": 1e-3}),
        (["--frame_features"], {"frame_features": True}),
        (["--noframe_features"], {"frame_features": False}),
        (["--frame_features=False"], {"frame_features": False}),
        (["--notify"], {"notify": True}),
        (["-notify"], {"notify": True}),
        (["--nonotify"], {"notify": False}),
        (["--frame_features=true", "--nodes=a=b"], {"frame_features": True, "nodes": "a=b"}),
        (["--names= rgb, audio ", "--sizes=1024, 128"], {"names": ("rgb", "audio"), "sizes": (1024, 128)}),
    ],
)
def test_what_is_given_becomes_typed_values(words, expected):
    assert parse(KNOWN, words) == expected


@pytest.mark.promise("F1")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--batch_size=8", "--batch_size=8"], ["--batch_size is given twice"]),
        (["--frame_features", "--noframe_features"], ["--frame_features is given twice"]),
        (["--frame_features", "False"], ["--frame_features False", "--noframe_features"]),
        (["--frame_features", "train.tfrecord"], ["--frame_features train.tfrecord"]),
        (["train.tfrecord"], ["stray argument 'train.tfrecord'", "--name=value"]),
        (["--batch_size=8", "--", "--rate=1"], ["stray argument '--'"]),
        (["--names", "rgb,", "audio"], ["stray argument 'audio'"]),
        (["--batchsize=8"], ["unknown flag --batchsize", "did you mean --batch_size?"]),
        (["--nobatch_size"], ["unknown flag --nobatch_size"]),
        (["--noframe_features=true"], ["unknown flag --noframe_features", "did you mean --frame_features?"]),
        (["--xyzzy"], ["unknown flag --xyzzy", "--help"]),
        (["--batch_size=many"], ["--batch_size=many", "a whole number", "examples per step"]),
        (["--batch_size=1.5"], ["--batch_size=1.5", "a whole number"]),
        (["--rate=fast"], ["--rate=fast", "a number"]),
        (["--rate=nan"], ["--rate=nan", "a number"]),
        (["--rate=inf"], ["--rate=inf", "a number"]),
        (["--frame_features=perhaps"], ["--frame_features=perhaps", "true or false"]),
        (["--sizes=1024,x"], ["--sizes=1024,x", "1024,128"]),
        (["--sizes=1024,"], ["--sizes=1024,", "1024,128"]),
        (["--out=-"], ["--out=-", "/dev/stdout", "./-"]),
        (["--out", "-"], ["--out=-", "/dev/stdout", "./-"]),
        (["--nodes="], ["--nodes= is empty"]),
        (["--nodes"], ["--nodes has no value"]),
        (["--nodes", "--batch_size=8"], ["--nodes has no value"]),
        (["--flagfile=/nowhere/flags"], ["--flagfile=/nowhere/flags", "one flag per line"]),
    ],
)
def test_slips_are_refused_with_the_flag_and_the_way_out(words, parts):
    with pytest.raises(UsageError) as refusal:
        parse(KNOWN, words)
    for part in parts:
        assert part in str(refusal.value)


@pytest.mark.parametrize(
    ("word", "of_all"), [("--help", False), ("-h", False), ("-?", False), ("--help=all", True), ("--helpfull", True)]
)
def test_help_is_told_from_a_mistake(word, of_all):
    with pytest.raises(HelpAsked) as asked:
        parse(KNOWN, [word])
    assert asked.value.show_all is of_all


def test_the_command_line_wins_over_a_flagfile_wherever_it_stands(tmp_path):
    file = tmp_path / "flags"
    file.write_text("# a comment\n--batch_size=8\n--rate=0.5\n\n--noframe_features\n")
    expected = {"batch_size": 16, "rate": 0.5, "frame_features": False}
    assert parse(KNOWN, [f"--flagfile={file}", "--batch_size=16"]) == expected
    assert parse(KNOWN, ["--batch_size=16", "--flagfile", str(file)]) == expected


def test_a_flag_repeated_within_flagfiles_is_refused(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--batch_size=8\n--batch_size=9\n")
    with pytest.raises(UsageError, match=r"twice.*flagfiles: --batch_size=8 and --batch_size=9"):
        parse(KNOWN, [f"--flagfile={file}"])


def test_one_word_is_found_before_the_flags_are_known(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--model=MoeModel\n")
    assert find_word("model", ["--x=1", "--model=A"]) == "A"
    assert find_word("model", ["--model", "A"]) == "A"
    assert find_word("model", [f"--flagfile={file}"]) == "MoeModel"
    assert find_word("model", ["--models=A", "model=B", "--flagfile=/nowhere"]) == ""
    assert find_word("model", ["--model"]) == ""
    assert find_word("model", ["--model=A", "--flagfile"]) == "A"


@given(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_any_value_survives_being_written_down(number, rate, switch):
    words = [f"--batch_size={number}", f"--rate={rate!r}", f"--frame_features={switch}"]
    assert parse(KNOWN, words) == {"batch_size": number, "rate": rate, "frame_features": switch}


@pytest.mark.promise("F1")
@given(st.lists(st.text(max_size=12), max_size=4))
def test_arbitrary_words_are_read_or_refused(words):
    with contextlib.suppress(UsageError, HelpAsked):
        assert isinstance(parse(KNOWN, words), dict)


def test_an_empty_value_is_taken_where_it_is_one_of_the_choices():
    flags = {flag.name: flag for flag in flags_of(AddClassesConfig, "Training")}
    assert parse([*flags.values()], ["--train_only="]) == {"train_only": ""}
    assert flags["train_only"].help.endswith("the whole model does")  # no list of a single word
    with pytest.raises(UsageError, match="--out= is empty"):
        parse([*flags.values()], ["--out="])


@pytest.mark.parametrize("word", ["true", "False", "yes", "off"])
def test_a_word_for_on_or_off_is_no_path(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"^--out={word}: .* on or off.*\./{word}\b"):
        parse(KNOWN, [f"--out={word}"])
    assert parse(KNOWN, [f"--out=./{word}"]) == {"out": f"./{word}"}
    (tmp_path / word).mkdir()
    assert parse(KNOWN, [f"--out={word}"]) == {"out": word}


def test_only_flags_that_may_be_missing_are_left_out():
    flag = Flag("out", str, "", "folder", "Data", is_path=True)
    with pytest.raises(UsageError, match=r"or leave --out out\.$"):
        parse([flag], ["--out=no"])
    with pytest.raises(UsageError, match=r"\./no\b(?!.*--out out)"):
        parse([flag._replace(is_required=True)], ["--out=no"])
    assert {flag.name: flag.is_required for flag in flags_of(ExportConfig, "")}["out"]


def test_a_number_is_no_cache_but_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = Flag("cache", str, "", "auto: one in --cache_dir", "Data", is_path=True)
    with pytest.raises(UsageError, match=r"^--cache=1: .* on or off.*--cache=auto.*\./1\b"):
        parse([cache], ["--cache=1"])
    with pytest.raises(UsageError, match="or leave --cache out"):
        parse([cache], ["--cache=0"])
    for word in ("10", "auto", "c1"):
        assert parse([cache], [f"--cache={word}"]) == {"cache": word}
    assert parse(KNOWN, ["--out=1"]) == {"out": "1"}


def test_an_alias_is_the_same_flag():
    known = [Flag("train_dir", str, "", "the run", "Flags", aliases=("run", "model"))]
    assert (
        parse(known, ["--run=a"])
        == parse(known, ["--model", "a"])
        == parse(known, ["--train_dir", "a"])
        == {"train_dir": "a"}
    )
    with pytest.raises(UsageError, match="--train_dir is given twice: --run=a and --train_dir=b"):
        parse(known, ["--run=a", "--train_dir=b"])


def test_words_that_are_no_flags_go_where_they_are_wanted():
    operands: list[str] = []
    words = ["a", "--batch_size", "3", "b", "--nodes=M", "c"]
    assert parse(KNOWN, words, operands) == {"batch_size": 3, "nodes": "M"}
    assert operands == ["a", "b", "c"]


def test_a_file_may_follow_a_switch_where_files_are_wanted_but_a_truth_may_not():
    operands: list[str] = []
    assert parse(KNOWN, ["--frame_features", "a.tfrecord", "--notify"], operands) == {
        "frame_features": True,
        "notify": True,
    }
    assert operands == ["a.tfrecord"]
    for word in ("True", "no", "1"):
        with pytest.raises(UsageError, match=f"--frame_features {word}: .* write --frame_features={word}, "):
            parse(KNOWN, ["--frame_features", word], [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], False),
        (["--trust_code"], True),
        (["-trust_code=true", "--rate=1"], True),
        (["--trust_code=false"], False),
        (["--notrust_code"], False),
        (["--notrust_code", "--trust_code"], True),
        (["--nodes=trust_code", "--trust_codes"], False),
    ],
)
def test_a_switch_is_found_before_the_flags_are_known(words, expected):
    assert find_switch("trust_code", words) is expected


def test_a_typed_switch_counts_more_than_that_of_a_flagfile(tmp_path):
    (tmp_path / "flags").write_text("--trust_code\n")
    assert find_switch("trust_code", [f"--flagfile={tmp_path}/flags"])
    assert not find_switch("trust_code", ["--notrust_code", f"--flagfile={tmp_path}/flags"])
    with pytest.raises(UsageError, match="--trust_code"):
        find_switch("trust_code", ["--trust_code=perhaps"])
