"""Which device a tensor is on, and whether the processor has fast instructions for 16-bit products."""

from __future__ import annotations

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf


def is_on_gpu(tensor: tf.Tensor) -> bool:
    """Whether the graph places `tensor` on a GPU. For a new `tf.identity`: whether the current device is a GPU."""
    return bool(tf.DeviceSpec.from_string(tensor.device).device_type == "GPU")


CPUINFO = "/proc/cpuinfo"

# By precision: Linux' names of the instructions for it, and the vendors'. Without one of them TensorFlow's
# kernels convert every operand to float32 and back, or compute number by number.
_INSTRUCTIONS = {
    "bfloat16": {"amx_bf16": "AMX-BF16", "avx512_bf16": "AVX512-BF16"},
    "float16": {"amx_fp16": "AMX-FP16", "avx512_fp16": "AVX512-FP16"},
}


def slowness(precision: str) -> str:
    """The line to log if `precision` makes training slower on this processor; empty otherwise.

    Empty also if the processor is unknown (not Linux, or not x86).
    """
    wanted, flags = _INSTRUCTIONS.get(precision, {}), _flags()
    if not wanted or not flags or not flags.isdisjoint(wanted):
        return ""
    return (
        f"--precision={precision} is slower than float32 here: this processor has no instructions for it "
        f"(neither {' nor '.join(wanted.values())})"
    )


def _flags() -> frozenset[str]:
    """The feature flags of the first processor; empty if they are unknown."""
    try:
        lines = storage.read_text(CPUINFO).splitlines()
    except RunError:
        return frozenset()
    found = (line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == "flags")
    return frozenset(next(found, "").split())
