"""An installed package adds models, losses, readers, extractors and callbacks by entry points."""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from installed_packages import Packages, Warnings

from yt8m import extractors, losses, models, plug_ins, readers, registry
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.registry import Catalogue, owners, reserve_flags
from yt8m.runner.callbacks import callbacks

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOL = "[yt8m.tools]\n{} = acme_tools:Mine\n"


@dataclass(frozen=True)
class Own:
    teeth: int = option(3, "how many")


def tools() -> Catalogue:
    catalogue = Catalogue("tool", "plug-ins", group="yt8m.tools")
    catalogue.register(Own)
    return catalogue


def refusal(name: str) -> str:
    """The message by which the name of a tool is refused."""
    with pytest.raises(UsageError) as caught:
        tools().get(name)
    return str(caught.value)


def test_its_class_has_a_plain_name_and_is_imported_when_it_is_used(packages: Packages) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools")
    catalogue = tools()
    assert catalogue.names() == ["Own", "Saw"]
    assert catalogue.built_in_names() == ["Own"]
    assert catalogue.names_and_packages() == ["Own", "Saw (acme-saws)"]
    assert [catalogue.is_plug_in(name) for name in ("Own", "Saw", "Drill")] == [False, True, False]
    assert "acme_tools" not in sys.modules
    assert catalogue.get("Saw").__module__ == "acme_tools"
    assert catalogue.get("Own") is Own
    assert "did you mean Saw?" in refusal("Sax")


@pytest.mark.parametrize(
    ("get", "kind"),
    [
        (models.get, "Model"),
        (losses.get, "Loss"),
        (readers.own_reader_class, "Reader"),
        (extractors.get, "Extractor"),
        (callbacks.get, "Callback"),
    ],
)
def test_a_class_of_each_kind(packages: Packages, get: Any, kind: str) -> None:
    packages.install_all_kinds()
    assert get(f"Acme{kind}").__qualname__ == f"Acme{kind}"
    assert get(f"Acme{kind}").__module__ == "acme_kinds"


@pytest.mark.parametrize("module", ["acme_tools", "acme_others"])
def test_a_name_of_two_packages_is_refused_when_it_is_used(packages: Packages, module: str) -> None:
    packages.install("acme-first", TOOL.format("Saw") + "Drill = acme_tools:Mine\n", "acme_tools")
    packages.install("acme-second", f"[yt8m.tools]\nSaw = {module}:Mine\n", module)
    assert tools().names_and_packages() == ["Drill (acme-first)", "Own", "Saw (acme-first and acme-second)"]
    assert tools().get("Own") is Own
    assert tools().get("Drill").__module__ == "acme_tools"
    assert f"'Saw' is of several installed packages: acme-first (acme_tools:Mine) and acme-second ({module}:Mine)" in (
        refusal("Saw")
    )


def test_one_that_has_a_built_in_name_is_refused_and_the_built_in_class_counts(
    packages: Packages, warnings_of_packages: Warnings
) -> None:
    packages.install("acme-saws", TOOL.format("Own"), "acme_tools")
    assert tools().get("Own") is Own
    assert tools().names_and_packages() == ["Own"]
    assert owners(tools()).keys() == {"teeth"}
    assert "acme_tools" not in sys.modules
    (warning,) = warnings_of_packages()
    assert "'Own' of the installed package acme-saws (acme_tools:Mine) is refused, because yt8m itself has" in warning


BROKEN = {
    "import nowhere_at_all\n": "ModuleNotFoundError: No module named 'nowhere_at_all'",
    "raise RuntimeError('bad driver')\n": "RuntimeError: bad driver",
    "raise SystemExit(3)\n": "SystemExit: 3",
    "class Other: ...\n": "AttributeError: ",
}


@pytest.mark.parametrize("code", BROKEN)
def test_one_that_cannot_be_imported_is_refused_with_its_package_and_the_cause(packages: Packages, code: str) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools", code)
    assert tools().names_and_packages() == ["Own", "Saw (acme-saws)"]
    message = refusal("Saw")
    assert f"cannot load the tool 'Saw' of the installed package acme-saws (acme_tools:Mine): {BROKEN[code]}" in message


@pytest.mark.parametrize("code", BROKEN)
def test_one_that_nobody_names_is_left_out_with_one_warning(
    packages: Packages, warnings_of_packages: Warnings, code: str
) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools", code)
    assert owners(tools(), "Own", others="built-in").keys() == {"teeth"}
    assert warnings_of_packages() == []
    for _ in range(2):
        assert owners(tools(), "Own").keys() == {"teeth"}
    (warning,) = warnings_of_packages()
    assert f"the tool 'Saw' of the installed package acme-saws (acme_tools:Mine): {BROKEN[code]}" in warning


def test_a_value_may_have_extras(packages: Packages) -> None:
    packages.install("acme-saws", "[yt8m.tools]\nSaw = acme_tools:Mine [fast]\n", "acme_tools")
    assert tools().get("Saw").__qualname__ == "Mine"


def test_a_field_with_the_name_of_a_flag_is_refused_naming_the_package(packages: Packages) -> None:
    reserve_flags("plug-ins", Own)
    code = "class Mine:\n    def __init__(self, teeth=1): ...\n"
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools", code)
    assert "tool Saw (acme-saws): its field Mine.teeth has the name of the flag --teeth" in refusal("Saw")


def test_a_package_that_is_there_twice_counts_as_it_is_first(
    packages: Packages, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("first")
    monkeypatch.syspath_prepend(folder)
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools")
    Packages(folder).install("Acme.Saws", "[yt8m.tools]\nSaw = acme_newer:Mine\n", "acme_newer")
    assert tools().get("Saw").__module__ == "acme_newer"
    del sys.modules["acme_newer"]


def test_a_package_may_be_in_a_zip_file(
    packages: Packages, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Packages(tmp_path / "unzipped").install("acme-saws", TOOL.format("Saw"), "acme_tools")
    monkeypatch.syspath_prepend(shutil.make_archive(str(tmp_path / "saws"), "zip", tmp_path / "unzipped"))
    assert tools().get("Saw").__module__ == "acme_tools"
    del sys.modules["acme_tools"]


def test_a_package_whose_entry_points_cannot_be_read_does_not_hide_others(
    packages: Packages, warnings_of_packages: Warnings
) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools")
    packages.install("acme-damaged", "[yt8m.tools]\nno sign of equality\n", "acme_damaged")
    assert tools().names() == ["Own", "Saw"]
    (warning,) = warnings_of_packages()
    assert "acme-damaged" in warning


@pytest.mark.parametrize("folder", ["docs", "recipes", "benchmarks", "tests/docs", "tests/recipes", "tests/contract"])
def test_pages_and_tables_do_not_depend_on_what_is_installed(folder: str) -> None:
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / folder).rglob("*.py")}
    pattern = re.compile(r"\b(models|losses|extractors|callbacks)\.(names|names_and_packages)\(\)")
    assert [name for name, text in files.items() if pattern.search(text)] == []


def test_a_package_without_metadata_is_one_of_no_name(packages: Packages, tmp_path: pathlib.Path) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools")
    (packages.folder / "acme_saws-1.0.dist-info/METADATA").unlink()
    assert tools().names_and_packages() == ["Own", "Saw (of no name)"]
    assert tools().get("Saw").__module__ == "acme_tools"
    plug_ins.expect(plug_ins.packages_of({"Saw"}), "runs/a/config.json")
    assert tools().get("Saw").__module__ == "acme_tools"


def test_what_a_file_names_is_that_of_the_package_which_it_says(packages: Packages) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools")
    assert plug_ins.packages_of({"Saw"}) == {}  # nothing has named it yet
    tools().get("Saw")
    saved = plug_ins.packages_of({"Saw", "Own"})
    assert saved == {"tool Saw": "acme-saws 1.0"}
    plug_ins.expect(saved, "runs/a/config.json")
    assert tools().get("Saw").__module__ == "acme_tools"
    packages.uninstall_all()
    message = refusal("Saw")
    assert (
        "runs/a/config.json names the tool 'Saw' of the package acme-saws 1.0, which is not installed here" in message
    )
    assert "pip install 'acme-saws==1.0'" in message
    packages.install("acme-others", TOOL.format("Saw"), "acme_tools")
    assert "not installed here; here the name is one of acme-others" in refusal("Saw")


@pytest.mark.parametrize(
    ("release", "state"), [("acme-saws 2.0", "has none here in its version 1.0"), ("acme", "is not installed here")]
)
def test_a_name_that_became_a_built_in_one_is_not_taken_for_that_of_the_package(
    packages: Packages, release: str, state: str
) -> None:
    packages.install("acme-saws", TOOL.format("Saw"), "acme_tools")
    plug_ins.expect({"tool Own": release}, "runs/a/config.json")
    assert f"'Own' of the package {release}, which {state}; here the name is one of yt8m itself" in refusal("Own")


def test_what_files_say_of_packages_counts_in_the_same_block_only(packages: Packages) -> None:
    with registry.local_trust():
        plug_ins.expect({"tool Own": "acme-saws 1.0"}, "runs/a/config.json")
        assert "acme-saws" in refusal("Own")
        assert plug_ins.packages_of({"Own"}) == {"tool Own": "acme-saws 1.0"}  # a run that is made of that run
    assert tools().get("Own") is Own


@pytest.mark.parametrize(
    "damaged", [None, [], "x", {"tool Own": 3}, {"tool Own": "a; rm"}, {"tool Own": ""}, {"": "a"}]
)
def test_what_is_damaged_names_no_package(packages: Packages, damaged: object) -> None:
    plug_ins.expect(damaged, "runs/a/config.json")
    assert tools().get("Own") is Own
