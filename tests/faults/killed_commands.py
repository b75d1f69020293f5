"""The commands of yt8m that write, and what they read, for the tests that kill them at each change of a name."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable

import made_videos
import npm
import numpy as np
import pytest
import tiny_networks
from faults.kill_points import Command
from golden_data import golden
from small_run import FEATURES, evaluate, train_words

from yt8m import inference
from yt8m.command_line import cli
from yt8m.records import vocabulary

# How many of the states that a command with a model may leave are tried: a search or an audit leaves hundreds, most of
# which are those of a candidate or a part before. KILLED_STATES=0 tries all.
TRIED_STATES = int(os.environ.get("KILLED_STATES", "24"))

_EXTRACT = ("extract", "--videos={videos}", "--labels=folder", "--extractors=own_extractors:Colours", "--jobs=1")
_RECORDS = ("make-records", "--table={table}", "--array={array}", "--shards=2", "--out=made")
_FEATURES = ("--feature_names=mean_rgb,mean_audio", "--feature_sizes=3,2", "--num_classes=10")
DATA = {
    "make-records": Command(_RECORDS),
    "make-records of answers": Command([*_RECORDS, "--labels={answers}"]),
    "make-records --overwrite": Command(
        [*_RECORDS[:3], "--shards=3", "--out=made", "--overwrite"], [*_RECORDS[:3], "--shards=2", "--out=made"]
    ),
    "relabel": Command(["relabel", "--data={labelled}/*.tfrecord", "--corrections={decisions}", "--out=made"]),
    "extract": Command([*_EXTRACT, "--level=video,frame", "--shards=2", "--out=made"]),
    "extract of learned ranges": Command([*_EXTRACT, "--level=frame", "--shards=2", "--ranges=learned", "--out=made"]),
    "extract --overwrite": Command(
        [*_EXTRACT, "--shards=2", "--out=made", "--overwrite"], [*_EXTRACT, "--shards=1", "--out=made"]
    ),
    "download": Command(
        ["download", "--partition=2/frame/train", "--dest=shards", "--plan_url={url}", "--mirror_url={url}"]
    ),
    "verify": Command(["verify", "{shards}/*.tfrecord", "--manifest=manifest.json"]),
    "cache": Command(["cache", "--data={shards}/*.tfrecord", "--out=cache", "--jobs=1", *_FEATURES]),
    "sample-data": Command(
        ["sample-data", "--out=made", "--train=6", "--validate=2", "--test=2", "--shards=2", "--num_classes=20"]
    ),
    "from-mediapipe": Command(["from-mediapipe", "--data={protos}/*.pb", "--out=made/a.tfrecord"]),
    "json-to-csv": Command(["json-to-csv", "--predictions={json}/*.json", "--out=p.csv"]),
    "bulk extract": Command(
        [
            *("bulk", "extract", "--videos={videos}", "--labels=folder", "--extractors=own_extractors:Colours"),
            *("--level=video", "--shards=2", "--workers=1", "--out=made"),
        ]
    ),
}

_RUN = ("--train_dir={run}",)
_SELECT = ("select", "--model={run}", "--data={test}", "--labelled={starter}/../train.tfrecord", "--count=5")
_GRAPHS = r".*\.(meta|pb)|.*assets\.extra/checksum"  # of a graph, whose bytes are not the same in each process
_SHORT = ("--save_checkpoint_steps=2", "--max_steps=4")
_VALIDATING = (*_SHORT, "--eval_data_pattern={test}", "--patience=3")
_OF_STEPS = r".*(model\.ckpt|input|export/)-?\d+.*"  # names with the number of a step
_STATE = r".*input-\d+\.(data.*|index)"  # which depends on how far the input has read ahead
MODELS = {
    "export": Command(["export", *_RUN, "--out=exported"], unstable=r"exported/.*"),
    "average-checkpoints": Command(["average-checkpoints", *_RUN, "--last=2", "--out=averages"]),
    "train": Command(["train", *train_words(pathlib.Path("run"), *_SHORT)], unstable=rf"{_GRAPHS}|{_STATE}"),
    "export --format=onnx": Command(["export", *_RUN, "--format=onnx", "--out=a.onnx"], unstable=r"a\.onnx"),
    "ensemble": Command(["ensemble", "--train_dir={run},{run}", "--out=joined"], unstable=r"joined/.*"),
    "import-checkpoint": Command(
        [
            *("import-checkpoint", "--from=google", "--checkpoint={starter}", "--out=imported"),
            *("--model=LogisticModel", FEATURES[0], FEATURES[1]),
        ],
        unstable=_GRAPHS,
    ),
    "inference": Command(
        ["inference", *_RUN, "--input_data_pattern={test}", "--output_file=p.csv", "--output_model_tgz=m.tgz"],
        unstable=r"m\.tgz",
    ),
    "inference of an archive": Command(
        [
            *("inference", "--input_model_tgz={archive}", "--untar_model_dir=model"),
            *("--input_data_pattern={test}", "--output_file=p.csv"),
        ]
    ),
    "eval": Command(
        ["eval", "--train_dir=run", "--eval_data_pattern={test}", "--run_once", "--report"],
        copied="run",
        unstable=r".*\.html",
    ),
    "report": Command(["report", "{evaluated}", "--output=page.html"], unstable=r"page\.html"),
    "bulk infer": Command(
        ["bulk", "infer", "--model={run}", "--input={test}", "--output=scores", "--resume", "--workers=1"]
    ),
    "bulk eval": Command(["bulk", "eval", "--model={run}", "--data={test}", "--out=figures", "--workers=1"]),
    "bulk rank": Command(
        ["bulk", "rank", "--model={frames}", "--data={segments}/segment/validate/*", "--out=ranked", "--workers=1"]
    ),
    "select": Command([*_SELECT, "--out=chosen.csv"]),
    "select of tasks": Command([*_SELECT, "--out=tasks.json", "--format=label-studio"]),
    "count": Command(["count", "--model={run}", "--data={starter}/../train.tfrecord", "--labelled={test}"]),
    "export --format=npz": Command(["export", *_RUN, "--format=npz", "--out=a.npz"]),
    "export --format=web": Command(
        ["export", *_RUN, "--format=web", "--out=page", "--onnxruntime_web={web}/package"], unstable=r".*\.onnx"
    ),
    "eval --calibrated_run": Command(
        [
            *("eval", "--train_dir=run", "--eval_data_pattern={test}", "--run_once", "--report"),
            "--calibrated_run=calibrated",
        ],
        copied="run",
        unstable=rf".*\.html|{_GRAPHS}",
    ),
    "audit": Command(
        [
            *("audit", "--data={own}/first/video/train/*", "--out=audit", "--folds=2", "--max_steps=2"),
            *("--model=LogisticModel", "--batch_size=8"),
        ]
    ),
    "add-classes": Command(
        [
            *("add-classes", "--model={own}/run", "--data={own}/more/video/train/*", "--out=grown"),
            *("--num_epochs=1", "--batch_size=8"),
        ],
        unstable=rf"{_GRAPHS}|{_STATE}",
    ),
    "from-text": Command(
        ["from-text", "--classes={texts}/classes.csv", "--extractor=hf:{texts}/SigLIP", "--out=zero"], unstable=_GRAPHS
    ),
    "train with a search": Command(
        [
            *("train", "--data={own}/first/video/train/*", "--out=chosen", "--budget=4", "--norefit"),
            "--export_model_steps=0",
        ],
        unstable=r".*",  # the clock says how many candidates are tried
        clocked=_OF_STEPS,
    ),
    "train that validates": Command(
        ["train", *train_words(pathlib.Path("run"), *_VALIDATING)], unstable=rf"{_GRAPHS}|{_STATE}|.*/validation\.json"
    ),
    "ensemble of files": Command(["ensemble", "--predictions={scores}/a.csv,{scores}/b.csv", "--out=joined.csv"]),
    "ensemble --output_onnx": Command(
        ["ensemble", "--model={run},{run}", "--output_onnx=a.onnx", "--output_model_tgz=a.tgz"], unstable=r"a\..*"
    ),
    "predict --features": Command(["predict", "--model={films}/run", "{films}/data/frame/train/*", "--features=f.npz"]),
    "predict of videos": Command(
        ["predict", "--model={films}/run", "--out=p.csv", "--timeline", "clips"], copied="clips", unstable=r".*\.html"
    ),
    "predict --spans": Command(["predict", "--model={films}/run", "{films}/videos", "--spans=spans.csv"]),
    "segment-eval": Command(
        [
            *("segment-eval", "--predictions={segments}/submission.csv", "--data={segments}/segment/validate/*"),
            *("--segment_label_ids_file={segments}/vocabulary.csv", "--label_cache=ratings.csv"),
        ]
    ),
    "Classifier.save": Command(
        ["python", "killed_python:save_classifier", "saved"],
        unstable=rf"{_GRAPHS}|.*/input-\d+\.json",  # whose digest has the name of a temporary folder
    ),
}


REMOTE = {
    "make-records": Command([*_RECORDS[:3], "--shards=2", "--out={out}"]),
    "make-records --overwrite": Command(
        [*_RECORDS[:3], "--shards=3", "--out={out}", "--overwrite"], [*_RECORDS[:3], "--shards=2", "--out={out}"]
    ),
    "relabel": Command(["relabel", "--data={labelled}/*.tfrecord", "--corrections={decisions}", "--out={out}"]),
    "extract": Command([*_EXTRACT, "--level=video,frame", "--shards=2", "--out={out}"]),
    "extract of learned ranges": Command([*_EXTRACT, "--level=frame", "--shards=2", "--ranges=learned", "--out={out}"]),
    "extract --overwrite": Command(
        [*_EXTRACT, "--shards=2", "--out={out}", "--overwrite"], [*_EXTRACT, "--shards=1", "--out={out}"]
    ),
    "verify": Command(
        ["verify", "{out}/a.tfrecord", "--manifest={out}/manifest.json"],
        ["from-mediapipe", "--data={protos}/*.pb", "--out={out}/a.tfrecord"],
    ),
    "sample-data": Command(
        ["sample-data", "--out={out}", "--train=6", "--validate=2", "--test=2", "--shards=2", "--num_classes=20"]
    ),
    "from-mediapipe": Command(["from-mediapipe", "--data={protos}/*.pb", "--out={out}/a.tfrecord"]),
    "json-to-csv": Command(["json-to-csv", "--predictions={json}/*.json", "--out={out}/p.csv"]),
    "bulk extract": Command(
        [
            *("bulk", "extract", "--videos={videos}", "--labels=folder", "--extractors=own_extractors:Colours"),
            *("--level=video", "--shards=2", "--workers=1", "--out={out}"),
        ]
    ),
}

_NAMES_ITS_FOLDER = rf"{_GRAPHS}|.*config\.json"
REMOTE_MODELS = {
    "train": Command(
        ["train", *train_words(pathlib.Path("{out}"), *_SHORT)],
        unstable=rf"{_GRAPHS}|{_STATE}|gs://config\.json",  # which names its folder
    ),
    "export": Command(["export", *_RUN, "--out={out}/exported"], unstable=r".*exported/.*"),
    "average-checkpoints": Command(
        ["average-checkpoints", *_RUN, "--last=2", "--out={out}/averages"], unstable=r".*averages/config\.json"
    ),  # which names its folder
    "inference": Command(["inference", *_RUN, "--input_data_pattern={test}", "--output_file={out}/p.csv"]),
    "from-text": Command(
        ["from-text", "--classes={texts}/classes.csv", "--extractor=hf:{texts}/SigLIP", "--out={out}/zero"],
        unstable=_NAMES_ITS_FOLDER,
    ),
    "import-checkpoint": Command(
        [
            *("import-checkpoint", "--from=google", "--checkpoint={starter}", "--out={out}/imported"),
            *("--model=LogisticModel", FEATURES[0], FEATURES[1]),
        ],
        unstable=_NAMES_ITS_FOLDER,
    ),
    "ensemble": Command(["ensemble", "--train_dir={run},{run}", "--out={out}/joined"], unstable=r".*joined/.*"),
    "export --format=npz": Command(["export", *_RUN, "--format=npz", "--out={out}/a.npz"]),
    "export --format=onnx": Command(["export", *_RUN, "--format=onnx", "--out={out}/a.onnx"], unstable=r".*onnx"),
    "add-classes": Command(
        [
            *("add-classes", "--model={own}/run", "--data={own}/more/video/train/*", "--out={out}/grown"),
            *("--num_epochs=1", "--batch_size=8"),
        ],
        unstable=rf"{_NAMES_ITS_FOLDER}|{_STATE}",
    ),
    "eval": Command(
        ["eval", *_RUN, "--eval_data_pattern={test}", "--run_once", "--report", "--eval_dir={out}/figures"],
        unstable=r".*\.html",
    ),
    "select": Command([*_SELECT, "--out={out}/chosen.csv"]),
    "count": Command(
        [
            *("count", "--model={run}", "--data={starter}/../train.tfrecord", "--labelled={test}"),
            "--out={out}/count.csv",
        ]
    ),
    "bulk infer": Command(
        ["bulk", "infer", "--model={run}", "--input={test}", "--output={out}/scores", "--resume", "--workers=1"]
    ),
    "bulk eval": Command(["bulk", "eval", "--model={run}", "--data={test}", "--out={out}/figures", "--workers=1"]),
    "audit": Command(
        [
            *("audit", "--data={own}/first/video/train/*", "--out={out}/audit", "--folds=2", "--max_steps=2"),
            *("--model=LogisticModel", "--batch_size=8"),
        ],
        unstable=r".*",
    ),
    "train with a search": Command(
        [
            *("train", "--data={own}/first/video/train/*", "--out={out}/chosen", "--budget=2", "--norefit"),
            "--export_model_steps=0",
        ],
        unstable=r".*",  # the clock says how many candidates are tried
        clocked=_OF_STEPS,
    ),
    "inference of an archive": Command(
        [
            *("inference", *_RUN, "--output_model_tgz={out}/m.tgz"),
            *("--input_data_pattern={test}", "--output_file={out}/p.csv"),
        ],
        unstable=r".*m\.tgz",
    ),
    "bulk rank": Command(
        [
            "bulk",
            "rank",
            "--model={frames}",
            "--data={segments}/segment/validate/*",
            "--out={out}/ranked",
            "--workers=1",
        ]
    ),
    "select of tasks": Command([*_SELECT, "--out={out}/tasks.json", "--format=label-studio"]),
    "export --format=web": Command(
        ["export", *_RUN, "--format=web", "--out={out}/page", "--onnxruntime_web={web}/package"], unstable=r".*\.onnx"
    ),
    "eval --calibrated_run": Command(
        [
            *("eval", *_RUN, "--eval_data_pattern={test}", "--run_once", "--report", "--eval_dir={out}/figures"),
            "--calibrated_run={out}/calibrated",
        ],
        unstable=rf".*\.html|{_NAMES_ITS_FOLDER}",
    ),
    "report": Command(["report", "{evaluated}", "--output={out}/page.html"], unstable=r".*page\.html"),
    "ensemble of files": Command(["ensemble", "--predictions={scores}/a.csv,{scores}/b.csv", "--out={out}/joined.csv"]),
    "predict --features": Command(
        ["predict", "--model={films}/run", "{films}/data/frame/train/*", "--features={out}/f.npz"]
    ),
    "predict --spans": Command(["predict", "--model={films}/run", "{films}/videos", "--spans={out}/spans.csv"]),
    "segment-eval": Command(
        [
            *("segment-eval", "--predictions={segments}/submission.csv", "--data={segments}/segment/validate/*"),
            *("--segment_label_ids_file={segments}/vocabulary.csv", "--label_cache={out}/ratings.csv"),
        ]
    ),
}


def _write_own(folder: pathlib.Path) -> None:
    """Two data sets, the second of which has a class more, and a run of the first."""
    draw = np.random.default_rng(0)
    for name, classes in (("first", 3), ("more", 4)):
        labels = [f"class {number % classes}" for number in range(48)]
        arrays = draw.normal(size=(48, 4)).astype(np.float32) + np.arange(48)[:, None] % classes
        np.savez(folder / f"{name}.npz", id=[f"{name}{row}" for row in range(48)], labels=labels, clip=arrays)
        vocabulary.write(f"{folder}/{name}.csv", vocabulary.of_names([f"class {place}" for place in range(classes)]))
        words = [f"--table={folder}/{name}.npz", f"--vocabulary={folder}/{name}.csv", f"--out={folder}/{name}"]
        assert cli.main(["make-records", *words, "--splits=train:0.7,validate:0.3"]) == 0
    words = [f"--data={folder}/first/video/train/*", f"--out={folder}/run", "--model=LogisticModel"]
    assert cli.main(["train", *words, "--batch_size=8", "--max_steps=4"]) == 0


def _write_texts(folder: pathlib.Path) -> None:
    pytest.importorskip("torch")
    (folder / "classes.csv").write_text("name\nred thing\nmoving disc\n")
    tiny_networks.write(folder / "SigLIP", "SigLIP")


def _copy_runtime(folder: pathlib.Path) -> None:
    shutil.copytree(npm.install(folder / "npm"), folder / "package")


def _write_segments(folder: pathlib.Path) -> None:
    """Segments of some frame records, and a submission."""
    (folder / "submission.csv").write_text("Class,Segments\n3,abcd:0\n")
    words = ["--level=segment", "--train=4", "--validate=2", "--test=2", "--num_classes=10", "--shards=1"]
    assert cli.main(["sample-data", *words, "--min_frames=10", "--max_frames=20", f"--out={folder}"]) == 0


def _write_frames_run(folder: pathlib.Path) -> None:
    """A run that takes frames."""
    words = ["--level=frame", "--train=4", "--validate=2", "--test=2", "--num_classes=10", "--shards=1"]
    assert cli.main(["sample-data", *words, "--min_frames=10", "--max_frames=20", f"--out={folder}/data"]) == 0
    data = f"--train_data_pattern={folder}/data/frame/train/*"
    words = [data, f"--train_dir={folder}", "--frame_features", "--feature_names=rgb,audio", "--num_classes=10"]
    words += ["--feature_sizes=1024,128", "--model=FrameLevelLogisticModel", "--batch_size=2", "--max_steps=1"]
    assert cli.main(["train", *words]) == 0


def _write_films(folder: pathlib.Path) -> None:
    """A run whose features an extractor computes, and videos."""
    (folder / "videos").mkdir()
    made_videos.write_kinds(folder / "videos", 2)
    words = [f"--videos={folder}/videos", "--labels=folder", "--extractors=own_extractors:Colours", "--level=frame"]
    assert cli.main(["extract", *words, "--splits=train:1", f"--out={folder}/data"]) == 0
    words = [f"--data={folder}/data/frame/train/*", f"--out={folder}/run", "--batch_size=2", "--max_steps=2"]
    assert cli.main(["train", *words, "--model=DbofModel", "--dbof_cluster_size=8", "--dbof_hidden_size=8"]) == 0


def _write_clips(folder: pathlib.Path) -> None:
    made_videos.write_kinds(folder, 1)


def _write_scores(folder: pathlib.Path) -> None:
    """Two prediction files of the same videos."""
    run, test = golden("run_format_1"), golden("checkpoint_logistic/test.tfrecord")
    for name in "ab":
        words = [f"--train_dir={run}", f"--input_data_pattern={test}", f"--output_file={folder}/{name}.csv"]
        assert inference.main([*words, f"--top_k={ord(name) - 92}"]) == 0


_MAKERS: dict[str, Callable[[pathlib.Path], None]] = {
    "own": _write_own,
    "films": _write_films,
    "clips": _write_clips,
    "scores": _write_scores,
    "web": _copy_runtime,
    "texts": _write_texts,
    "segments": _write_segments,
    "frames": _write_frames_run,
}


class Models(dict[str, str]):
    """What the commands read: a run, the same with its evaluation, an archive, records and a published checkpoint.

    What is made of the run is made at its first use.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        starter, test = (golden(f"checkpoint_logistic/{name}") for name in ("train_dir", "test.tfrecord"))
        super().__init__(starter=str(starter), test=str(test), run=str(folder / "run"))
        self._folder = folder
        shutil.copytree(golden("run_format_1"), folder / "run")
        for path in (folder / "run").glob("model.ckpt-6.*"):  # a second checkpoint, to be averaged with the first
            shutil.copy(path, path.with_name(path.name.replace("-6", "-4")))

    def __missing__(self, name: str) -> str:
        made = self._folder / {"archive": "m.tgz"}.get(name, name)
        if name in _MAKERS:
            made.mkdir()
            _MAKERS[name](made)
        elif name == "evaluated":
            shutil.copytree(self._folder / "run", made)
            evaluate(made, "--report")
        else:
            run = [f"--train_dir={self._folder}/run", f"--input_data_pattern={self['test']}"]
            assert inference.main([*run, f"--output_model_tgz={made}"]) == 0
        self[name] = str(made)
        return self[name]
