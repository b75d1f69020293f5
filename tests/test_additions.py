"""How many files an addition touches: each is made in a copy of the project, and all of them are put to work there."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = "docs/users/models.md"
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


def append(path: pathlib.Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def insert(path: pathlib.Path, after: str, text: str) -> None:
    """Puts the text after the first line that begins so."""
    lines = path.read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(after))
    path.write_text("".join([*lines[: place + 1], text, *lines[place + 1 :]]))


def add_model(copy: pathlib.Path) -> None:
    append(copy / "yt8m/models/video_level.py", MODEL)
    for recipe in ("recipes/{}.flags", "recipes/small/{}.flags"):
        like = (copy / recipe.format("LogisticModel")).read_text()
        (copy / recipe.format("AddedModel")).write_text(like.replace("LogisticModel", "AddedModel"))
    page = copy / PAGE
    row = next(line for line in page.read_text().splitlines() if line.startswith("| LogisticModel |"))
    insert(page, "| LogisticModel |", row.replace("LogisticModel", "AddedModel") + "\n")
    insert(page, "- **LogisticModel**", "- **AddedModel**: p = sigmoid(W x).\n")
    insert(copy / "tests/contract/model_cases.py", "CASES:", '    "AddedModel": Case({}, lambda: D * C),\n')


def add_loss(copy: pathlib.Path) -> None:
    append(copy / "yt8m/losses/basic.py", LOSS)
    insert(copy / PAGE, "- **CrossEntropyLoss**", "- **AddedLoss**: (p - y)^2.\n")
    append(copy / "tests/losses/test_brute_force.py", LOSS_TEST)


def add_callback(copy: pathlib.Path) -> None:
    (copy / "added_callback.py").write_text(CALLBACK)


# The addition, and how many files it may touch.
ADDITIONS: Mapping[str, tuple[Addition, int]] = {
    "model": (add_model, 5),
    "loss": (add_loss, 3),
    "callback": (add_callback, 1),
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


@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_addition_touches_few_files(tmp_path: pathlib.Path, kind: str) -> None:
    add, most = ADDITIONS[kind]
    copy = copy_of_the_project(tmp_path / "copy")
    before = contents(copy)
    add(copy)
    after = contents(copy)
    touched = [name for name in after if after[name] != before.get(name)]
    assert len(touched) <= most, touched
    assert touched


@pytest.mark.long
def test_all_additions_work_together(tmp_path: pathlib.Path) -> None:
    """The checks of all models, losses and pages take them up, and a run uses them (additions_at_work.py)."""
    copy = copy_of_the_project(tmp_path / "copy")
    for add, _ in ADDITIONS.values():
        add(copy)
    checks = ["additions_at_work.py", "docs/test_models_page.py", "recipes/test_recipes.py", "contract/test_models.py"]
    checks += ["contract/test_losses.py", "losses/test_brute_force.py"]
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-m",
        "not heavy",
        f"--basetemp={tmp_path}/temporary",
    ]
    words += ["-k", "dded or every_model_has_a_case or recipe_for_each_model", *(f"tests/{name}" for name in checks)]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
