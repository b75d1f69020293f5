"""Lists the ops that predictions of the models use: `python docs/ops.py` writes them into docs/users/future.md.

The list is that of the graphs in `inference_model`, with the hyper-parameters that models have by default.
"""

from __future__ import annotations

import pathlib
from collections import defaultdict
from typing import Any

from yt8m import models
from yt8m.lazy import tf
from yt8m.video.modeler import VideoModeler

PAGE = pathlib.Path(__file__).resolve().parent / "users/future.md"
BEGIN, END = "<!-- ops: written by docs/ops.py -->\n", "<!-- end of the ops -->\n"
CLASSES, SIZES = 3862, (1024, 128)  # those of YouTube-8M
_LISTED = 4  # a row names at most so many models


def ops_of(name: str) -> set[str]:
    """The types of the ops that a model's predictions need, those in functions and loops too."""
    model_class = models.get(name)
    values = {"feature_sizes": SIZES} if "feature_sizes" in models.hyper_parameters(model_class) else {}
    modeler = VideoModeler(models.create(name, values), None, CLASSES, feature_sizes=SIZES)
    with tf.Graph().as_default() as graph:
        predictions = modeler.predict_placeholders(model_class.level == "frame").predictions
        functions = graph.as_graph_def().library.function
        return {op.type for op in _needed(predictions.op)} | {node.op for f in functions for node in f.node_def}


def _needed(op: Any) -> set[Any]:
    """The op and all that it waits for."""
    needed, waiting = set[Any](), [op]
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return needed


def table() -> str:
    """The ops and the models that use them, in Markdown."""
    names = models.built_in_names()
    users = defaultdict[str, list[str]](list)
    for name in names:
        for op in ops_of(name):
            users[op].append(name)
    of_all = sorted(op for op in users if len(users[op]) == len(names))
    rows = [f"| {op} | {_who(users[op], names)} |" for op in sorted(users) if op not in of_all]
    head = f"All {len(names)} models use: {', '.join(of_all)}.\n\n| op | models |\n|---|---|\n"
    return head + "".join(f"{row}\n" for row in rows)


def _who(users: list[str], names: list[str]) -> str:
    others = [name for name in names if name not in users]
    if len(others) <= _LISTED:
        return f"all but {', '.join(others)}"
    return ", ".join(users) if len(users) <= _LISTED else f"{len(users)}"


def main() -> None:
    """Writes the table into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}")


if __name__ == "__main__":
    main()
