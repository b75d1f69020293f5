"""ONNX files that are damaged, or whose graph contradicts their description: they are refused and give no scores."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import small_exports
from reader_records import write_shard

from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.export.onnx_file import OnnxFile

WIDTH, CLASSES = sum(small_exports.SIZES), small_exports.CLASSES


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("onnx")
    return pathlib.Path(small_exports.export_file(folder, "LogisticModel")).read_bytes()


def scores(content: bytes) -> np.ndarray:
    frames = np.linspace(-1, 1, 2 * WIDTH, dtype=np.float32).reshape(2, 1, WIDTH)
    return OnnxFile("x.onnx", content).scores_of_frames(frames, np.ones(2, np.int32))


@pytest.mark.promise("X3")
def test_every_changed_byte_is_refused_or_changes_no_score(exported: bytes) -> None:
    expected, draw, refused = scores(exported), np.random.default_rng(0), 0
    for place in draw.integers(0, len(exported), 100):
        damaged = bytearray(exported)
        damaged[place] ^= 1 << draw.integers(8)
        try:
            np.testing.assert_array_equal(scores(bytes(damaged)), expected)
        except (UsageError, RunError):
            refused += 1
    assert refused > 90  # what passes is the checksum's own name, without which a file counts as an older one


@pytest.mark.promise("X3")
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(exported: bytes, kept: float) -> None:
    with pytest.raises((UsageError, RunError), match=r"^x\.onnx"):
        scores(exported[: max(1, int(kept * len(exported)))])


def test_a_changed_weight_is_named_as_damage(exported: bytes) -> None:
    model = onnx.load_from_string(exported)
    weights = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    weights.raw_data = bytes(len(weights.raw_data))
    with pytest.raises(UsageError, match=r"x\.onnx is damaged.*checksum"):
        scores(model.SerializeToString())


def test_an_entry_that_another_program_adds_is_no_damage(exported: bytes) -> None:
    model = onnx.load_from_string(exported)
    model.metadata_props.add(key="owner", value="somebody")
    np.testing.assert_array_equal(scores(model.SerializeToString()), scores(exported))


def changed(content: bytes, change: Callable[[Any], None]) -> bytes:
    """The content of the file after `change`, without the checksum, as a file of an earlier version has none."""
    model = onnx.load_from_string(content)
    entries = [entry for entry in model.metadata_props if entry.key != "checksum"]
    del model.metadata_props[:]
    model.metadata_props.extend(entries)
    change(model)
    return bytes(model.SerializeToString())


def test_a_file_of_an_earlier_version_has_no_checksum_and_is_read(exported: bytes) -> None:
    np.testing.assert_array_equal(scores(changed(exported, lambda _: None)), scores(exported))


def after_scores(*nodes: Any, **constants: Any) -> Callable[[Any], None]:
    """A change that computes the scores from the former ones (`former`) by further nodes."""

    def change(model: Any) -> None:
        for node in model.graph.node:
            for place, name in enumerate(node.output):
                if name == "scores":
                    node.output[place] = "former"
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())

    return change


def node(kind: str, *inputs: str, **settings: Any) -> Any:
    return onnx.helper.make_node(kind, inputs, ["scores"], **settings)


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


_SLICE = node("Slice", "former", "first", "end", "axis")
_OTHER_SHAPES = {
    "3 columns": after_scores(_SLICE, first=number(0), end=number(3), axis=number(1)),
    "1 row": after_scores(_SLICE, first=number(0), end=number(1), axis=number(0)),
    "transposed": after_scores(node("Transpose", "former", perm=[1, 0])),
    "a scalar": after_scores(node("ReduceSum", "former", keepdims=0)),
    "rank 3": after_scores(node("Unsqueeze", "former", "axes"), axes=number(0)),
}


@pytest.mark.promise("X3")
@pytest.mark.parametrize("name", _OTHER_SHAPES)
@pytest.mark.parametrize("is_declared", [True, False])
def test_scores_of_another_shape_are_refused(exported: bytes, name: str, is_declared: bool) -> None:
    def change(model: Any) -> None:
        _OTHER_SHAPES[name](model)
        if not is_declared:
            model.graph.output[0].type.tensor_type.ClearField("shape")

    with pytest.raises((UsageError, RunError), match=r"^x\.onnx: .*(scores|graph)"):
        scores(changed(exported, change))


@pytest.mark.parametrize(("kind", "code"), [("INT64", 7), ("DOUBLE", 11), ("STRING", 8), ("FLOAT16", 10)])
def test_scores_of_another_type_are_refused(exported: bytes, kind: str, code: int) -> None:
    def change(model: Any) -> None:
        after_scores(node("Cast", "former", to=code))(model)
        model.graph.output[0].type.tensor_type.elem_type = code

    with pytest.raises(UsageError, match=rf"scores is tensor\({kind.lower()}\).*expected tensor\(float\)"):
        scores(changed(exported, change))


@pytest.mark.promise("X3")
@pytest.mark.parametrize("factor", [1e30, -1.0])
def test_scores_that_are_no_probabilities_are_refused(exported: bytes, factor: float) -> None:
    with pytest.raises(RunError, match=r"^x\.onnx: a score is .*from 0 to 1"):
        scores(changed(exported, after_scores(node("Mul", "former", "factor"), factor=np.float32(factor))))


def described(**values: Any) -> Callable[[Any], None]:
    """A change of entries of the file's description, or of the data's format in it."""

    def change(model: Any) -> None:
        (entry,) = (entry for entry in model.metadata_props if entry.key == "yt8m")
        about = json.loads(entry.value)
        for name, value in values.items():
            (about["format"] if name in ("num_classes", "features", "level", "max_frames") else about)[name] = value
        entry.value = json.dumps(about)

    return change


@pytest.mark.promise("X3")
@pytest.mark.parametrize("count", [CLASSES - 1, CLASSES + 1, 10**12, -1, 0, None, "x", 1e400, float("nan"), [3]])
def test_another_number_of_classes_is_refused(exported: bytes, count: Any) -> None:
    with pytest.raises(UsageError, match=r"^x\.onnx: "):
        scores(changed(exported, described(num_classes=count)))


@pytest.mark.parametrize(
    "values",
    [
        {"features": [{"name": "mean_rgb", "size": 10**15}]},
        {"features": [{"name": "mean_rgb", "size": 1}]},
        {"features": [{"name": "mean_rgb", "size": 1e400}]},
        {"features": [[]]},
        {"features": 3},
        {"level": []},
        {"extractors": "abc"},
        {"extractors": ["abc"]},
        {"step": "x"},
        {"weights": [1]},
        {"model": None},
        {"version": "1"},
        {"version": True},
        {"version": None},
    ],
    ids=str,
)
def test_a_description_with_values_of_other_types_is_refused(exported: bytes, values: dict[str, Any]) -> None:
    with pytest.raises((UsageError, RunError), match=r"^x\.onnx"):
        scores(changed(exported, described(**values)))


@pytest.mark.parametrize("text", ["[" * 200_000, "null", "[]", "{}", "7"])
def test_a_description_that_is_no_object_is_refused(exported: bytes, text: str) -> None:
    def change(model: Any) -> None:
        (entry,) = (entry for entry in model.metadata_props if entry.key == "yt8m")
        entry.value = text

    with pytest.raises(UsageError, match=r"did not write.*`yt8m export --format=onnx`"):
        scores(changed(exported, change))


def test_a_vocabulary_of_another_size_is_refused(
    exported: bytes, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "index,name\n" + "".join(f"{index},n{index}\n" for index in range(CLASSES - 1))
    path, shard = tmp_path / "x.onnx", write_shard(tmp_path / "a.tfrecord", small_exports.video_records(3))
    path.write_bytes(changed(exported, lambda model: model.metadata_props.add(key="vocabulary.csv", value=names)))
    assert cli.main(["predict", f"--model={path}", shard]) == 1
    assert re.search(rf"\b{CLASSES - 1} classes.*\b{CLASSES}\b", capsys.readouterr().err)
