"""Makes each addition of docs/developers/additions.md in a copy of the project, and then uses all of them there."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/users/models.md"
DESCRIPTION = ROOT / "docs/developers/additions.md"
PARTS = ("yt8m", "docs", "recipes", "tests", "pyproject.toml")

Addition = Callable[[pathlib.Path], None]

MODEL = '''

@register
@dataclass(frozen=True)
class AddedModel(BaseModel):
    """p = sigmoid(W x), without a bias."""

    added_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)

    def create_model(self, model_input: tf.Tensor, *, vocab_size: int, **rest: Any) -> ModelOutput:
        """float32 [B, D] -> predictions [B, C]."""
        weights = tf.get_variable("added/weights", [model_input.shape[-1], vocab_size])
        logits = tf.matmul(model_input, weights)
        penalty = self.added_penalty * tf.reduce_sum(weights**2)
        return ModelOutput(predictions=tf.sigmoid(logits), logits=logits, regularization_loss=penalty)
'''

LOSS = '''

@register
@dataclass(frozen=True)
class AddedLoss(ClassLoss):
    """(p - y)^2."""

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Squared errors."""
        return (predictions - labels) ** 2

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The same of sigmoid(logits)."""
        return self.terms(tf.sigmoid(logits), labels)
'''

LOSS_TEST = """

def test_the_added_loss_is_the_squared_error() -> None:
    expected = ((P - LABELS) ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(both_forms("AddedLoss", {}, None), expected, rtol=1e-5)
"""

CALLBACK = '''"""A callback that writes down the steps."""

from yt8m.lazy import tf


class AddedCallback(tf.train.SessionRunHook):
    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context, run_values):
        with open("steps.txt", "a") as file:
            print(run_values.results, file=file)
'''


METRIC = '''

@metrics.register
class HitAtTwo(MeanMetric):
    """Share of the examples that have one of their two best classes."""

    name, key = "Hit@2", "hit_at_two"

    @classmethod
    def of_examples(cls, batch: ScoredBatch) -> npt.ArrayLike:
        """1 for a hit."""
        return (batch.columns.hits & batch.columns.ranked)[:, :2].any(axis=1)
'''

METRIC_TEST = """

def test_the_added_metric_looks_at_the_two_best_classes() -> None:
    from yt8m.eval_util import EvaluationMetrics

    scores, labels = np.array([[3, 2, 1], [1, 2, 3], [3, 1, 2]]), np.array([[0, 1, 0], [1, 0, 0], [1, 1, 1]])
    metrics = EvaluationMetrics(3)
    assert metrics.accumulate(scores, labels)["hit_at_two"] == pytest.approx(2 / 3)
    assert metrics.get()["avg_hit_at_two"] == pytest.approx(2 / 3)
"""

READER = '''"""A reader that changes the ids."""

from yt8m.lazy import tf
from yt8m.readers import YT8MAggregatedFeatureReader


class AddedReader(YT8MAggregatedFeatureReader):
    def prepare_serialized_examples(self, serialized):
        batch = super().prepare_serialized_examples(serialized)
        return batch._replace(video_ids=tf.strings.join(["added-", batch.video_ids]))
'''

OPTIMIZER = '''"""An optimizer that stands still."""

from yt8m.lazy import tf


class AddedOptimizer(tf.train.GradientDescentOptimizer):
    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        none = [(tf.zeros_like(gradient), variable) for gradient, variable in grads_and_vars]
        return super().apply_gradients(none, global_step, name)
'''

EXTRACTOR = '''"""An extractor of the mean brightness."""

import contextlib
from dataclasses import dataclass
from typing import ClassVar

from yt8m.extractors import Extractor


@dataclass(frozen=True)
class AddedExtractor(Extractor):
    feature: ClassVar[str] = "brightness"

    @contextlib.contextmanager
    def open(self, weights):
        yield lambda pictures: pictures.mean(axis=(1, 2, 3))[:, None].astype("float32")
'''

COMMAND = '''"""`yt8m added`: prints a word."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.options import option


@dataclass(frozen=True)
class AddedConfig(options.Checked):
    """The flags of `yt8m added`."""

    word: str = option("hello", "what is printed")


def run(config: AddedConfig) -> int:
    """Prints the word; returns the exit status."""
    print(config.word)
    return 0
'''

FLAG = """    added_factor: float = option(1.0, "another factor of the learning rate", shapes="graph", minimum=0)
"""
WORKLOAD_FLAG = """    augment_gain: float = option(1.0, "factor of all features", shapes="graph", minimum=0)
"""


def append(path: pathlib.Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def insert(path: pathlib.Path, after: str, text: str) -> None:
    """Inserts `text` after the first line that begins with `after`."""
    lines = path.read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(after))
    path.write_text("".join([*lines[: place + 1], text, *lines[place + 1 :]]))


def add_model(copy: pathlib.Path) -> None:
    append(copy / "yt8m/models/video_level.py", MODEL)
    like = (copy / "recipes/small/LogisticModel.flags").read_text()
    (copy / "recipes/small/AddedModel.flags").write_text(like.replace("LogisticModel", "AddedModel"))
    insert(
        copy / "tests/contract/model_cases.py",
        "CASES:",
        '    "AddedModel": Case({}, lambda: D * C, has_hidden=False),\n',
    )


def add_loss(copy: pathlib.Path) -> None:
    append(copy / "yt8m/losses/label_losses.py", LOSS)
    insert(copy / PAGE, "- **CrossEntropyLoss**", "- **AddedLoss**: (p - y)^2.\n")
    append(copy / "tests/losses/test_brute_force.py", LOSS_TEST)


def add_callback(copy: pathlib.Path) -> None:
    (copy / "added_callback.py").write_text(CALLBACK)


def add_metric(copy: pathlib.Path) -> None:
    append(copy / "yt8m/eval_util/metrics.py", METRIC)
    append(copy / "tests/eval_util/test_metrics.py", METRIC_TEST)


def add_reader(copy: pathlib.Path) -> None:
    (copy / "added_reader.py").write_text(READER)


def add_flag(copy: pathlib.Path) -> None:
    insert(copy / "yt8m/config/train_config.py", "    clip_gradient_norm: float = option(", FLAG)
    insert(copy / "yt8m/graph/optimizers.py", "    rate = _SCHEDULES", "    rate *= config.added_factor\n")


def add_workload_flag(copy: pathlib.Path) -> None:
    options = copy / "yt8m/config/run_options.py"
    text = options.read_text()
    place = "    augment_noise: float = option("
    assert place in text
    options.write_text(text.replace(place, WORKLOAD_FLAG + place, 1))
    transforms = copy / "yt8m/video/transforms.py"
    text = transforms.read_text()
    place = "    if config.augment_noise:"
    transforms.write_text(text.replace(place, f"    features = features * config.augment_gain\n{place}", 1))


def add_command(copy: pathlib.Path) -> None:
    (copy / "yt8m/reports/added.py").write_text(COMMAND)
    names = '"yt8m.reports.added:run", "print a word", "AddedConfig", "Prints a word."'
    insert(copy / "yt8m/command_line/cli.py", '    "more": {', f'        "added": Command({names}),\n')


def add_optimizer(copy: pathlib.Path) -> None:
    (copy / "added_optimizer.py").write_text(OPTIMIZER)


def add_extractor(copy: pathlib.Path) -> None:
    (copy / "added_extractor.py").write_text(EXTRACTOR)


# {heading on the page: function that makes the addition in a copy of the project}.
ADDITIONS: Mapping[str, Addition] = {
    "A model": add_model,
    "A loss": add_loss,
    "A metric": add_metric,
    "A callback": add_callback,
    "A flag of the engine": add_flag,
    "A flag of the video workload": add_workload_flag,
    "A record format": add_reader,
    "A command": add_command,
    "An optimizer": add_optimizer,
    "An extractor": add_extractor,
}


def copy_of_the_project(folder: pathlib.Path) -> pathlib.Path:
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(exist_ok=True)
            shutil.copy2(ROOT / name, folder)
    return folder


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def described_files() -> dict[str, set[str]]:
    """{heading: the files that the page lists below it}."""
    sections = re.split(r"^## ", DESCRIPTION.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.partition("\n")[0]: set(re.findall(r"^\d\. `([^`]+)`", section, re.MULTILINE)) for section in sections
    }


def test_each_addition_touches_the_files_that_the_page_lists(tmp_path: pathlib.Path) -> None:
    copy, described = copy_of_the_project(tmp_path / "copy"), described_files()
    assert list(described) == list(ADDITIONS)
    before = contents(copy)
    for kind, add in ADDITIONS.items():
        add(copy)
        after = contents(copy)
        assert {name for name in after if after[name] != before.get(name)} == described[kind], kind
        before = after


# Tests of all models, losses, metrics, options and pages, which cover an addition without being changed.
CHECKS = (
    "support/additions_at_work.py",
    "config",
    "contract/test_losses.py",
    "contract/test_models.py",
    "docs/test_models_page.py",
    "eval_util",
    "losses/test_brute_force.py",
    "recipes/test_recipes.py",
)
CHOSEN = "dded or every_model_has_a_case or recipe_for_each_model or config or eval_util"


@pytest.mark.long
@pytest.mark.heavy
def test_all_additions_work_together(tmp_path: pathlib.Path) -> None:
    """The general tests of models, losses, metrics, options and pages cover the additions, and a run uses them."""
    copy = copy_of_the_project(tmp_path / "copy")
    for add in ADDITIONS.values():
        add(copy)
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    measured = [sys.executable, "-m", "recipes", "--models=AddedModel", "--write"]
    subprocess.run(measured, cwd=copy, env=environment, check=True, capture_output=True)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not heavy", "-k", CHOSEN]
    words += [f"--basetemp={tmp_path}/temporary", *(f"tests/{name}" for name in CHECKS)]
    done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
