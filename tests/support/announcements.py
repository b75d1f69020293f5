"""Finds in sources what is announced to go away and who uses it, and reads the list of it on a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

ARGUMENT = "removed_in"  # what announces in the declaration of an option
HEADING = "## What goes away\n"


class Announcement(NamedTuple):
    """That `name`, such as `yt8m.load` or `--clips`, goes in a version; `instead` may be empty."""

    version: str
    name: str
    instead: str


def of_source(text: str, module: str) -> list[Announcement]:
    """All announcements of a module; fails at one in another form, which would be missed."""
    if "deprecation" not in text and ARGUMENT not in text:
        return []
    tree = ast.parse(text)
    imports = imported(tree)
    understood: list[ast.AST] = []
    found = list(_of_block(tree, module, imports, understood))
    for node in ast.walk(tree):
        is_known = node in understood or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        announces = _announcing(node, imports) or (isinstance(node, ast.keyword) and node.arg == ARGUMENT)
        assert is_known or not announces, f"{module}: line {node.lineno} announces in a form not known here"
    return found


def imported(tree: ast.AST) -> dict[str, str]:
    """{name: what it stands for} of the names that a module imports, such as {"announce": "yt8m.deprecation.moved"}."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
    return names


def _dotted(node: ast.AST, imports: dict[str, str]) -> str:
    """The whole name of a name or of an attribute: `yt8m.deprecation.moved`; empty for any other node."""
    if isinstance(node, ast.Name):
        return imports.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, imports)):
        return f"{owner}.{node.attr}"
    return ""


def _announcing(node: ast.AST, imports: dict[str, str]) -> str:
    """`deprecated` or `moved` if the node is this function of `yt8m.deprecation`, by whatever name; else empty."""
    name = _dotted(node, imports).removeprefix("yt8m.deprecation.")
    return name if name in ("deprecated", "moved") and name != _dotted(node, imports) else ""


def _of_block(block: ast.AST, scope: str, imports: dict[str, str], understood: list[ast.AST]) -> Iterator[Announcement]:
    """Yields the announcements in a module, class or function; `understood` gets the nodes that make them."""
    for node in ast.iter_child_nodes(block):
        inside = scope
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{scope}.{node.name}"
            # Above a class it must come first; see its docstring.
            for call in node.decorator_list[: 1 if isinstance(node, ast.ClassDef) else None]:
                if isinstance(call, ast.Call) and _announcing(call.func, imports) == "deprecated":
                    understood.append(call.func)
                    version, instead = map(ast.literal_eval, call.args)
                    yield Announcement(version, inside, instead)
        if isinstance(node, ast.Call) and _announcing(node.func, imports) == "moved":
            understood.append(node.func)
            _, version, places = node.args
            for name, place in ast.literal_eval(places).items():
                yield Announcement(ast.literal_eval(version), f"{scope}.{name}", f"{place}.{name}")
        if isinstance(node, ast.Call) and _dotted(node.func, {}) == "Flag":  # no declaration: it is made of one
            understood += node.keywords
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            yield from _of_option(node.target, node.value, understood)
        yield from _of_block(node, inside, imports, understood)


def _of_option(target: ast.expr, call: ast.Call, understood: list[ast.AST]) -> Iterator[Announcement]:
    facts = {keyword.arg: keyword for keyword in call.keywords}
    if ARGUMENT in facts:
        understood.append(facts[ARGUMENT])
        texts = {name: ast.literal_eval(facts[name].value) for name in (ARGUMENT, "instead", "flag") if name in facts}
        yield Announcement(texts[ARGUMENT], f"--{texts.get('flag') or ast.unparse(target)}", texts.get("instead", ""))


def uses(text: str, names: Collection[str]) -> list[str]:
    """Those of `names`, such as `yt8m.room.Old`, that a module imports or refers to."""
    if not any(name.rpartition(".")[2] in text for name in names):
        return []
    tree = ast.parse(text)
    imports = imported(tree)
    return sorted({*names} & {*imports.values(), *(_dotted(node, imports) for node in ast.walk(tree))})


def of_page(text: str) -> list[Announcement]:
    """The rows of the table below `HEADING`: the version, the name, what to use instead; none if it has no table."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [Announcement(version, _code(name), _code(instead)) for version, name, instead in rows[2:]]


def _code(cell: str) -> str:
    """The first text in backquotes in a cell of a table; empty if there is none."""
    return (re.findall(r"`([^`]+)`", cell) or [""])[0]
