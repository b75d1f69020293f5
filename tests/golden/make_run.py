"""Made run_format_1: `python make_run.py`, in this folder, by the first version whose files have a format number.

The run and its export must be read by every later version (tests/test_golden_run.py). Do not make them again: make
the run of a newer format in a folder of its own.
"""

from __future__ import annotations

import json
import pathlib
import shutil

from yt8m import eval as evaluation
from yt8m import scoring, train
from yt8m.records.shards import read_shard

RUN = pathlib.Path("run_format_1")
TRAIN, TEST = "checkpoint_logistic/train.tfrecord", "checkpoint_logistic/test.tfrecord"


def main() -> None:
    """Trains 6 steps, evaluates and exports them, and records what the model gives."""
    words = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10", "--batch_size=16"]
    words += ["--num_epochs=100", "--max_steps=6", "--seed=3", "--exact_resume", "--moving_average_decay=0.9"]
    words += ["--shuffle_buffer=16"]
    assert train.main([f"--train_data_pattern={TRAIN}", f"--train_dir={RUN}", *words]) == 0
    assert evaluation.main([f"--train_dir={RUN}", f"--eval_data_pattern={TEST}", "--run_once"]) == 0
    report = json.loads((RUN / "eval/report.json").read_text())
    records = [(payload, TEST, number) for number, payload in enumerate(read_shard(TEST))][:8]
    with scoring.open(str(RUN)) as scorer:
        ids, scores = scorer.scores(records)
    expected = {
        "ids": list(ids),
        "scores": scores.tolist(),
        "gap": report["gap"],
        "num_examples": report["num_examples"],
    }
    (RUN / "expected.json").write_text(json.dumps(expected, indent=1))
    kept = ("config.json", "model_flags.json", "checkpoint", "model.ckpt-6.", "input-6", "export", "expected.json")
    for path in RUN.iterdir():
        if not path.name.startswith(kept):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
