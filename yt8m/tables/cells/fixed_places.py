"""Combinations that no separator proves: attributes in fixed places, and labels without anything between them.

Attributes in fixed places are such as `indoor, day, busy`: each place has values of its own, which combine freely.

Such cells may be names of combinations, or several labels each. The parts never change places, as those of lists do, so
that nothing but their combinations tells them from names such as `Animal, domestic`: the name of a group stands before
names that belong to it alone, and an attribute beside the values of all others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from yt8m.errors import UsageError

_FEWEST_JOINED, _JOINED_SHARE = 3, 1 / 3  # so many names that consist of others, and so large a share, are combinations
_MOST_NAMES, _LONGEST_NAME = 2000, 80  # beyond these, names are not taken apart
_NUMERAL = re.compile(r"[\d.]+|[IVXLCDM]+|[ivxlcdm]+")
_COMMAS = re.compile(r"([^,]+)(,\s*|$)")
_FEWEST_CROSSED = 0.5  # share of the values of a place that stand beside several values of another place


def are_combinations(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows of parts are combinations of the values of two or more places.

    As a graph, the values of a taxonomy are a tree: it has no more combinations than it needs to reach each value.
    """
    if len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        return False
    places = [set(column) for column in zip(*rows, strict=True)]
    if sum(map(len, places)) > len(set().union(*places)):
        return False
    varied = [place for place, values in enumerate(places) if len(values) > 1]
    combinations = set(map(tuple, rows))
    reached_by_a_tree = 1 + sum(len(places[place]) - 1 for place in varied)
    crossed = [place for place in varied if _crossed_share(combinations, place, varied) >= _FEWEST_CROSSED]
    return len(crossed) > 1 and len(combinations) > reached_by_a_tree


def _crossed_share(rows: Collection[Sequence[str]], place: int, varied: Sequence[int]) -> float:
    """The share of the values of a place that stand beside two or more values of another place."""
    partners: dict[str, set[tuple[int, str]]] = {}
    for row in rows:
        partners.setdefault(row[place], set()).update((other, row[other]) for other in varied if other != place)
    crossed = sum(len(values) > len(varied) - 1 for values in partners.values())
    return crossed / len(partners)


def find_joined(names: Collection[str]) -> list[str]:
    """[a name, the names of which it consists], if many names consist of others, as `CatDog` beside `Cat` and `Dog`.

    Empty if few do: `sunflower` beside `sun` and `flower` is a name.
    """
    if len(names) > _MOST_NAMES:
        return []
    names = {name for name in names if len(name) <= _LONGEST_NAME}
    whole = {name for name in names if not _NUMERAL.fullmatch(name)}
    joined = {name: pieces for name in whole if len(pieces := _pieces(name, names - {name})) > 1}
    if len(joined) < _FEWEST_JOINED or len(joined) <= _JOINED_SHARE * len(names):
        return []
    example = min(joined)
    return [example, *joined[example]]


def _pieces(text: str, names: Collection[str]) -> list[str]:
    """Different names of which a text consists; empty if there are none. Of several ways, one with few names."""
    best: dict[int, list[str]] = {0: []}  # {length of a beginning of the text: the names of which it consists}
    for end in range(1, len(text) + 1):
        for start, before in list(best.items()):
            piece = text[start:end]
            if piece in names and piece not in before and (end not in best or len(best[end]) > len(before) + 1):
                best[end] = [*before, piece]
    return best.get(len(text), [])


def refuse_inner_commas(texts: Iterable[str], known_names: Collection[str], source: str) -> None:
    """Refuses cells such as `Dog,Male speech, man speaking`, where a comma with a blank may belong to a name.

    It seems to if what follows it stands nowhere but there, each time behind the same name, and if other commas have no
    blank: AudioSet writes its classes so.
    """
    befores: dict[str, list[str]] = {}  # {what follows a comma: what stands before it, with the comma, in each cell}
    for text in set(texts) - set(known_names):
        before = ""
        for piece, comma in _COMMAS.findall(text):
            befores.setdefault(piece.strip(), []).append(before)
            before = piece.strip() + comma
    after_blank = {piece: names for piece, names in befores.items() if any(name.endswith(" ") for name in names)}
    has_plain = any(name.endswith(",") for names in befores.values() for name in names)
    is_bound = all(len(set(names)) == 1 for names in after_blank.values())
    if has_plain and is_bound and sum(map(len, after_blank.values())) > len(after_blank):
        piece = min(after_blank)
        before = after_blank[piece][0]
        raise UsageError(
            f"{source}: {before + piece!r} may be one name, because {piece!r} stands only there, or two labels. Choose "
            "by --label_separator=',' (two labels), or write ; between labels."
        )
