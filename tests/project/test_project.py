"""The project as a whole: sizes, names, dependencies, and nothing of one machine in it."""

from __future__ import annotations

import ast
import collections
import importlib.metadata
import io
import itertools
import pathlib
import re
import subprocess
import sys
import tokenize
import tomllib

import mutation_campaign
import pytest
import sources
from packaging.requirements import Requirement
from sources import ROOT


def tracked():
    """The paths of the files that git tracks; skips the test in a copy without git."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def python_files():
    return [path for path in tracked() if path.suffix == ".py"]


def lines_of(function):
    """The number of lines of a function, without its docstring."""
    docstring = ast.get_docstring(function, clean=False)
    told = function.body[0].end_lineno - function.body[0].lineno + 1 if docstring is not None else 0
    return function.end_lineno - function.lineno + 1 - told


FOLDERS = {".ci", ".github", "benchmarks", "docker", "docs", "examples", "recipes", "tests", "yt8m"}


def test_nothing_that_a_command_wrote_is_tracked():
    assert {path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT} == FOLDERS


LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text):
    """The number of lines that hold code: no comment, docstring or blank line."""
    used, told = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            told |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - told)


def test_lines_of_code_are_those_without_comments_docstrings_and_blanks():
    assert (
        code_lines('"""Says\nit."""\n\nx = """a\nb"""  # c\n\n\ndef f():\n    """Says."""\n    # c\n    return x\n')
        == 4
    )


def test_files_stay_under_300_lines_of_code():
    """A file of tests, which repeats much by nature, has at most 450."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in python_files()}
    limits = {name: 450 if name.startswith("tests/") else 300 for name in texts}
    counts = {name: sum(bool(line) for line in text.replace(" ", "").splitlines()) for name, text in texts.items()}
    long = [name for name, count in counts.items() if count > limits[name]]  # others have fewer lines of code
    assert [name for name in long if code_lines(texts[name]) > limits[name]] == []


DEFINED = re.compile(r"^( *)(?:@|def |class |async def )", re.MULTILINE)


def may_have_a_long_function(text):
    """Whether a definition is followed, more than 50 lines below or not at all, by one that is indented no deeper."""
    starts = [(text.count("\n", 0, match.start()), len(match[1])) for match in DEFINED.finditer(text)]
    starts.append((text.count("\n"), 0))
    for index, (line, indent) in enumerate(starts[:-1]):
        end = next(later for later, indent_there in starts[index + 1 :] if indent_there <= indent)
        if end - line > 50:
            return True
    return False


def functions_of(path):
    """The functions of a file that may have more than 50 lines: all of the package, and where a look is not enough."""
    if path.is_relative_to(sources.PACKAGE):
        found = sources.nodes(path)
    else:
        found = ast.walk(ast.parse(text)) if may_have_a_long_function(text := path.read_text()) else ()
    return (node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_functions_stay_under_50_lines():
    found = {
        f"{path.relative_to(ROOT)}:{node.name}": lines_of(node)
        for path in python_files()
        for node in functions_of(path)
        if lines_of(node) > 50
    }
    assert found == {}


def test_a_long_function_is_seen_at_a_look():
    body = "    x = 1\n" * 50
    assert may_have_a_long_function(f"def f():\n{body}\n\ndef g():\n    pass\n")
    assert not may_have_a_long_function(f"def f():\n{body[: len(body) // 2]}\n\ndef g():\n    pass\n")


def at_import(node):
    """The nodes that run when a module is imported: all but the bodies of functions."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        children = [*getattr(node, "decorator_list", []), *node.args.defaults, *filter(None, node.args.kw_defaults)]
    else:
        children = ast.iter_child_nodes(node)
    return [node, *(found for child in children for found in at_import(child))]


def test_no_file_of_tests_skips_while_it_is_imported():
    """A skip at import would hide all tests of the file behind one line."""
    skipping = {"skip", "importorskip"}
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if re.search(r"(?<!mark\.)\b(skip|importorskip)\(", text := path.read_text())
        for node in at_import(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] in skipping
        and not ast.unparse(node.func).startswith("pytest.mark.")
    ]
    assert calls == []


def test_no_file_of_tests_needs_beam_to_be_imported():
    """Beam has no version for the newest Python, where all other tests of such a file can run."""
    need_beam = {"beam_runs", "jobs", "pipelines"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "yt8m.bulk" in (text := path.read_text())
        for node in at_import(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        and node.module == "yt8m.bulk"
        and need_beam & {name.name for name in node.names}
    ]
    assert found == []


# Tests of several modules against one reference; those of whole programs are in tests/programs.
SCENARIOS = {
    "deploy/test_slim_programs.py", "losses/test_brute_force.py", "losses/test_golden.py", "models/test_golden.py",
    "models/test_published.py",
    "runner/cluster/test_faults.py", "runner/cluster/test_signals.py", "runner/cluster/test_sync.py",
    "runner/cluster/test_training.py", "runner/test_faults.py", "runner/test_kills.py",
    "runner/test_prefetch_to_device.py", "runner/test_resume.py", "storage/test_both_stores.py",
}  # fmt: skip


def test_tests_are_where_a_reader_looks_for_them():
    """The tests of yt8m/ROOM/MODULE.py are in tests/ROOM/test_MODULE.py, or in several files test_MODULE_ASPECT.py."""
    tests = ROOT / "tests"
    files = [path.relative_to(tests) for path in tracked() if path.is_relative_to(tests) and path.match("test_*.py")]
    lost = []
    for path in files:
        room = ROOT / "yt8m" / path.parent
        if len(path.parts) == 1 or not room.is_dir() or str(path) in SCENARIOS:
            continue
        modules = {each.stem for each in room.iterdir()} | {room.name}  # a package is named after its folder
        if not any(f"{path.stem}_".startswith(f"test_{module}_") for module in modules):
            lost.append(str(path))
    assert lost == [], "name each after a module of its room, or add it to SCENARIOS"


def test_the_targets_of_the_mutation_campaign_and_their_tests_exist():
    mutation_campaign.check_targets(mutation_campaign.TARGETS)


def test_public_names_have_docstrings():
    missing = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in sources.files()
        for node in sources.tree(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert missing == []


def test_no_two_files_and_no_two_classes_of_the_package_have_one_name():
    files = sources.files()
    usual = {"__init__", "__main__", "base", "train", "eval", "inference"}
    classes = [node.name for path in files for node in sources.tree(path).body if isinstance(node, ast.ClassDef)]
    for names in ([path.stem for path in files if path.stem not in usual], classes):
        assert [name for name, count in collections.Counter(names).items() if count > 1] == []


def floors():
    """The packages and modules in each layer of pyproject.toml, from the top."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [re.findall(r"yt8m\.(\w+)", floor) for floor in contract["layers"]]


def test_each_room_of_the_package_stands_on_one_floor():
    """import-linter would accept a package that is in several layers, and then imports could go up between these."""
    rooms = [path.stem for path in (ROOT / "yt8m").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert sorted(itertools.chain(*floors())) == sorted(room for room in rooms if room not in ("__init__", "__main__"))


def test_the_page_on_the_architecture_has_each_room_at_its_floor():
    page = (ROOT / "docs/developers/architecture.md").read_text()
    table = page.partition("\n| room |")[2].partition("\n\n")[0]
    level = {room: number for number, names in enumerate(floors()) for room in names}
    rows = [re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert sorted(itertools.chain(*rows)) == sorted(level)
    tops = [min(level[room] for room in row) for row in rows]
    assert tops == sorted(tops)


def test_absl_flags_are_read_in_one_package():
    readers = re.compile(r"^\s*(from absl import .*\bflags\b|from absl\.flags|import absl\.flags)", re.MULTILINE)
    found = {path.parent for path in python_files() if readers.search(path.read_text())}
    assert found == {ROOT / "yt8m" / "command_line"}


def test_no_file_names_this_machine_or_its_package_index():
    settings = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    hosts = re.findall(r"https?://(?:[^/@\s]*@)?([\w.-]+)", settings.stdout)
    words = [f"{ROOT}/", f"{pathlib.Path.home()}/.", *(host for host in hosts if host != "localhost")]
    found = [
        (str(path.relative_to(ROOT)), word)
        for path in tracked()
        for word in words
        if word.encode() in path.read_bytes()
    ]
    assert found == []


def test_every_dependency_is_pinned_and_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[\[<>=]", needed)[0] for group in groups for needed in group}
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert names - set(pinned) == set()
    reasons = (ROOT / "docs/developers/dependencies.md").read_text()
    assert [name for name in sorted(names) if f"| {name} |" not in reasons] == []


def upper_bounds():
    """{package: the versions below which pyproject.toml takes it}, of the packages that have such a version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = collections.defaultdict(set)
    for group in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in map(Requirement, group):
            bounds[requirement.name] |= {bound.version for bound in requirement.specifier if bound.operator == "<"}
    return bounds


def test_a_reason_that_gives_a_limit_gives_that_of_the_range():
    """The row of pyarrow had said "below 26", which only constraints.txt is."""
    table = (ROOT / "docs/developers/dependencies.md").read_text().partition("\n\n`constraints.txt`")[0]
    rows = dict(re.findall(r"^\| ([\w-]+) \| (.*) \|$", table, re.MULTILINE))
    limits = {name: set(re.findall(r"\bbelow (\d+(?:\.\d+)*)", reason)) for name, reason in rows.items()}
    limits = {name: versions for name, versions in limits.items() if versions}
    assert limits.keys() >= {"uvicorn", "h11", "tf2onnx", "pyarrow"}
    bounds = upper_bounds()
    assert limits == {name: bounds[name] for name in limits}


GOOGLE = {
    "google.protobuf": "protobuf",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud": "google-cloud-storage",
}


def imported_modules(path):
    """Yields the full names of the modules that a file imports, without relative imports."""
    for node in sources.nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def test_every_imported_package_is_declared():
    """A package that only another package requires may be missing with the next version of that one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {re.split(r"[\[<>=]", requirement)[0] for group in groups for requirement in group}
    distributions = importlib.metadata.packages_distributions()
    modules = {module for path in sources.files() for module in imported_modules(path)}
    roots = {module.partition(".")[0] for module in modules} - {"google", "yt8m", "__future__"}
    providers = {root: distributions.get(root, [root]) for root in roots - sys.stdlib_module_names}
    providers |= {
        module: [GOOGLE[".".join(module.split(".")[:2])]] for module in modules if module.startswith("google.")
    }
    normalized = {module: {name.lower().replace("_", "-") for name in names} for module, names in providers.items()}
    assert {module for module, names in normalized.items() if not names & declared} == set()


def test_pins_are_those_that_apache_beam_takes():
    """The resolver of Apache Beam 2.77 refuses protobuf from 7 on, pyarrow 26, pillow 13 and python-dateutil 3."""
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert pinned["apache-beam"].startswith("2.77.")
    assert pinned["protobuf"] == "6.33.6"
    for name, limit in {"pyarrow": 26, "pillow": 13, "python-dateutil": 3}.items():
        assert int(pinned[name].partition(".")[0]) < limit, name


IMPORTING = """
import importlib, pkgutil, sys, yt8m
names = [module.name for module in pkgutil.walk_packages(yt8m.__path__, "yt8m.", onerror=print)]
derived = ("yt8m.bulk", "yt8m.runner", "yt8m.graph.adamw", "yt8m.__main__")
for name in names:
    if not name.startswith(derived):
        importlib.import_module(name)
        assert "tensorflow" not in sys.modules, name
"""


@pytest.mark.heavy
def test_only_modules_that_derive_from_classes_of_tensorflow_import_it() -> None:
    """With TensorFlow, `--help` and refusals of wrong flags would take seconds."""
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_no_file_has_both_sides_of_a_merge():
    marked = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert [path.name for path in tracked() if marked.search(path.read_bytes())] == []


def test_no_pattern_is_possessive_or_atomic():
    """Python before 3.11.5 matches a possessive repetition wrongly, and these tests rarely run on one."""
    texts = {
        (path.name, node.lineno): node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for path in sources.files()
        for node in sources.nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    }
    plain = {place: re.sub(r"\\.|\[[^]]*\]", "x", text) for place, text in texts.items() if "(?" in text}
    assert [place for place, text in plain.items() if re.search(r"[*+?}]\+|\(\?>", text)] == []
