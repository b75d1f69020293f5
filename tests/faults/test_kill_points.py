"""Commands that are killed at each call that changes names or syncs end well when they are repeated."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Iterator

import cases
import fault_shards
import made_videos
import numpy as np
import pytest
from datasets.download import shard_server
from faults.kill_points import Command, Killer, killer, problems
from faults.power_cuts import build
from golden_data import golden
from small_run import FEATURES, evaluate, train_words

from yt8m import inference

POINTS = [3, pytest.param(0, marks=[pytest.mark.heavy, pytest.mark.long], id="all")]
_EXTRACT = ("extract", "--videos={videos}", "--labels=folder", "--extractors=own_extractors:Colours", "--jobs=1")
_RECORDS = ("make-records", "--table={table}", "--array={array}", "--shards=2", "--out=made")
_FEATURES = ("--feature_names=mean_rgb,mean_audio", "--feature_sizes=3,2", "--num_classes=10")
DATA = {
    "make-records": Command(_RECORDS),
    "make-records of answers": Command([*_RECORDS, "--labels={answers}"]),
    "make-records --overwrite": Command(
        [*_RECORDS[:3], "--shards=3", "--out=made", "--overwrite"], [*_RECORDS[:3], "--shards=2", "--out=made"]
    ),
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
}
# The others replace what is there, or learn ranges: heavy tests kill them at all of their calls.
QUICK_DATA = ["make-records", "make-records of answers", "extract", "download", "verify", "cache"]

_RUN = ("--train_dir={run}",)
MODELS = {
    "export": Command(["export", *_RUN, "--out=exported"], unstable=r"exported/.*"),
    "average-checkpoints": Command(["average-checkpoints", *_RUN, "--last=2", "--out=averages"]),
}
_GRAPHS = r".*\.(meta|pb)"
MORE_MODELS = {
    "train": Command(
        ["train", *train_words(pathlib.Path("run"), "--save_checkpoint_steps=2", "--max_steps=4")], unstable=_GRAPHS
    ),
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
    "bulk infer": Command(["bulk", "infer", "--model={run}", "--input={test}", "--output=scores", "--resume"]),
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
        made = self._folder / {"evaluated": "evaluated", "archive": "m.tgz"}[name]
        if name == "evaluated":
            shutil.copytree(self._folder / "run", made)
            evaluate(made, "--report")
        else:
            run = [f"--train_dir={self._folder}/run", f"--input_data_pattern={self['test']}"]
            assert inference.main([*run, f"--output_model_tgz={made}"]) == 0
        self[name] = str(made)
        return self[name]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def plain(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs commands that do not import TensorFlow."""
    imports = ["yt8m.datasets.make_records", "yt8m.datasets.extract", "yt8m.datasets.download", "own_extractors"]
    with killer(library, tmp_path_factory.mktemp("killed"), imports) as one:
        yield one


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "videos").mkdir()
    made_videos.write_kinds(folder / "videos", 2)
    rows = [f"v{number},c{number % 3}" for number in range(12)]
    (folder / "table.csv").write_text("\n".join(["id,labels", *rows]) + "\n")
    np.save(folder / "array.npy", np.arange(48, dtype=np.float32).reshape(12, 4))
    choice = {"from_name": "classes", "to_name": "video", "type": "choices", "value": {"choices": ["c1"]}}
    answers = [{"id": 1, "data": {"id": "v1"}, "annotations": [{"completed_by": 1, "result": [choice]}]}]
    (folder / "answers.json").write_text(json.dumps(answers))
    (folder / "shards").mkdir()
    for name in "ab":
        fault_shards.write(folder / f"shards/{name}.tfrecord", fault_shards.sound("video", 6, name))
    shards = {f"{name}.tfrecord": os.urandom(20_000) for name in ("trainaa", "trainab", "trainbF")}
    with shard_server.serving(shards) as server:
        names = {"table": "table.csv", "array": "array.npy", "answers": "answers.json"}
        names |= {"videos": "videos", "shards": "shards"}
        yield {name: str(folder / file) for name, file in names.items()} | {"url": server.url}


@pytest.fixture(scope="module")
def heavy(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs commands that import TensorFlow."""
    modules = ("training.training_run", "export.export_model", "scoring.evaluation", "scoring.inference", "reports")
    imports = ["tensorflow", *(f"yt8m.{module}" for module in modules)]
    with killer(library, tmp_path_factory.mktemp("killed"), imports) as one:
        yield one


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.mark.promise("C12")
@pytest.mark.parametrize("count", POINTS)
@pytest.mark.parametrize("command", cases.only(DATA, QUICK_DATA))
def test_what_is_made_of_data(plain: Killer, places: dict[str, str], command: str, count: int) -> None:
    assert problems(plain, DATA[command], places, count) == []


@pytest.mark.promise("C12")
@pytest.mark.parametrize("count", [1, *POINTS[1:]])
@pytest.mark.parametrize("command", cases.only(MODELS, ["export"]))
def test_what_is_made_of_models(heavy: Killer, models: Models, command: str, count: int) -> None:
    assert problems(heavy, MODELS[command], models, count) == []


@pytest.mark.promise("C12")
@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("command", MORE_MODELS)
def test_what_else_is_made_of_models(heavy: Killer, models: Models, command: str) -> None:
    assert problems(heavy, MORE_MODELS[command], models, 0) == []


REMOTE = {
    "make-records": Command([*_RECORDS[:3], "--shards=2", "--out={out}"]),
    "make-records --overwrite": Command(
        [*_RECORDS[:3], "--shards=3", "--out={out}", "--overwrite"], [*_RECORDS[:3], "--shards=2", "--out={out}"]
    ),
    "extract": Command([*_EXTRACT, "--level=video,frame", "--shards=2", "--out={out}"]),
}


# The others take up to 46 s. `make-records` in a bucket, and those in a folder, show their branches.


@pytest.mark.promise("C12")
@pytest.mark.parametrize("count", POINTS)
@pytest.mark.parametrize("command", cases.only(REMOTE, ["make-records"]))
def test_what_is_made_in_a_bucket(plain: Killer, places: dict[str, str], bucket: str, command: str, count: int) -> None:
    assert problems(plain, REMOTE[command], places, count, bucket) == []


REMOTE_MODELS = {
    "train": Command(
        ["train", *train_words(pathlib.Path("{out}"), "--save_checkpoint_steps=2", "--max_steps=4")],
        unstable=rf"{_GRAPHS}|gs://config\.json",  # which names its folder
    ),
    "export": Command(["export", *_RUN, "--out={out}/exported"], unstable=r".*exported/.*"),
    "average-checkpoints": Command(
        ["average-checkpoints", *_RUN, "--last=2", "--out={out}/averages"], unstable=r".*averages/config\.json"
    ),  # which names its folder
    "inference": Command(["inference", *_RUN, "--input_data_pattern={test}", "--output_file={out}/p.csv"]),
}


@pytest.mark.promise("C12")
@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("command", REMOTE_MODELS)
def test_what_is_made_of_models_in_a_bucket(heavy: Killer, models: Models, bucket: str, command: str) -> None:
    assert problems(heavy, REMOTE_MODELS[command], models, 0, bucket) == []
