"""The command line of `yt8m cloud-job train`: prints the job, or submits it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m import flags, options, storage
from yt8m.config import TrainConfig
from yt8m.errors import UsageError
from yt8m.flags import checks, declared
from yt8m.flags.parsing import HelpAsked, find_word, parse
from yt8m.flags.usage import usage
from yt8m.tools.cloud_job.config import CloudJobConfig
from yt8m.tools.cloud_job.spec import command, job_spec

_PURPOSE = (
    "Prints the gcloud command and the configuration of a Vertex AI job that trains with the flags given, or "
    "with --submit starts it. All flags of `yt8m train` are known here too."
)
_IN_THE_CLOUD = ("gs://", "/gcs/")


def main(argv: list[str]) -> int:
    """Prints or submits the job that the flags ask for; returns the exit status (with --submit gcloud's).

    Raises:
      UsageError: the flags of the job or of the training cannot be; nothing was printed or sent.
    """
    if not argv or argv[0] != "train":
        if argv and argv[0].lstrip("-") in ("help", "h"):
            print(_help(), end="")
            return 0
        raise UsageError(f"cloud-job {' '.join(argv[:1])}: expected `yt8m cloud-job train --project=...`.")
    try:
        given = parse([*_job_flags(), *_train_flags(argv[1:])], argv[1:])
    except HelpAsked:
        print(_help(), end="")
        return 0
    names = options.declared(CloudJobConfig)
    try:
        job = CloudJobConfig(**{name: value for name, value in given.items() if name in names})
    except UsageError as error:
        raise UsageError(checks.as_flag(error)) from error
    args = _args(job, {name: value for name, value in given.items() if name not in names})
    run = flags.train_config(args, files_are_here=False)
    _refuse_local_paths(job, run)
    name = job.display_name or f"yt8m-{run.model.model.rpartition(':')[2]}"
    return _submit(job, args, name) if job.submit else _show(job, args, name)


def _help() -> str:
    return usage("yt8m cloud-job train", _PURPOSE, _job_flags(), {})


def _job_flags() -> list[declared.Flag]:
    return declared.of(CloudJobConfig, "Cloud job")


def _train_flags(words: Sequence[str]) -> list[declared.Flag]:
    known = declared.train()
    model, loss = find_word("model", words), find_word("label_loss", words)
    return known + declared.hyper_parameters(known, model, loss)


def _args(job: CloudJobConfig, given: Mapping[str, Any]) -> list[str]:
    """The training's flags, those of flagfiles among them: the files stay here."""
    towers = {"num_gpu": job.accelerator_count} if job.accelerator and job.accelerator_count > 1 else {}
    return [f"--{name}={declared.shown(value)}" for name, value in {**towers, **given}.items()]


def _refuse_local_paths(job: CloudJobConfig, run: TrainConfig) -> None:
    """What lies on this machine is not there in the job; what it writes to its own disk is lost with it."""
    if not job.output_dir and not run.train_dir:
        raise UsageError(
            "the job's machine is gone when it ends: name --output_dir=gs://... or --train_dir=gs://..."
        )
    named = {
        "train_dir": run.train_dir,
        "train_data_pattern": run.data.data_pattern,
        "eval_data_pattern": run.distributed.eval_data_pattern,
        "manifest": run.data.manifest,
        "init_from": run.init_from,
        "export_dir": run.export_dir,
        "log_dir": run.log_dir,
        "distill_from": run.distillation.distill_from,
        "teacher": run.distillation.teacher,
    }
    for name, paths in named.items():
        for path in filter(None, paths.split(",")):
            if not path.strip().startswith(_IN_THE_CLOUD):
                raise UsageError(
                    f"--{name}={paths}: the job cannot see this machine's files; expected gs://..."
                )


def _show(job: CloudJobConfig, args: Sequence[str], name: str) -> int:
    """What can be pasted into a shell: the file, then the command."""
    spec = job_spec(job, args)
    if spec:
        print(f"cat > {shlex.quote(job.config_file)} <<'END'\n{_text(spec)}END")
    words = [shlex.quote(word) for word in command(job, args, name, job.config_file)]
    print(" \\\n  ".join([" ".join(words[:4]), *words[4:]]))
    return 0


def _text(spec: Mapping[str, Any]) -> str:
    """JSON, which is YAML too: no library is needed to write it or to read it."""
    return json.dumps(spec, indent=2) + "\n"


def _submit(job: CloudJobConfig, args: Sequence[str], name: str) -> int:
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise UsageError(
            "--submit needs the gcloud command, which is not on the PATH: install the Google Cloud CLI, or "
            "leave --submit out and run what is printed elsewhere."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.yaml")
        with storage.write_atomic(path, "w") as file:
            file.write(_text(job_spec(job, args)))
        return subprocess.run([gcloud, *command(job, args, name, path)[1:]]).returncode
