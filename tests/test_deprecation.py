"""A name that will go away warns where it is used, with the version in which it goes, and stands on the page."""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import re
import warnings
from typing import Any, NamedTuple

import announcements
import pytest
import sources
from announcements import Announcement
from packaging.version import Version

from yt8m.deprecation import deprecated, moved
from yt8m.version import __version__

PAGE = sources.ROOT / "docs/users/upgrading.md"


def test_a_function_warns_at_the_line_that_calls_it_and_works_as_before() -> None:
    @deprecated("9.1.0", "yt8m.load")
    def total(first: int, second: int = 2) -> int:
        """Adds."""
        return first + second

    with pytest.warns(DeprecationWarning, match=r"total goes in yt8m 9\.1\.0; use yt8m\.load") as caught:
        assert total(1, second=4) == 5
    assert [warning.filename for warning in caught] == [__file__]
    assert (total.__name__, total.__doc__) == ("total", "Adds.")


class Point(NamedTuple):
    """A tuple, which is made by `__new__`; pickle finds it by this name."""

    size: int = 3


class Base:
    def __init__(self, size: int = 3) -> None:
        self.size = size


def dataclass_above() -> Any:
    @deprecated("9.1.0", "Other")
    @dataclasses.dataclass(frozen=True)
    class Former:
        size: int = 3

    return Former


def dataclass_below() -> Any:
    @dataclasses.dataclass
    @deprecated("9.1.0", "Other")
    class Former:
        size: int = 3

    return Former


def dataclass_with_slots_below() -> Any:
    @dataclasses.dataclass(slots=True)
    @deprecated("9.1.0", "Other")
    class Former(abc.ABC):  # noqa: B024 - its metaclass is the point
        size: int = 3

    return Former


def dataclass_with_base_below() -> Any:
    @dataclasses.dataclass
    class Root:
        other: int = 9

    @dataclasses.dataclass
    @deprecated("9.1.0", "Other")
    class Former(Root):
        size: int = 3
        other: int = dataclasses.field(default=9, kw_only=True)

    return Former


def named_tuple() -> Any:
    class Former(NamedTuple):
        size: int = 3

    return deprecated("9.1.0", "Other")(Former)


def with_new() -> Any:
    @deprecated("9.1.0", "Other")
    class Former:
        def __new__(cls, size: int = 3) -> Any:
            made = super().__new__(cls)
            made.size = size
            return made

    return Former


def with_both() -> Any:
    @deprecated("9.1.0", "Other")
    class Former:
        def __new__(cls, size: int = 3) -> Any:
            made = super().__new__(cls)
            made.area = size**2
            return made

        def __init__(self, size: int = 3) -> None:
            self.size = round(self.area**0.5)

    return Former


def inheriting() -> Any:
    @deprecated("9.1.0", "Base")
    class Former(Base):
        pass

    return Former


CLASSES = [
    dataclass_above,
    dataclass_below,
    dataclass_with_slots_below,
    dataclass_with_base_below,
    named_tuple,
    with_new,
    with_both,
    inheriting,
]


@pytest.mark.parametrize("make", CLASSES)
def test_a_class_warns_when_an_object_is_made_and_remains_a_class(make: Any) -> None:
    former = make()
    with pytest.warns(DeprecationWarning, match=r"Former goes in yt8m 9\.1\.0; use ") as caught:
        sizes = (former(5).size, former(size=4).size, former().size)
    assert sizes == (5, 4, 3)
    assert [warning.filename for warning in caught] == [__file__] * 3
    with pytest.warns(DeprecationWarning, match="Former goes"), pytest.raises(TypeError):
        former(1, 2, 3)

    class Derived(former):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(Derived(7), former)
        assert Derived(7).size == 7


@pytest.mark.parametrize("make", [dataclass_above, named_tuple, with_new, with_both, inheriting])
def test_a_class_keeps_its_signature(make: Any) -> None:
    """`yt8m.registry` looks in it for the hyper-parameters of a model."""
    assert list(inspect.signature(make()).parameters) == ["size"]


@pytest.mark.parametrize("make", [dataclass_above, inheriting])
def test_a_class_that_has_another_base_too_is_made_by_both(make: Any) -> None:
    class FormerError(make(), KeyError):
        pass

    assert FormerError(7).args == (7,)
    assert FormerError(7).size == 7


def test_a_class_without_arguments_takes_none() -> None:
    @deprecated("9.1.0", "Other")
    class Former:
        pass

    with pytest.warns(DeprecationWarning, match="Former goes"):
        assert isinstance(Former(), Former)
    with pytest.warns(DeprecationWarning, match="Former goes"), pytest.raises(TypeError):
        Former(3)


def test_objects_of_such_a_class_are_copied_and_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Point, "__new__", Point.__new__)  # the decorator replaces it
    deprecated("9.1.0", "Other")(Point)
    with pytest.warns(DeprecationWarning, match="Point goes"):
        point = Point(5)
    with pytest.warns(DeprecationWarning, match="Point goes"):
        copies = [copy.copy(point), pickle.loads(pickle.dumps(point)), point._replace(size=5)]
    assert copies == [(5,)] * 3
    assert {type(made) for made in copies} == {Point}


def test_a_name_that_has_moved_is_given_with_a_warning() -> None:
    get = moved("yt8m.old", "9.1.0", {"UsageError": "yt8m.errors"})
    with pytest.warns(DeprecationWarning, match=r"yt8m\.old\.UsageError goes in yt8m 9\.1\.0; use yt8m\.errors\.Usage"):
        assert get("UsageError").__module__ == "yt8m.errors"
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        get("Nothing")


@functools.cache
def announced() -> list[Announcement]:
    """All that the package announces."""
    found: list[Announcement] = []
    for path in sources.files():
        parts = ("yt8m", *path.relative_to(sources.PACKAGE).with_suffix("").parts)
        found += announcements.of_source(path.read_text(), ".".join(parts).removesuffix(".__init__"))
    return sorted(found)


SOURCE = """
from yt8m import deprecation
from yt8m.deprecation import deprecated as goes, moved
__getattr__ = moved(__name__, "9.2.0", {"Old": "yt8m.new"})

class Config:
    clips: str = option("", "where", shapes="nothing", removed_in="9.1.0", instead="--videos")
    size: int = path_option("how large", flag="length", removed_in="9.3.0")
    kept: int = option(3, "stays")

    @classmethod
    @goes("9.4.0", "Config.open")
    def load(cls): ...

@deprecation.deprecated("9.5.0", "Other")
@dataclass
class Former: ...
"""
FOUND = [
    Announcement("9.1.0", "--clips", "--videos"),
    Announcement("9.2.0", "yt8m.room.Old", "yt8m.new.Old"),
    Announcement("9.3.0", "--length", ""),
    Announcement("9.4.0", "yt8m.room.Config.load", "Config.open"),
    Announcement("9.5.0", "yt8m.room.Former", "Other"),
]
LISTED = """
## What goes away

| goes in | name | use instead |
|---|---|---|
| 9.1.0 | `--clips` of `yt8m extract` | `--videos` |
| 9.2.0 | `yt8m.room.Old` | `yt8m.new.Old` |
| 9.3.0 | `--length` | nothing |
| 9.4.0 | `yt8m.room.Config.load` | `Config.open` |
| 9.5.0 | `yt8m.room.Former` | `Other` |

## Something else

| 9.6.0 | `--other` | `x` |
"""


def test_announcements_are_found_in_sources_and_on_the_page() -> None:
    assert sorted(announcements.of_source(SOURCE, "yt8m.room")) == FOUND == announcements.of_page(LISTED)
    assert announcements.of_source("class Kept:\n    size: int = option(3, 'how large')\n", "yt8m.room") == []
    assert announcements.of_page("## What goes away\n\nNothing is announced.\n\n## Next\n") == []


@pytest.mark.parametrize(
    "source",
    [
        "from yt8m.deprecation import deprecated\nFormer = deprecated('9.1.0', 'x')(New)",
        "from yt8m import deprecation\nannounce = deprecation.moved",
        "from yt8m.deprecation import deprecated as goes\n@dataclass\n@goes('9.1.0', 'x')\nclass Former: ...",
        "class Config:\n    clips = option('', 'where', removed_in='9.1.0')",
        "facts = dict(removed_in='9.1.0')",
    ],
)
def test_an_announcement_that_would_be_missed_fails(source: str) -> None:
    with pytest.raises(AssertionError, match=r"yt8m\.room: line [1-9]"):
        announcements.of_source(source, "yt8m.room")


def test_the_page_lists_what_goes_and_nothing_else() -> None:
    text = PAGE.read_text()
    assert announcements.HEADING in text
    assert sorted(announcements.of_page(text)) == announced()


def test_nothing_is_kept_longer_than_announced() -> None:
    current = Version(__version__)
    assert [name for version, name, _ in announced() if Version(version) <= current] == []


# The flags of the published programs of 2019, which upgrading.md promises for good.
PUBLISHED = """
train_dir train_data_pattern feature_names feature_sizes frame_features segment_labels model start_new_model num_gpu
batch_size label_loss regularization_penalty base_learning_rate learning_rate_decay learning_rate_decay_examples
num_epochs max_steps export_model_steps num_readers optimizer clip_gradient_norm log_device_placement eval_data_pattern
run_once top_k input_data_pattern output_file output_model_tgz input_model_tgz untar_model_dir segment_max_pred
segment_label_ids_file moe_num_mixtures iterations dbof_cluster_size dbof_hidden_size dbof_pooling_method
dbof_add_batch_norm lstm_cells lstm_layers sample_random_frames video_level_classifier_model
"""


def test_no_published_flag_goes() -> None:
    assert {name for _, name, _ in announced()} & {f"--{flag}" for flag in PUBLISHED.split()} == set()


@pytest.mark.parametrize(
    "source",
    [
        "def later():\n    from yt8m.room import Old",
        "from yt8m import room\nroom.Old(3)",
        "import yt8m.room\nyt8m.room.Old(3)",
        "import yt8m.room as place\nplace.Old(3)",
    ],
)
def test_uses_are_found_in_sources(source: str) -> None:
    names = {"yt8m.room.Old", "--clips"}
    assert announcements.uses(source, names) == ["yt8m.room.Old"]
    assert announcements.uses(source.replace("room", "other"), names) == []


def test_no_code_of_ours_uses_a_name_that_goes() -> None:
    """Users of a command cannot mend its imports."""
    names = {name for _, name, _ in announced()}
    folders = ("yt8m", "examples", "benchmarks", "recipes", "docs", ".ci")
    paths = [path for folder in folders for path in (sources.ROOT / folder).rglob("*.py")]
    assert len(paths) > len(sources.files())
    found = {str(path): announcements.uses(path.read_text(), names) for path in paths}
    assert {path: used for path, used in found.items() if used} == {}


def test_a_use_by_the_package_fails_whatever_test_runs_it() -> None:
    """By the filter of warnings in pyproject.toml; so the tests of all commands show that none uses such a name."""

    @deprecated("9.1.0", "Other")
    def former() -> None:
        pass

    with pytest.raises(DeprecationWarning, match="former goes"):
        exec("former()", {"__name__": "yt8m.scoring.user", "former": former})


def test_former_places_of_names_still_work() -> None:
    for _, name, instead in announced():
        module, _, attribute = name.rpartition(".")
        if "__getattr__" in vars(importlib.import_module(module)) if module else False:
            with pytest.warns(DeprecationWarning, match=f"{re.escape(name)} .*; use {re.escape(instead)}$"):
                assert getattr(importlib.import_module(module), attribute).__name__ == attribute
