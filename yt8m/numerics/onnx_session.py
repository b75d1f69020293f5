"""Opens ONNX files in onnxruntime."""

from __future__ import annotations

from typing import Any

from yt8m.errors import UsageError, first_line, missing_extra

_ERRORS_ONLY = 3  # onnxruntime's log level


def open_session(model: str | bytes, path: str, purpose: str, *, cpu_only: bool = False) -> Any:
    """A session of onnxruntime.

    Args:
      model: a local path, or the content of a file.
      path: the path of the file, for messages.
      purpose: what needs onnxruntime, for messages.
      cpu_only: whether the model runs on the CPU even if this onnxruntime can use a GPU.

    Raises:
      UsageError: onnxruntime is not installed, or cannot load the file.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra(purpose, "onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    providers = ["CPUExecutionProvider"] if cpu_only else onnxruntime.get_available_providers()
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # the exceptions of onnxruntime have no public base class
        raise UsageError(f"{path} is not an ONNX file that can be loaded: {first_line(error)[:300]}.") from error
