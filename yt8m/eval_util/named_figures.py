"""Figures of a model by name. Each is spelled in one way; the keys of files and of earlier versions find it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yt8m.eval_util.metrics import THIRDS

# {the spelling in Python, in logs and in tables: other keys of the same figure}
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "GAP": ("gap",),
    "mAP": ("map", "MAP"),
    "Hit@1": ("hit_at_one", "avg_hit_at_one"),
    "PERR": ("perr", "avg_perr"),
    "loss": ("Loss", "avg_loss"),
}
_SPELLING_OF = {key: name for name, keys in SPELLINGS.items() for key in (name, *keys)}


def spelling_of(key: str) -> str:
    """How a figure is spelled: `GAP` for `gap`; a key of something else stays as it is."""
    return _SPELLING_OF.get(key, key)


def _keys_of(key: str) -> list[str]:
    """All keys of the figure with this key; also those of a third of the classes, such as `GAP tail` and `gap_tail`."""
    name, sign, third = key.rpartition(" " if " " in key else "_")
    if third not in THIRDS:
        name, sign, third = key, "", ""
    spelling = spelling_of(name)
    keys = [spelling, *SPELLINGS.get(spelling, ())]
    return [f"{each}{between}{third}" for each in keys for between in ((" ", "_") if sign else ("",))]


class NamedFigures(dict[str, Any]):
    """A dict in which `GAP`, `mAP`, `Hit@1`, `PERR` and `loss` are found by all their spellings.

    >>> NamedFigures(gap=0.8)["GAP"]
    0.8
    """

    def __missing__(self, key: str) -> Any:
        for other in _keys_of(key) if isinstance(key, str) else ():
            if dict.__contains__(self, other):
                return dict.__getitem__(self, other)
        raise KeyError(f"{key} is not there; there are {', '.join(map(str, self))}" if self else key)

    def __contains__(self, key: object) -> bool:
        try:
            self[key]  # type: ignore[index]
        except (KeyError, TypeError):
            return False
        return True

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a figure in any spelling; `default` if it is not there."""
        try:
            return self[key]
        except KeyError:
            return default

    def spelled(self) -> dict[str, Any]:
        """{spelling: value} of the five figures that are there."""
        return {name: self[name] for name in SPELLINGS if name in self}

    def short(self) -> str:
        """The figures in one line, such as `GAP 0.8123, mAP 0.5012`; empty without any."""
        numbers = {name: value for name, value in self.spelled().items() if isinstance(value, int | float)}
        return ", ".join(f"{name} {value:.4f}" for name, value in numbers.items())
