"""The pipeline of the challenges' winners, small: families of models, averages, an ensemble, and one model out of it.

yt8m sample-data --flagfile=recipes/sample_data.flags --level=frame --out=data
python -m examples.winners runs/winners 'data/frame/train/*.tfrecord' 'data/frame/validate/*.tfrecord'
"""

import contextlib
import io
import json
import pathlib
import sys

from yt8m.command_line import cli

RECIPES = pathlib.Path(__file__).resolve().parents[1] / "recipes" / "small"
FAMILIES = ("NetVladModel", "GruModel", "AttentionPoolingModel")  # clusters, recurrence, attention
STUDENT = "GruModel"  # it can learn what the teacher knows: the order of frames, which NetVLAD does not see
PASSES = 9  # of the student over the data, half as many again as the members of the ensemble had
CLASSES = 24  # a line of predictions lists them all, so that the teacher has a probability for each
LIMIT = 1 << 30  # bytes of a model in the challenge of 2018


def call(*words: str) -> str:
    """Runs a command of yt8m; returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = cli.main(list(words))
    if status:
        raise SystemExit(f"yt8m {' '.join(words)} ended with status {status}")
    return printed.getvalue()


def train(model: str, run: pathlib.Path, data: str, *more: str) -> pathlib.Path:
    """Trains the small recipe of a model, with several checkpoints; a run that is there already goes on."""
    words = (f"--flagfile={RECIPES / model}.flags", f"--train_dir={run}", f"--train_data_pattern={data}")
    call("train", *words, "--save_checkpoint_steps=30", "--keep_checkpoints=3", *more)
    return run


def gap_of(run: pathlib.Path, data: str) -> float:
    """The GAP of a run."""
    call("eval", f"--train_dir={run}", f"--eval_data_pattern={data}", "--run_once")
    return float(json.loads((run / "eval" / "report.json").read_text())["gap"])


def averaged(run: pathlib.Path) -> pathlib.Path:
    """The mean of the last checkpoints of a run."""
    mean = run.with_name(f"{run.name}-mean")
    if not mean.exists():
        call("average-checkpoints", f"--model={run}", "--last=3", f"--out={mean}")
    return mean


def ensemble(runs: list[pathlib.Path], data: str, out: pathlib.Path) -> pathlib.Path:
    """The file of the mean predictions of some runs."""
    files = [out.with_name(f"{out.stem}-{run.name}.csv") for run in runs]
    for run, file in zip(runs, files, strict=True):
        words = (f"--train_dir={run}", f"--input_data_pattern={data}", f"--output_file={file}")
        call("inference", *words, f"--top_k={CLASSES}")
    call("ensemble", f"--predictions={','.join(map(str, files))}", f"--out={out}", f"--top_k={CLASSES}")
    return out


def main(folder: str, training_data: str, validation_data: str) -> None:
    """Prints a row of the table for each step."""
    place = pathlib.Path(folder)
    print("| step | GAP |\n|---|---:|")
    runs = [train(model, place / model, training_data) for model in FAMILIES]
    for run in runs:
        print(f"| {run.name} | {gap_of(run, validation_data):.3f} |")
    means = [averaged(run) for run in runs]
    for run, mean in zip(runs, means, strict=True):
        print(f"| {run.name}, mean of 3 checkpoints | {gap_of(mean, validation_data):.3f} |")
    joined = ensemble(means, validation_data, place / "validate.csv")
    told = call("score", f"--predictions={joined}", f"--data={validation_data}")
    print(f"| ensemble of the three means | {float(told.partition('GAP')[2].strip(' :|│').split()[0]):.3f} |")
    teacher = ensemble(means, training_data, place / "train.csv")
    longer = f"--num_epochs={PASSES}"
    untaught = train(STUDENT, place / "untaught", training_data, longer)
    print(f"| {STUDENT}, {PASSES} passes | {gap_of(untaught, validation_data):.3f} |")
    student = train(STUDENT, place / "student", training_data, longer, f"--distill_from={teacher}")
    print(
        f"| {STUDENT}, {PASSES} passes, that learned from the ensemble too | {gap_of(student, validation_data):.3f} |"
    )
    export = place / "model"
    if not export.exists():
        call("export", f"--model={student}", f"--out={export}", "--weights=float16")
    size = sum(file.stat().st_size for file in (export / "saved_model").rglob("*") if file.is_file())
    assert size < LIMIT, f"{export} has {size} bytes"
    print(f"\n{export} has {size / 1e6:.1f} MB; the limit was 1 GB")


if __name__ == "__main__":
    main(*sys.argv[1:])
