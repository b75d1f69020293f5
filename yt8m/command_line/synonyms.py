"""Flags under the names that other programs give them: what to say of `--lr` or `--resume`.

Similar spelling leads elsewhere (`--lr` to `--clip_by`), so a word of this table is looked up first.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from yt8m.errors import suggestion

_DESTRUCTIVE = ("start_new_model", "overwrite")  # proposed only for words that differ from them by a letter or two
_ALIKE = 0.9

# {flags of these programs, of which the first that the program has is meant: what other programs call it}
_WORDS_FOR = {
    "base_learning_rate": "lr learning_rate lr0 learning_rate_init",
    "learning_rate_schedule": "scheduler lr_schedule lr_scheduler lrf cos_lr cosine sched lr_scheduler_type min_lr "
    "reduce_lr reduce_lr_on_plateau",
    "learning_rate_decay": "lr_decay decay_rate",
    "learning_rate_warmup_examples": "warmup warmup_steps warmup_epochs warmup_ratio warmup_proportion warmup_lr",
    "num_gpu": "gpu gpus ngpu num_gpus towers devices gpu_ids",
    "array feature_names": "features",
    "batch_size": "batch bs per_device_train_batch_size",
    "num_epochs": "epoch num_train_epochs epochs max_epochs n_epochs",
    "max_steps": "steps iters num_steps train_steps max_iter num_iterations total_steps",
    "label_loss": "loss loss_fn criterion focal_loss bce_loss jsd_loss loss_type",
    "patience": "early_stopping early_stop early_stopping_patience n_iter_no_change",
    "optimizer": "optim opt",
    "regularization_penalty": "l2 l1 penalty kernel_regularizer alpha",
    "weight_decay": "wd",
    "drop_rate": "dropout dropout_rate",
    "clip_gradient_norm": "clip grad_clip clip_grad max_grad_norm gradient_clip_val",
    "accumulate_steps": "grad_accum gradient_accumulation_steps gradient_accumulation accumulate_grad_batches",
    "moving_average_decay": "ema model_ema model_ema_decay swa",
    "precision": "amp fp16 bf16 half dtype use_amp bfloat16 fp32 mixed_precision tf32",
    "num_readers parse_threads jobs": "workers num_workers",
    "init_from": "pretrained finetune finetune_from pretrained_model initial_checkpoint warm_start",
    "train_only": "freeze",
    "init_from model checkpoint": "weights",
    "checkpoint init_from": "ckpt checkpoint",
    "checkpoint model train_dir": "checkpoint_path",
    "save_checkpoint_steps": "save_steps save_every save_interval save_period recovery_interval save_strategy",
    "log_every_n_steps": "log_every logging_steps log_interval logging_strategy",
    "eval_every_n_epochs": "eval_every eval_strategy evaluation_strategy check_val_every_n_epoch",
    "eval_every_n_steps": "eval_steps eval_interval val_interval val_check_interval",
    "seed": "random_state random_seed",
    "num_classes": "nc num_labels classes",
    "vocabulary": "class_names label_map",
    "model": "arch",
    "model extractors": "network backbone",
    "model train_dir": "run",
    "train_dir model": "run_dir model_dir checkpoint_dir",
    "log_dir train_dir": "logdir",
    "input_data_pattern data table videos": "input",
    "train_data_pattern data": "train_data train",
    "eval_data_pattern": "val_data valid_data do_eval validation_data",
    "eval_data_pattern input_data_pattern": "test_data",
    "data train_data_pattern eval_data_pattern input_data_pattern": "dataset data_dir data_path",
    "videos data table": "source",
    "videos": "video video_dir images",
    "table videos": "csv",
    "table": "annotations labels excel",
    "top_k": "k topk",
    "thresholds": "threshold",
    "thresholds confidence": "conf",
    "array videos": "data",
    "eval_data_pattern data": "val",
    "videos data": "folder",
    "features": "embeddings embed",
    "init_from checkpoint": "load_weights restore from_checkpoint ckpt_path",
    "init_from checkpoint model": "load",
    "out": "dest",
    "output_file predictions": "submission",
    "keep_checkpoints": "max_to_keep save_total_limit checkpoint_hist",
    "budget": "time_limit max_time timeout",
    "best_metric": "monitor metric_for_best_model scoring metric eval_metric",
    "columns": "label_col label_column id_col",
    "label_separator": "sep delimiter label_sep",
    "splits": "test_size train_size val_split validation_split train_split validation_fraction stratify",
    "array": "npy",
    "count top_k": "num n",
    "count": "limit",
    "data": "pool",
    "jobs workers": "n_jobs",
    "jobs num_readers": "threads",
    "frames_per_second": "fps",
    "format": "onnx",
    "weights": "quantize int8",
    "host": "bind address ip",
    "folds": "cv n_splits",
    "start_new_model overwrite": "overwrite_output_dir",
    "overwrite": "force",
    "learning_rate_decay_examples": "decay_epochs",
    "eval_max_videos": "limit_val_batches",
    "log_dir": "logging_dir",
    "label_smoothing": "smoothing",
    "xla": "compile jit_compile torch_compile jit",
    "positive_weight class_weights": "pos_weight",
    "class_weights": "sample_weight class_weighting",
    "balance": "oversample",
    "focal_gamma": "gamma",
    "clip_by": "clip_mode",
    "sync_batch_norm": "sync_bn",
    "hidden_sizes": "hidden_layer_sizes hidden_units hidden_size",
    "max_frames": "seq_len sequence_length max_len max_length num_frames",
    "feature_sizes": "imgsz img_size input_size in_chans input_dim",
    "teacher": "distill teacher_model",
    "augment_noise": "augment augmentation",
    "mixup": "cutmix",
    "config flagfile": "cfg yaml hparams config_file",
    "num_readers": "dataloader_num_workers",
}
_MEANT = {word: flags for flags, words in _WORDS_FOR.items() for word in words.split()}

# Words of other programs for the place where results go. Only in a training this is --train_dir, elsewhere the model.
_OUTPUT = (
    *("project", "name", "dir", "output", "output_dir", "out_dir", "save_dir", "run_name", "experiment", "exp", "save"),
    *("save_path", "results_dir", "default_root_dir", "outdir", "savedir", "outputs"),
)
_OUTPUT_OF_TRAINING, _OUTPUT_ELSEWHERE = ("train_dir",), ("output_file", "eval_dir", "out")

_OF_TRAINING = "patience"  # a flag that only a training has
_NO_FLAG = "no flag is needed: "
_RESUME = (
    (_OF_TRAINING, f"{_NO_FLAG}a training with the same --train_dir goes on from its newest checkpoint"),
    ("videos", f"{_NO_FLAG}the command goes on where it ended, if its --out and its flags are the same"),
    ("workers", f"{_NO_FLAG}the same command begins a job again that was killed"),
    ("train_dir", f"{_NO_FLAG}yt8m train with the same --train_dir goes on from its newest checkpoint"),
    ("table", "the command starts anew, and what it wrote before stays until all is written"),
)
_DEVICE = (
    ("num_gpu", "every GPU that TensorFlow sees can be used: --num_gpu says how many, CUDA_VISIBLE_DEVICES which"),
    ("", "a GPU is used if TensorFlow sees one; CUDA_VISIBLE_DEVICES says which, and hides all if it is empty"),
)
_LOG = (("", "the log goes to stderr: 2>/dev/null hides it"),)
_SPLITS = (
    ("splits", "--splits gives the shares of train, validate and test"),
    (_OF_TRAINING, "make-records --splits makes the parts; --eval_data_pattern names the files to validate on"),
)
_SAME_FOLDER = (
    (_OF_TRAINING, f"{_NO_FLAG}a folder that holds a run goes on; --start_new_model moves the old run aside"),
    ("overwrite", "did you mean --overwrite?"),
)
_BEST = (
    (_OF_TRAINING, f"{_NO_FLAG}with --eval_data_pattern the best checkpoint is kept in best/, for --checkpoint=best"),
    ("checkpoint", "--checkpoint=best takes the best one"),
)
_AUGMENTED = ((_OF_TRAINING, "pictures are not changed in a training, but features are: --augment_noise, --mixup"),)
_SEVERAL_MACHINES = (
    (_OF_TRAINING, "TF_CONFIG describes several machines, and --exchange how they exchange gradients"),
)
_OPTIMIZER_OF_ONES_OWN = (
    (_OF_TRAINING, "--optimizer=package.module:Class sets an optimizer with settings of its own"),
)
_BY_VALIDATION = (("budget", "--model=auto with --budget=SECONDS chooses model and settings by validation"),)
_SHORT_TRIAL = ((_OF_TRAINING, "--max_steps=10 makes a short trial"),)
_ANY_GAIN = (("patience", "--patience=N ends a training; any gain counts, and GAP or --best_metric is compared"),)
_PAGE = (
    ("report", "--report writes a page of figures and curves"),
    ("", "yt8m eval --report writes a page of figures"),
)
_ENSEMBLE = (("", "yt8m ensemble joins the predictions of several models"),)
_LABELS = ((_OF_TRAINING, "labels are in the records: yt8m make-records --table=FILE writes them from a table"),)
_LAYERS = ((_OF_TRAINING, "--model=NAME sets the layers; each model has options of its own, such as --hidden_sizes"),)
_TAGS = ((_OF_TRAINING, "no flag is needed: thresholds are chosen by the videos held out, and by yt8m eval --report"),)
_SPLIT = (("", "name the files of the split, such as --data='data/video/test/*.tfrecord'"),)
_BATCH = (("", "no flag is needed: batches are as large as memory allows"),)
_CLASSES = (
    ("top_k", "--top_k=N shows the N best of all classes; yt8m vocabulary search TEXT --model=RUN finds one of them"),
    ("data", "the classes are those of the data; did you mean --data?"),
)
_TABLE = "table"  # the flag that only commands which read a table have

# {flag of other programs: (a flag, what to do in a command that has it) for each kind of command; "" stands for any}
_ADVICE = {
    **dict.fromkeys(
        ("folds", "cv", "n_splits", "kfold", "cross_validation"),
        (("patience", "in Python, cross_val_predict(yt8m.Classifier(), X, y, cv=5) of scikit-learn cross-validates"),),
    ),
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
    **dict.fromkeys(
        ("load_best_model_at_end", "restore_best_weights", "save_best", "save_best_only", "model_checkpoint", "best"),
        _BEST,
    ),
    **dict.fromkeys(
        ("mosaic", "fliplr", "flipud", "hsv_h", "degrees", "color_jitter", "aa", "auto_augment", "reprob"), _AUGMENTED
    ),
    **dict.fromkeys(
        (
            "strategy",
            "ddp",
            "fsdp",
            "deepspeed",
            "num_nodes",
            "nodes",
            "world_size",
            "local_rank",
            "rank",
            "master_addr",
        ),
        _SEVERAL_MACHINES,
    ),
    **dict.fromkeys(
        ("val_split", "valid_split", "validation_split", "test_size", "train_size", "train_split", "stratify"), _SPLITS
    ),
    **dict.fromkeys(("exist_ok", "force_new"), _SAME_FOLDER),
    **dict.fromkeys(("accelerator", "tpu", "mps", "use_cuda", "no_cuda"), _DEVICE),
    **dict.fromkeys(
        ("momentum", "beta1", "beta2", "adam_beta1", "adam_beta2", "adam_epsilon", "epsilon", "eps", "nesterov"),
        _OPTIMIZER_OF_ONES_OWN,
    ),
    **dict.fromkeys(("tune", "sweep", "optuna", "trials", "n_trials", "auto_lr_find", "search"), _BY_VALIDATION),
    **dict.fromkeys(("fast_dev_run", "dry_run", "debug", "limit_train_batches", "overfit_batches"), _SHORT_TRIAL),
    **dict.fromkeys(("min_delta", "baseline", "early_stopping_delta", "greater_is_better"), _ANY_GAIN),
    **dict.fromkeys(("plots", "plot", "confusion_matrix", "html", "per_class"), _PAGE),
    **dict.fromkeys(("tta", "ensemble", "ensembles"), _ENSEMBLE),
    **dict.fromkeys(
        ("report_to", "logger", "wandb_project"),
        (
            (
                _OF_TRAINING,
                "--callbacks=examples.wandb_callback:Tracker, or mlflow_callback, sends figures to a tracker",
            ),
        ),
    ),
    **dict.fromkeys(
        ("per_device_eval_batch_size", "eval_batch_size", "val_batch_size"),
        ((_OF_TRAINING, "no flag is needed: a validation takes batches as the training does"),),
    ),
    **dict.fromkeys(
        ("deterministic", "determinism", "seed_everything"), (("seed", "--seed=N makes a training repeatable"),)
    ),
    **dict.fromkeys(
        ("enable_progress_bar", "disable_tqdm", "progress"),
        ((_OF_TRAINING, "there is no progress bar: --log_every_n_steps says how often a line is logged"),),
    ),
    **dict.fromkeys(
        ("push_to_hub", "hub_model_id", "upload"),
        (("", "nothing is uploaded: yt8m export writes a folder or a file that you can upload"),),
    ),
    **dict.fromkeys(("labels", "annotations", "classes_file"), _LABELS),
    **dict.fromkeys(("layers", "num_layers", "depth"), _LAYERS),
    **dict.fromkeys(("threshold", "thresholds", "thresh"), _TAGS),
    **dict.fromkeys(("batch", "batch_size", "bs"), _BATCH),
    **dict.fromkeys(("split", "subset"), _SPLIT),
    **dict.fromkeys(("classes", "class", "class_names", "only_classes", "class_ids"), _CLASSES),
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
