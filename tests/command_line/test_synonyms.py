"""Flags under the names of other programs lead to the flag that is meant, before similar spelling does."""

from __future__ import annotations

import contextlib
import pathlib
import re

import pytest
from small_run import ROOT

from yt8m.command_line import cli, synonyms

TRAIN = {
    "lr": "base_learning_rate",
    "LR": "base_learning_rate",
    "learning-rate": "base_learning_rate",
    "base-learning-rate": "base_learning_rate",
    "gpus": "num_gpu",
    "epochs": "num_epochs",
    "batch": "batch_size",
    "loss": "label_loss",
    "early_stopping": "patience",
    "weights": "init_from",
    "workers": "num_readers",
    "name": "train_dir",
    "project": "train_dir",
    "output_dir": "train_dir",
    "dropout": "drop_rate",
    "freeze": "train_only",
}


def flags_of(program: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    with contextlib.suppress(SystemExit):
        cli.main([program, "--help=all"])
    lines = (line.strip() for line in capsys.readouterr().out.splitlines())
    return {line[2:].split("=")[0].split()[0].removeprefix("[no]") for line in lines if line.startswith("--")}


@pytest.mark.parametrize(("word", "flag"), TRAIN.items())
def test_training_names_the_flag(word: str, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", f"--{word}=1"]) == 2
    assert f"unknown flag --{word}; did you mean --{flag}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "word", "part"),
    [
        ("train", "resume", "--train_dir"),
        ("train", "device", "--num_gpu"),
        ("train", "wandb", "--callbacks"),
        ("train", "modle", "did you mean --model?"),
        ("predict", "weights", "did you mean --model?"),
        ("predict", "topk", "did you mean --top_k?"),
        ("predict", "lr", "--help=all"),
        ("make-records", "csv", "did you mean --table?"),
        ("make-records", "features", "did you mean --array?"),
        ("make-records", "sep", "did you mean --label_separator?"),
        ("make-records", "sheet", "#SHEET"),
        ("extract", "workers", "did you mean --jobs?"),
        ("predict", "embeddings", "did you mean --features?"),
        ("export", "onnx", "did you mean --format?"),
        # No guess where it would cost a run, or lead elsewhere.
        ("train", "data_dir", "did you mean --data?"),
        ("train", "pretrained_model", "did you mean --init_from?"),
        ("train", "num_heads", "--help=all"),
        ("train", "clip", "did you mean --clip_gradient_norm?"),
        ("train", "checkpoint", "did you mean --init_from?"),
        ("train", "outdir", "did you mean --train_dir?"),
        ("train", "labels", "make-records --table"),
        ("train", "threshold", "no flag is needed"),
        ("train", "folds", "cross_val_predict(yt8m.Classifier(), X, y, cv=5)"),
        ("audit", "cv", "did you mean --folds?"),
        ("train", "valid_split", "make-records --splits"),
        ("predict", "batch", "no flag is needed"),
        ("eval", "split", "--data='data/video/test/*.tfrecord'"),
        ("train", "params", "--help=all"),
        ("train", "overwritten", "--help=all"),
    ],
)
def test_a_program_without_the_flag_says_what_it_has(
    program: str, word: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([program, f"--{word}=1"]) == 2
    assert part in capsys.readouterr().err


def test_flags_without_dashes_are_no_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for word, answer in (("model=runs/a", "--model=runs/a"), ("source=clips", "did you mean --videos?")):
        assert cli.main(["predict", word]) == 2
        said = capsys.readouterr().err
        assert f"stray argument {word!r}" in said
        assert answer in said
    for word in ("model=runs/a", "year=2024"):  # a file of such a name, and no flag
        (tmp_path / word).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / word).write_bytes(b"")
        assert cli.main(["predict", word]) == 2
        assert "--model is missing" in capsys.readouterr().err


@pytest.mark.heavy
def test_every_word_leads_to_a_flag_of_some_program(capsys: pytest.CaptureFixture[str]) -> None:
    flags = set().union(*(flags_of(program, capsys) for program in cli.COMMANDS))
    assert {flag for meant in synonyms._MEANT.values() for flag in meant.split()} <= flags
    assert {word for word in synonyms._MEANT if word in flags_of("train", capsys)} == set()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["fit"], "did you mean train?"),
        (["test"], "did you mean eval?"),
        (["infer"], "did you mean inference?"),
        (["convert"], "did you mean make-records?"),
        (["version"], "did you mean --version?"),
        (["trian"], "did you mean train?"),
        (["--model=x"], "a command comes first"),
    ],
)
def test_a_command_under_another_name(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert part in capsys.readouterr().err


# Words that have no counterpart, so that all flags are the answer.
UNANSWERED = {"ultralytics": ["fraction_of_classes"], "scikit-learn": ["n_jobs"]}
# {program people come from: its words for a training}; each is answered by a flag, or by what is done without one.
WORDS_OF = {
    "ultralytics": "lr0 lrf cos_lr warmup_epochs momentum imgsz save_period exist_ok plots mosaic fliplr val epochs "
    "batch device workers project name resume amp pretrained freeze dropout augment tune cfg "
    "fraction_of_classes",
    "transformers": "load_best_model_at_end per_device_train_batch_size per_device_eval_batch_size eval_strategy "
    "save_strategy save_total_limit logging_dir logging_steps report_to lr_scheduler_type "
    "warmup_ratio adam_beta1 max_grad_norm gradient_accumulation_steps dataloader_num_workers "
    "push_to_hub do_eval fp16 bf16 metric_for_best_model greater_is_better overwrite_output_dir "
    "num_train_epochs local_rank deepspeed fsdp torch_compile",
    "keras": "validation_data validation_split class_weight sample_weight steps_per_epoch "
    "restore_best_weights min_delta reduce_lr_on_plateau mixed_precision jit_compile dropout_rate "
    "verbose shuffle model_checkpoint",
    "lightning": "max_epochs devices accelerator strategy num_nodes gradient_clip_val accumulate_grad_batches "
    "fast_dev_run check_val_every_n_epoch val_check_interval deterministic logger default_root_dir "
    "enable_progress_bar max_time swa",
    "timm": "sched warmup_lr min_lr decay_epochs decay_rate opt smoothing model_ema clip_grad clip_mode "
    "sync_bn checkpoint_hist initial_checkpoint color_jitter cutmix pos_weight bce_loss tta",
    "scikit-learn": "max_iter penalty alpha hidden_layer_sizes learning_rate_init n_iter_no_change warm_start "
    "random_state scoring n_jobs cv test_size train_size",
}


@pytest.mark.parametrize("program", WORDS_OF)
def test_words_of_other_programs_for_a_training_are_answered(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = flags_of("train", capsys)
    words = [word for word in WORDS_OF[program].split() if word not in flags]
    assert [word for word in words if not synonyms.hint(word, flags)] == UNANSWERED.get(program, [])


def test_each_advice_names_flags_that_a_program_has(capsys: pytest.CaptureFixture[str]) -> None:
    flags = set().union(*(flags_of(program, capsys) for program in cli.COMMANDS))
    advice = {text for answers in synonyms._ADVICE.values() for _, text in answers}
    assert {flag for text in advice for flag in re.findall(r"--(\w+)", text)} - flags - {"logdir"} == set()


def test_each_command_that_is_meant_exists() -> None:
    assert {meant.split()[0] for meant in synonyms._COMMANDS.values()} - {"--version"} <= set(cli.COMMANDS)
    assert not set(synonyms._COMMANDS) & set(cli.COMMANDS)


@pytest.mark.parametrize("word", ["output_dir", "save_dir", "name", "exp"])
@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("eval", "eval_dir"),
        ("inference", "output_file"),
        *((name, "out") for name in ("export", "predict", "select", "count", "audit", "make-records")),
    ],
)
def test_a_word_for_the_output_never_names_the_model(
    word: str, program: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([program, f"--{word}=x"]) == 2
    assert f"did you mean --{flag}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected", "wrong"),
    [
        (["predict", "--weights=best.pt"], "--model?", "--checkpoint"),
        (["serve", "--weights=best.pt"], "--model?", "--checkpoint"),
        (["serve", "--save_dir=x"], "unknown flag", "--train_dir"),
        (["train", "--limit=1000"], "unknown flag", "--max_frames"),
        (["train", "--force"], "unknown flag", "--start_new_model"),
        (["import", "x"], "import-checkpoint", "make-records?"),
        (["train", "--num_train_epochs=3"], "--num_epochs?", "train_dir"),
        (["train", "--metric_for_best_model=map"], "--best_metric?", "train_dir"),
        (["predict", "--classes=a"], "vocabulary search TEXT", "--data"),
        (["serve", "--class=a"], "--top_k=N", "--data"),
        (["add-classes", "--classes=a"], "--data?", "train_dir"),
    ],
)
def test_what_other_programs_mean(
    words: list[str], expected: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    message = capsys.readouterr().err.partition("(known")[0]
    assert expected in message
    assert f"did you mean {wrong}" not in message


@pytest.mark.parametrize(
    ("script", "command"),
    re.findall(r"^\| `([^`]+\.py)` \| `yt8m ([^`]+)`", (ROOT / "docs/users/differences.md").read_text(), re.MULTILINE),
)
def test_published_scripts_lead_to_the_commands_that_the_page_names(
    script: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([script]) == 2
    assert f"did you mean {command}?" in capsys.readouterr().err
