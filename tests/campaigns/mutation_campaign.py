"""`make mutants`: changes the code in small ways, one at a time, and counts the changes that the tests notice.

A change is a mutant; mutmut makes it and runs the tests. For example `a < b` becomes `a <= b`. A mutant that the
tests do not notice survives, and is printed.

A mutant is tried with the tests of its module only (`TARGETS`), none of which starts TensorFlow. Two kinds are left
out: other wording of a message, and `strict=True` of a `zip`, which is a check of this code by itself.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import difflib
import fnmatch
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
_SLOW = (  # start TensorFlow
    "tests/command_line/test_flags.py::test_every_listed_optimizer_can_be_made",
    "tests/config/test_resume.py::test_a_new_option_that_the_modeler_uses_rebuilds_the_graph",
)
_COPIED = ("yt8m", "tests", "docs", "pyproject.toml")
_SIGN = re.compile(r"[\u2800-\u28ff] ")  # a turning sign of mutmut, and what it does at the moment
# mutmut's exit codes; all others mean that the tests failed.
_SURVIVED, _WITHOUT_TEST, _TIMED_OUT = (0,), (5, 33), (-24, 24, 36, 152, 255)


class Target(NamedTuple):
    """What is mutated, and what should notice it.

    Attributes:
      module: path of the module.
      tests: the nearest tests, as pytest takes them; quick, and without TensorFlow.
      functions: patterns of the functions and methods (`Class.method`) that are mutated.
    """

    module: str
    tests: tuple[str, ...]
    functions: tuple[str, ...] = ("*",)


_METRICS = ("tests/eval_util",)
_FLAGS = tuple(
    f"tests/command_line/test_flags{end}.py"
    for end in ("", "_environment", "_of_losses", "_of_models", "_programs", "_training")
)
_PARSING = ("tests/command_line/test_flag_parsing.py", "tests/command_line/test_flag_parsing_help.py")

TARGETS = (
    Target("yt8m/eval_util/arrays.py", _METRICS),
    Target("yt8m/eval_util/average_precision.py", _METRICS),
    Target("yt8m/eval_util/evaluation_metrics.py", _METRICS),
    Target("yt8m/eval_util/metrics.py", _METRICS),
    Target("yt8m/eval_util/segments.py", _METRICS),
    Target("yt8m/eval_util/top_k.py", _METRICS),
    Target("yt8m/eval_util/videos.py", _METRICS),
    Target("yt8m/options.py", ("tests/test_options.py",)),
    Target("yt8m/command_line/flag_parsing.py", _PARSING),
    Target("yt8m/command_line/flags.py", _FLAGS),
    Target("yt8m/config/programs.py", ("tests/config/test_programs.py", "tests/command_line/test_flags.py")),
    Target("yt8m/registry.py", ("tests/test_registry.py", "tests/test_registry_catalogue.py")),
    Target(
        "yt8m/config/resume.py", ("tests/config/test_resume.py", "tests/command_line/test_flag_defaults_of_a_run.py")
    ),
    Target("yt8m/config/run_dir.py", ("tests/config/test_run_dir_files.py", "tests/config/test_run_dir.py")),
    Target(
        "yt8m/config/train_config.py",
        (
            "tests/config/test_train_config.py",
            "tests/command_line/test_flags.py",
            "tests/command_line/test_flags_training.py",
        ),
    ),
    Target("yt8m/records/data_format.py", ("tests/records/test_data_format.py",)),
    Target("yt8m/records/manifest.py", ("tests/records/test_manifest.py",)),
    Target(
        "yt8m/records/prediction_files.py",
        ("tests/records/test_prediction_files_lines.py", "tests/records/test_prediction_files.py"),
    ),
    Target("yt8m/records/shards.py", ("tests/records/test_shards_without_tensorflow.py",)),
    Target("yt8m/records/vocabulary.py", ("tests/records/test_vocabulary.py",)),
    Target(
        "yt8m/runner/checkpoints.py",
        ("tests/runner/test_checkpoints_files.py",),
        ("sweep", "path_of", "step_of", "files_of", "steps_in", "_is_saved", "_refuse_a_fresh_start", "is_gone")
        + ("to_delete", "_monotonic_times", "_complete_times", "_delete"),
    ),
    Target(
        "yt8m/runner/saver.py",
        ("tests/runner/test_saver_position_file.py", "tests/runner/test_saver.py"),
        ("ShardPosition.*", "_PositionFile.*", "_upload_order"),
    ),
    Target(
        "yt8m/runs/best_checkpoint.py",
        ("tests/runs/test_best_checkpoint.py",),
        ("keep_best", "_number_in_note", "_copy_into"),
    ),
    Target(
        "yt8m/datasets/download/__init__.py",
        ("tests/datasets/download/test_download_plan.py",),
        ("parse_plan", "in_shard", "saved_name"),
    ),
)


class NotTriedError(Exception):
    """The mutants of a module could not be tried."""


class Mutant(NamedTuple):
    """One change: mutmut's name of it, and what it changes."""

    name: str
    place: str
    change: str


class Tally(NamedTuple):
    """How the mutants of one module fared; `made` counts those that were not drawn too.

    Those whose tests took too long count as noticed. On a busy machine they may not be: try them again.
    """

    target: Target
    made: int
    tried: int
    survivors: Sequence[Mutant]
    timed_out: int
    seconds: float

    @property
    def score(self) -> float:
        """The share that the tests noticed, in percent."""
        return 100 * (1 - len(self.survivors) / self.tried) if self.tried else 100.0


def check_targets(targets: Iterable[Target]) -> None:
    """Raises SystemExit if a module, a function or a test file is not there, with all that are missing."""
    missing = []
    for target in targets:
        paths = [target.module, *(test.partition("::")[0] for test in target.tests)]
        missing += [path for path in paths if not (ROOT / path).exists()]
        if (ROOT / target.module).exists():
            names = _functions((ROOT / target.module).read_text())
            missing += [
                f"{target.module}: {pattern}" for pattern in target.functions if not fnmatch.filter(names, pattern)
            ]
    if missing:
        raise SystemExit(f"not found: {', '.join(missing)}. Has it moved? TARGETS in {__file__} names it.")


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    """Functions and methods at the top of a module by name, methods as `Class.method`."""
    found = {}
    for node in ast.parse(source).body:
        inner = [(f"{node.name}.", each) for each in node.body] if isinstance(node, ast.ClassDef) else [("", node)]
        found |= {start + each.name: each for start, each in inner if isinstance(each, ast.FunctionDef)}
    return found


def prepare(target: Target) -> pathlib.Path:
    """A folder with a copy of the project and mutmut's settings, in which mutmut runs."""
    folder = WORK / target.module.removesuffix(".py").replace("/", ".")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in _COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    settings = {
        "source_paths": ["yt8m"],
        "only_mutate": [target.module],
        "also_copy": ["docs"],
        "pytest_add_cli_args": [
            *("-p", "no:cacheprovider", "--hypothesis-profile=mutants", "-m", "not long"),
            *(f"--deselect={test}" for test in _SLOW),
        ],
        "pytest_add_cli_args_test_selection": list(target.tests),
        "process_isolation": "forkserver",
        "timeout_multiplier": 5.0,
        "timeout_constant": 2.0,
        "use_git_change_detection": False,
        "track_dependencies": False,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]  # also as TOML has it
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n".join(["", "[tool.mutmut]", *lines, ""]))
    return folder


def mutants_of(target: Target, folder: pathlib.Path) -> list[Mutant]:
    """All mutants of the module that count."""
    from mutmut import configuration
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name, orig_function_and_class_names_from_key

    source = (ROOT / target.module).read_text()
    with contextlib.chdir(folder):
        configuration.reset_config()
        mutated = mutate_file_contents(target.module, source)
    by_plain_name = {name.rpartition(".")[2]: node for name, node in _functions(mutated.code).items()}
    originals, code, found = _functions(source), mutated.code.splitlines(), []
    for name in mutated.mutant_names:
        function, owner = orig_function_and_class_names_from_key(f"m.{name}")
        full = f"{owner}.{function}" if owner else function
        before, after = by_plain_name[f"{name.partition('__mutmut_')[0]}__mutmut_orig"], by_plain_name[name]
        if any(fnmatch.fnmatchcase(full, pattern) for pattern in target.functions) and _counts(before, after):
            line, change = _difference(code, before, after)
            place = f"{target.module}:{originals[full].lineno + line}"
            found.append(Mutant(get_mutant_name(pathlib.Path(target.module), name), place, change))
    return found


def _counts(before: ast.FunctionDef, after: ast.FunctionDef) -> bool:
    """Whether more is changed than wording, the case of a codec's name, or the check of a `zip`."""
    pairs = list(zip(ast.walk(before), ast.walk(after), strict=False))
    changed = [
        (old.value, new.value)
        for old, new in pairs
        if isinstance(old, ast.Constant) and isinstance(new, ast.Constant) and old.value != new.value
    ]
    if len(changed) == 1 and isinstance(old := changed[0][0], str) and isinstance(changed[0][1], str):
        return " " not in old and old.lower() not in {"utf-8", "utf8", "ascii"}
    return ast.dump(_Lenient().visit(_bare(before))) != ast.dump(_Lenient().visit(_bare(after)))


class _Lenient(ast.NodeTransformer):
    """Takes `strict` away from each `zip`."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            node.keywords = [each for each in node.keywords if each.arg != "strict"]
        return node


def _bare(function: ast.FunctionDef) -> ast.Module:
    """A copy of a function, without its name."""
    (copied,) = ast.parse(ast.unparse(function)).body
    assert isinstance(copied, ast.FunctionDef)
    copied.name = "same"
    return ast.Module([copied], [])


def _difference(code: Sequence[str], before: ast.FunctionDef, after: ast.FunctionDef) -> tuple[int, str]:
    """The number of the first changed line within the function, and what it was and is."""
    old, new = (code[each.lineno : each.end_lineno] for each in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind != "equal":
            said = [" ".join(map(str.strip, lines)) for lines in (old[first:last], new[start:end])]
            return first + 1, "  ->  ".join(said)
    return 0, f"{code[before.lineno - 1].strip()}  ->  {code[after.lineno - 1].strip()}"


def draw(mutants: Sequence[Mutant], most: int, seed: int) -> list[Mutant]:
    """At most so many of them, the same for the same seed; 0 means all."""
    return list(mutants) if not most or len(mutants) <= most else random.Random(seed).sample(list(mutants), most)


def attempt(target: Target, folder: pathlib.Path, made: int, mutants: Sequence[Mutant]) -> Tally:
    """Tries each mutant.

    Raises:
      NotTriedError: the tests fail without a mutant, or mutmut does.
    """
    begun = time.monotonic()
    if mutants:
        words = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", "1"]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"}
        with (folder / "mutmut.log").open("w") as log:
            done = subprocess.run(
                [*words, *(mutant.name for mutant in mutants)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if done.returncode:
            told = _end_of(folder / "mutmut.log")
            raise NotTriedError(f"{target.module}: mutmut ended with {done.returncode}:\n{told}")
        codes = json.loads((folder / "mutants" / f"{target.module}.meta").read_text())["exit_code_by_key"]
        unchecked = [mutant.name for mutant in mutants if codes[mutant.name] is None]
        if unchecked:
            raise NotTriedError(f"{target.module}: mutmut has not tried {', '.join(unchecked)}")
        survivors = [mutant for mutant in mutants if codes[mutant.name] in _SURVIVED + _WITHOUT_TEST]
        timed_out = sum(codes[mutant.name] in _TIMED_OUT for mutant in mutants)
    else:
        survivors, timed_out = [], 0
    return Tally(target, made, len(mutants), survivors, timed_out, time.monotonic() - begun)


def _end_of(path: pathlib.Path) -> str:
    """The last lines of a log, without mutmut's turning signs, which would fill them; the failed test is among them."""
    lines = path.read_text(errors="replace").replace("\r", "\n").splitlines()
    return "\n".join(line for line in lines if not _SIGN.match(line))[-4000:]


def report(tallies: Sequence[Tally], least: float) -> int:
    """Prints scores and survivors; returns the exit status."""
    for tally in tallies:
        for mutant in sorted(tally.survivors, key=lambda each: (each.place, each.name)):
            print(f"survived: {mutant.place}: {mutant.change}")
    tried, survived = sum(tally.tried for tally in tallies), sum(len(tally.survivors) for tally in tallies)
    score = 100 * (1 - survived / tried) if tried else 100.0
    print(f"\n{'module':42} {'made':>6} {'tried':>6} {'killed':>6} {'score':>7} {'timed out':>10} {'seconds':>8}")
    for tally in tallies:
        killed = tally.tried - len(tally.survivors)
        print(
            f"{tally.target.module:42} {tally.made:6} {tally.tried:6} {killed:6} "
            f"{tally.score:6.1f}% {tally.timed_out:10} {tally.seconds:8.0f}"
        )
    print(f"{'in all':42} {sum(tally.made for tally in tallies):6} {tried:6} {tried - survived:6} {score:6.1f}%")
    if score < least:
        print(f"FAILED: {score:.1f}% is below {least:g}%")
    return int(score < least)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="parts of the paths of the modules to mutate; none means all")
    parser.add_argument("--most", type=int, default=40, help="mutants drawn of each module; 0 means all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--processes", type=int, default=2, help="modules that are tried at once")
    parser.add_argument("--least", type=float, default=85, help="percent of the mutants that the tests must notice")
    given = parser.parse_args(words)
    targets = [each for each in TARGETS if not given.modules or any(part in each.module for part in given.modules)]
    if not targets:
        raise SystemExit(f"no module matches {' '.join(given.modules)}; there are {[each.module for each in TARGETS]}")
    check_targets(targets)
    work = []
    for target in targets:
        folder = prepare(target)
        made = mutants_of(target, folder)
        work.append((target, folder, len(made), draw(made, given.most, given.seed)))
    with concurrent.futures.ThreadPoolExecutor(given.processes) as pool:
        attempts = [pool.submit(attempt, *each) for each in work]
    failures = [error for each in attempts if isinstance(error := each.exception(), NotTriedError)]
    for error in failures:  # the other modules count all the same
        print(f"FAILED: {error}")
    tallies = [each.result() for each in attempts if not isinstance(each.exception(), NotTriedError)]
    return max(report(tallies, given.least), int(bool(failures)))


if __name__ == "__main__":
    sys.exit(main())
