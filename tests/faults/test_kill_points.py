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
import npm
import numpy as np
import pytest
import tiny_networks
from datasets.download import shard_server
from faults.kill_points import EACH_KIND, Command, Killer, chosen, killer, problems
from faults.power_cuts import build
from golden_data import golden
from reader_records import frame_record
from small_run import FEATURES, evaluate, train_words

from yt8m import inference
from yt8m.command_line import cli
from yt8m.records import vocabulary

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
# The others replace what is there, learn ranges, or write as one of these: heavy tests kill them at all of their calls.
QUICK_DATA = ["make-records", "extract", "download", "verify"]

_RUN = ("--train_dir={run}",)
MODELS = {
    "export": Command(["export", *_RUN, "--out=exported"], unstable=r"exported/.*"),
    "average-checkpoints": Command(["average-checkpoints", *_RUN, "--last=2", "--out=averages"]),
}
_SELECT = ("select", "--model={run}", "--data={test}", "--labelled={starter}/../train.tfrecord", "--count=5")
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
    "bulk eval": Command(["bulk", "eval", "--model={run}", "--data={test}", "--out=figures"]),
    "bulk rank": Command(["bulk", "rank", "--model={frames}", "--data={segments}/segment/validate/*", "--out=ranked"]),
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
    "add-classes": Command(
        [
            *("add-classes", "--model={own}/run", "--data={own}/more/video/train/*", "--out=grown"),
            *("--num_epochs=1", "--batch_size=8"),
        ],
        unstable=_GRAPHS,
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
    """Segments of some frame records."""
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


_MAKERS = {
    "own": _write_own,
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
    for name in ("shards", "protos", "json"):
        (folder / name).mkdir()
    for name in ("v1", "v2"):
        (folder / f"protos/{name}.pb").write_bytes(frame_record({}, {"RGB/feature/floats": [[1.0]]}))
        line = {"video_id": name, "class_indexes": [1], "predictions": [0.5]}
        (folder / f"json/{name}.json").write_text(json.dumps(line) + "\n")
    for name in "ab":
        fault_shards.write(folder / f"shards/{name}.tfrecord", fault_shards.sound("video", 6, name))
    shards = {f"{name}.tfrecord": os.urandom(20_000) for name in ("trainaa", "trainab", "trainbF")}
    with shard_server.serving(shards) as server:
        names = {"table": "table.csv", "array": "array.npy", "answers": "answers.json"}
        names |= {name: name for name in ("videos", "shards", "protos", "json")}
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


@pytest.mark.heavy
@pytest.mark.promise("C12")
@pytest.mark.parametrize("count", [1, *POINTS[1:]])
@pytest.mark.parametrize("command", cases.only(MODELS, ["export"]))
def test_what_is_made_of_models(heavy: Killer, models: Models, command: str, count: int) -> None:
    assert problems(heavy, MODELS[command], models, count) == []


@pytest.mark.promise("C12")
@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.timeout(7200)  # each run of a command takes seconds, and some make a hundred calls
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


@pytest.mark.heavy
@pytest.mark.promise("C12")
@pytest.mark.parametrize("count", POINTS)
@pytest.mark.parametrize("command", cases.only(REMOTE, ["make-records"]))
def test_what_is_made_in_a_bucket(plain: Killer, places: dict[str, str], bucket: str, command: str, count: int) -> None:
    assert problems(plain, REMOTE[command], places, count, bucket) == []


_NAMES_ITS_FOLDER = rf"{_GRAPHS}|.*config\.json"
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
        unstable=_NAMES_ITS_FOLDER,
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
    "bulk infer": Command(["bulk", "infer", "--model={run}", "--input={test}", "--output={out}/scores", "--resume"]),
    "bulk eval": Command(["bulk", "eval", "--model={run}", "--data={test}", "--out={out}/figures"]),
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
    ),
}


@pytest.mark.promise("C12")
@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("count", [pytest.param(EACH_KIND, id="each kind"), pytest.param(0, id="all")])
@pytest.mark.parametrize("command", REMOTE_MODELS)
def test_what_is_made_of_models_in_a_bucket(
    heavy: Killer, models: Models, bucket: str, command: str, count: int
) -> None:
    assert problems(heavy, REMOTE_MODELS[command], models, count, bucket) == []


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, [1, 2, 3, 4, 5, 6]), (9, [1, 2, 3, 4, 5, 6]), (3, [2, 4, 6]), (1, [6]), (EACH_KIND, [1, 2, 3, 4, 5, 6])],
)
def test_which_calls_a_command_is_killed_at(count: int, expected: list[int]) -> None:
    assert chosen("sUssUn", count) == expected
    assert chosen("ssssss", EACH_KIND) == [1, 4, 6]
