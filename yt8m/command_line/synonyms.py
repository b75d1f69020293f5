"""Flags under the names that other programs give them: what to say of `--lr` or `--resume`.

Similar spelling leads elsewhere (`--lr` to `--clip_by`), so a word of this table is looked up first.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from yt8m.errors import suggestion

_DESTRUCTIVE = ("start_new_model", "overwrite")  # proposed only for words that differ from them by a letter or two
_ALIKE = 0.9

# {flag of other programs: flags of these, of which the first that the program has is meant}
_MEANT = {
    "lr": "base_learning_rate",
    "learning_rate": "base_learning_rate",
    "scheduler": "learning_rate_schedule",
    "lr_schedule": "learning_rate_schedule",
    "lr_scheduler": "learning_rate_schedule",
    "lr_decay": "learning_rate_decay",
    "warmup": "learning_rate_warmup_examples",
    "warmup_steps": "learning_rate_warmup_examples",
    "gpu": "num_gpu",
    "gpus": "num_gpu",
    "ngpu": "num_gpu",
    "num_gpus": "num_gpu",
    "towers": "num_gpu",
    "features": "array feature_names",
    "batch": "batch_size",
    "bs": "batch_size",
    "epoch": "num_epochs",
    "num_train_epochs": "num_epochs",
    "epochs": "num_epochs",
    "max_epochs": "num_epochs",
    "steps": "max_steps",
    "iters": "max_steps",
    "num_steps": "max_steps",
    "train_steps": "max_steps",
    "loss": "label_loss",
    "loss_fn": "label_loss",
    "criterion": "label_loss",
    "early_stopping": "patience",
    "early_stop": "patience",
    "optim": "optimizer",
    "l2": "regularization_penalty",
    "wd": "weight_decay",
    "dropout": "drop_rate",
    "grad_clip": "clip_gradient_norm",
    "clip_grad": "clip_gradient_norm",
    "max_grad_norm": "clip_gradient_norm",
    "grad_accum": "accumulate_steps",
    "gradient_accumulation_steps": "accumulate_steps",
    "ema": "moving_average_decay",
    "amp": "precision",
    "fp16": "precision",
    "bf16": "precision",
    "half": "precision",
    "dtype": "precision",
    "workers": "num_readers parse_threads jobs",
    "num_workers": "num_readers parse_threads jobs",
    "pretrained": "init_from",
    "finetune": "init_from",
    "finetune_from": "init_from",
    "freeze": "train_only",
    "weights": "init_from model checkpoint",
    "ckpt": "checkpoint init_from",
    "checkpoint_path": "checkpoint model train_dir",
    "save_steps": "save_checkpoint_steps",
    "save_every": "save_checkpoint_steps",
    "log_every": "log_every_n_steps",
    "logging_steps": "log_every_n_steps",
    "eval_every": "eval_every_n_epochs",
    "eval_steps": "eval_every_n_steps",
    "random_state": "seed",
    "random_seed": "seed",
    "classes": "num_classes data",
    "nc": "num_classes",
    "class_names": "vocabulary",
    "label_map": "vocabulary",
    "arch": "model",
    "network": "model extractors",
    "run": "model train_dir",
    "run_dir": "train_dir model",
    "model_dir": "train_dir model",
    "logdir": "log_dir train_dir",
    "input": "input_data_pattern data table videos",
    "train_data": "train_data_pattern data",
    "val_data": "eval_data_pattern",
    "valid_data": "eval_data_pattern",
    "test_data": "eval_data_pattern input_data_pattern",
    "dataset": "data train_data_pattern eval_data_pattern input_data_pattern",
    "source": "videos data table",
    "video": "videos",
    "video_dir": "videos",
    "csv": "table videos",
    "annotations": "table",
    "k": "top_k",
    "topk": "top_k",
    "threshold": "thresholds",
    "conf": "thresholds confidence",
    "data_dir": "data train_data_pattern eval_data_pattern input_data_pattern",
    "data_path": "data train_data_pattern eval_data_pattern input_data_pattern",
    "data": "array videos",
    "train": "train_data_pattern data",
    "val": "eval_data_pattern data",
    "folder": "videos data",
    "images": "videos",
    "embeddings": "features",
    "embed": "features",
    "pretrained_model": "init_from",
    "load_weights": "init_from checkpoint",
    "load": "init_from checkpoint model",
    "restore": "init_from checkpoint",
    "from_checkpoint": "init_from checkpoint",
    "ckpt_path": "init_from checkpoint",
    "backbone": "model extractors",
    "checkpoint_dir": "train_dir model",
    "dest": "out",
    "submission": "output_file predictions",
    "max_to_keep": "keep_checkpoints",
    "save_total_limit": "keep_checkpoints",
    "save_interval": "save_checkpoint_steps",
    "log_interval": "log_every_n_steps",
    "eval_interval": "eval_every_n_steps",
    "val_interval": "eval_every_n_steps",
    "opt": "optimizer",
    "time_limit": "budget",
    "max_time": "budget",
    "early_stopping_patience": "patience",
    "monitor": "best_metric",
    "metric_for_best_model": "best_metric",
    "gradient_clip_val": "clip_gradient_norm",
    "per_device_train_batch_size": "batch_size",
    "use_amp": "precision",
    "bfloat16": "precision",
    "fp32": "precision",
    "devices": "num_gpu",
    "gpu_ids": "num_gpu",
    "num_labels": "num_classes",
    "labels": "table",
    "label_col": "columns",
    "label_column": "columns",
    "id_col": "columns",
    "sep": "label_separator",
    "delimiter": "label_separator",
    "label_sep": "label_separator",
    "test_size": "splits",
    "train_size": "splits",
    "val_split": "splits",
    "validation_split": "splits",
    "excel": "table",
    "npy": "array",
    "num": "count top_k",
    "n": "count top_k",
    "limit": "count",
    "pool": "data",
    "n_jobs": "jobs workers",
    "threads": "jobs num_readers",
    "fps": "frames_per_second",
    "onnx": "format",
    "quantize": "weights",
    "int8": "weights",
    "bind": "host",
    "address": "host",
    "ip": "host",
    "cv": "folds",
    "overwrite_output_dir": "start_new_model overwrite",
    "force": "overwrite",
}

# Words of other programs for the place where results go. Only in a training this is --train_dir, elsewhere the model.
_OUTPUT = (
    *("project", "name", "dir", "output", "output_dir", "out_dir", "save_dir", "run_name", "experiment", "exp", "save"),
    *("save_path", "results_dir"),
)
_OUTPUT_OF_TRAINING, _OUTPUT_ELSEWHERE = ("train_dir",), ("output_file", "eval_dir", "out")

_OF_TRAINING = "patience"  # a flag that only a training has
_NO_FLAG = "no flag is needed: "
_RESUME = (
    (_OF_TRAINING, f"{_NO_FLAG}a training with the same --train_dir goes on from its newest checkpoint"),
    ("videos", f"{_NO_FLAG}the command goes on where it ended, if its --out and its flags are the same"),
    ("train_dir", f"{_NO_FLAG}yt8m train with the same --train_dir goes on from its newest checkpoint"),
    ("table", "the command starts anew, and what it wrote before stays until all is written"),
)
_DEVICE = (
    ("num_gpu", "every GPU that TensorFlow sees can be used: --num_gpu says how many, CUDA_VISIBLE_DEVICES which"),
    ("", "a GPU is used if TensorFlow sees one; CUDA_VISIBLE_DEVICES says which, and hides all if it is empty"),
)
_LOG = (("", "the log goes to stderr: 2>/dev/null hides it"),)
_TABLE = "table"  # the flag that only commands which read a table have

# {flag of other programs: (a flag, what to do in a command that has it) for each kind of command; "" stands for any}
_ADVICE = {
    **dict.fromkeys(("resume", "resume_from_checkpoint", "continue", "auto_resume"), _RESUME),
    **dict.fromkeys(("device", "cuda"), _DEVICE),
    "cpu": (("", "without a GPU everything runs on the CPU; CUDA_VISIBLE_DEVICES= hides the GPUs"),),
    **dict.fromkeys(("quiet", "verbose", "log_level"), _LOG),
    **{
        name: (("callbacks", f"--callbacks=examples.{name}_callback:Tracker sends the figures to {name}"),)
        for name in ("wandb", "mlflow")
    },
    "tensorboard": (("", "no flag is needed: tensorboard --logdir=FOLDER shows the folder of a run"),),
    "shuffle": (("", "no flag is needed: a training shuffles its records, and other commands keep their order"),),
    "encoding": ((_TABLE, "no flag is needed: UTF-8, UTF-16 and cp1252 are told apart"),),
    "header": ((_TABLE, "no flag is needed: the header is found, and --columns names what it does not say"),),
    "sheet": ((_TABLE, "write the name of the sheet after the file: --table=FILE.xlsx#SHEET"),),
    "multilabel": (("", "no flag is needed: every model gives each class a score of its own"),),
    "steps_per_epoch": ((_OF_TRAINING, "an epoch is one pass over the data; --max_steps counts steps"),),
    "recursive": (("", "no flag is needed: the folders in a folder are looked into"),),
}


# {command of other programs: the command here}
_COMMANDS = {
    **dict.fromkeys(("fit", "finetune", "run"), "train"),
    **dict.fromkeys(("test", "val", "validate", "evaluate", "benchmark"), "eval"),
    **dict.fromkeys(("infer", "submit"), "inference"),
    **dict.fromkeys(("tag", "classify", "detect", "embed"), "predict"),
    **dict.fromkeys(("convert", "prepare", "make_records"), "make-records"),
    "import": "import-checkpoint",
    **dict.fromkeys(("list", "ls", "status"), "runs"),
    **dict.fromkeys(("label", "clean"), "audit"),
    **dict.fromkeys(("show", "info", "describe", "stats"), "inspect"),
    **dict.fromkeys(("version", "-v", "-V"), "--version"),
    **dict.fromkeys(("check", "devices"), "doctor"),
    # The scripts of YouTube-8M's published code, see docs/users/differences.md.
    "segment_eval_inference": "segment-eval",
    "convert_prediction_from_json_to_csv": "json-to-csv",
    "export_model": "export",
    "export_model_mediapipe": "export --signature=mediapipe",
    "extract_tfrecords_main": "extract",
}


def command_hint(name: str, commands: Collection[str]) -> str:
    """What to say after an unknown command; empty if nothing is similar."""
    if name.startswith("--"):
        return "; a command comes first, as in `yt8m train --model=...`"
    meant = _COMMANDS.get(name.lower()) or _COMMANDS.get(name.lower().rpartition("/")[2].removesuffix(".py"))
    return f"; did you mean {meant}?" if meant else suggestion(name, commands)


def hint(name: str, flags: Collection[str]) -> str:
    """What to say after `unknown flag --NAME` in a program with these flags; empty if nothing is similar."""
    word = name.lower().replace("-", "_")
    for spelled in (word, word.removeprefix("no")):
        if spelled in flags:
            return f"; did you mean --{spelled}?"
    meant = next((flag for flag in _meant(word, flags) if flag in flags), None)
    if meant:
        return f"; did you mean --{meant}?"
    advice = next((text for flag, text in _ADVICE.get(word, ()) if not flag or flag in flags), None)
    return f"; {advice}." if advice else _similar(word, flags)


def _meant(word: str, flags: Collection[str]) -> Sequence[str]:
    """The flags of which the first that the program has is meant by a word of the tables."""
    if word in _OUTPUT:
        return _OUTPUT_OF_TRAINING if _OF_TRAINING in flags else _OUTPUT_ELSEWHERE
    return _MEANT.get(word, "").split()


def _similar(word: str, flags: Collection[str]) -> str:
    """A flag that is spelled nearly as the word, or the only one that begins with it; a guess must not cost a run."""
    alike = [flag for flag in flags if flag[:1] == word[:1] and abs(len(flag) - len(word)) <= 1]
    nearly = difflib.get_close_matches(word, alike, n=1, cutoff=0.8)
    longer = [flag for flag in flags if len(word) > 2 and flag.startswith(word)]
    flag = nearly[0] if nearly else longer[0] if len(longer) == 1 else ""
    if not flag or (flag in _DESTRUCTIVE and difflib.SequenceMatcher(None, word, flag).ratio() < _ALIKE):
        return ""
    return f"; did you mean --{flag}?"
