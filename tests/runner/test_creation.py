"""One line says that half precision is slow on a processor without instructions for it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from yt8m import deploy, runner
from yt8m.numerics import precision as numerics_precision
from yt8m.runner.creation import deployment_for

OLD = "fpu sse4_2 avx2 fma avx512f avx512_vnni"


@pytest.fixture
def has(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this a machine whose two processors have these features."""

    def describe(flags: str) -> None:
        one = f"vendor_id\t: GenuineIntel\nflags\t\t: {flags}\nvmx flags\t: ept\n\n"
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{one}processor\t: 1\n{one}")
        monkeypatch.setattr(numerics_precision, "CPUINFO", str(tmp_path / "cpuinfo"))

    return describe


@pytest.mark.parametrize(
    ("precision", "flags", "lacking"),
    [
        ("bfloat16", OLD, "neither AMX-BF16 nor AVX512-BF16"),
        ("bfloat16", f"{OLD} amx_tile amx_int8 avx512_fp16", "neither AMX-BF16 nor AVX512-BF16"),
        ("bfloat16", f"{OLD} avx512_bf16", ""),
        ("bfloat16", f"{OLD} amx_bf16", ""),
        ("float16", OLD, "neither AMX-FP16 nor AVX512-FP16"),
        ("float16", f"{OLD} avx512_bf16 amx_bf16 f16c", "neither AMX-FP16 nor AVX512-FP16"),
        ("float16", f"{OLD} avx512_fp16", ""),
        ("float16", f"{OLD} amx_fp16", ""),
        ("float32", OLD, ""),
    ],
)
def test_what_the_processor_lacks_is_named(
    has: Callable[[str], None], precision: str, flags: str, lacking: str
) -> None:
    has(flags)
    told = numerics_precision.slowness(precision)
    assert bool(told) == bool(lacking)
    assert lacking in told
    assert told.startswith(f"--precision={precision} is slower than float32 here") == bool(lacking)


@pytest.mark.parametrize("text", [None, "", "processor\t: 0\nFeatures\t: fp asimd bf16\n"])
def test_a_processor_that_cannot_be_asked_gives_no_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(numerics_precision, "CPUINFO", str(tmp_path / "cpuinfo"))
    assert numerics_precision.slowness("bfloat16") == ""


def test_a_training_says_it_once(train: Callable, lines: Callable[[], list[str]], has: Callable[[str], None]) -> None:
    has(OLD)
    assert not train(max_steps=1, precision="bfloat16").exit_code
    assert sum("--precision=bfloat16 is slower than float32 here" in line for line in lines()) == 1
    assert not train(max_steps=2).exit_code
    assert sum("is slower than float32" in line for line in lines()) == 1


def test_on_a_gpu_nothing_is_said(
    lines: Callable[[], list[str]], has: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    has(OLD)
    config = runner.RunnerConfig(model_dir="run", precision="bfloat16")
    for gpus, said in ((1, 0), (0, 1)):
        monkeypatch.setattr(deploy, "count_gpus", lambda gpus=gpus: gpus)
        assert deployment_for(config).clone_on_cpu == (not gpus)
        assert sum("is slower than float32" in line for line in lines()) == said
