"""`yt8m.fit`: a training in this process. The types of its options are in the stub beside this file."""

from __future__ import annotations

import ast
import inspect
import pathlib
from typing import Any

from yt8m.command_line import program
from yt8m.errors import UsageError
from yt8m.python_api import fitting
from yt8m.python_api.call_scope import in_words_of_python
from yt8m.python_api.fitting import FittedRun


def fit(*operands: Any, **flag_values: Any) -> FittedRun:
    """Trains a model in this process, as train.py does."""
    if operands:
        raise UsageError(
            "fit takes options by name, such as fit(data=FOLDER) for records; yt8m.Classifier().fit(X, y) trains on "
            "arrays."
        )
    with program.shown_log(), in_words_of_python():
        return fitting.train_in_process(flag_values)


def _describe_by_stub() -> None:
    """Gives `fit` the signature and the docstring of the stub, for notebooks and `help`."""
    stub = pathlib.Path(__file__).with_suffix(".pyi")
    functions = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.FunctionDef)]
    arguments = functions[0].args
    fit.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                argument.arg,
                inspect.Parameter.KEYWORD_ONLY,
                default=ast.literal_eval(value or ast.Constant(None)),
                annotation=ast.unparse(argument.annotation or ast.Constant(None)),
            )
            for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ],
        return_annotation="FittedRun",
    )
    fit.__doc__ = ast.get_docstring(functions[0])


_describe_by_stub()
