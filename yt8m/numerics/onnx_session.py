"""Opens ONNX files in onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yt8m import file_kinds, storage
from yt8m.errors import UsageError, first_line, missing_extra

_ERRORS_ONLY = 3  # the level of onnxruntime's log that leaves out warnings


def open_session(model: str | bytes, path: str, purpose: str, *, cpu_only: bool = False) -> Any:
    """Opens a session of onnxruntime, which can run an ONNX model.

    Args:
      cpu_only: whether the model runs on the CPU even if onnxruntime can use a GPU. Idle threads then sleep instead of
        spinning (waiting in a loop): with spinning threads a service took twice as much CPU time, because its other
        threads had to wait for cores. A deep network alone takes up to a third longer without spinning, so extractors,
        which leave `cpu_only` False, let threads spin.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra(purpose, "onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    if cpu_only:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"] if cpu_only else onnxruntime.get_available_providers()
    try:
        # Without a GPU there is nothing to fall back to; the attempt would print lines to the standard output.
        session = onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=int(not cpu_only))
        _read_signature(session.get_inputs(), session.get_outputs())
        return session
    except Exception as error:  # the exceptions of onnxruntime have no public base class
        kind = storage.kind_of(path)
        problem = first_line(error)[:300].rstrip(".") if kind in (None, file_kinds.ONNX) else kind
        raise UsageError(f"{path} is not an ONNX file that can be loaded: {problem}.") from error


def _read_signature(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Reads all that a graph declares: onnxruntime loads damaged names that are no text, and fails when they are read.

    Raises `ValueError` if the graph has no input or no output.
    """
    for node in (*inputs, *outputs):
        _ = node.name, node.type, node.shape
    if not inputs or not outputs:
        raise ValueError(f"it has {len(inputs)} inputs and {len(outputs)} outputs")
