"""The folder of a page: what it holds, what it takes from the metadata of the ONNX file, and what is refused."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re

import pytest
import small_exports
from small_run import ROOT, evaluate, run

from yt8m.command_line import cli
from yt8m.errors import UsageError
from yt8m.export import web_page
from yt8m.export.onnx_export import export_onnx
from yt8m.export.onnx_file import OnnxFile
from yt8m.export.saved_model import ModelFacts
from yt8m.records import vocabulary


def package(folder: pathlib.Path, version: str = web_page.VERSION) -> str:
    """A package whose files are not the published ones."""
    (folder / "dist").mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": "onnxruntime-web", "version": version}))
    for name in web_page._RUNTIME:
        (folder / name).write_bytes(b"other")
    return str(folder)


def test_a_missing_or_another_package_is_refused_before_the_export(tmp_path: pathlib.Path) -> None:
    install = f"npm install onnxruntime-web@{web_page.VERSION}"
    with pytest.raises(UsageError, match=rf"no .*nowhere/package\.json: run {install}.*--onnxruntime_web"):
        web_page.runtime_files(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=rf"onnxruntime-web 1\.19\.2\b.*: run {install}"):
        web_page.runtime_files(package(tmp_path / "old", "1.19.2"))
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(UsageError, match=rf"bundle\.min\.mjs has the sha256 {other}; that of version .* is \w{{64}}\."):
        web_page.runtime_files(package(tmp_path / "changed"))


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("package.json", b"{", r"is cut short .*\(Expecting property name"),
        ("package.json", b"\xff\xfe\xfd", r"is cut short .*\('utf-?"),
        ("package.json", b"[]", "names no version"),
        ("package.json", b'{"name": "onnxruntime-web"}', "names no version"),
        ("dist/ort.wasm.bundle.min.mjs", None, "is missing"),
    ],
)
def test_a_damaged_package_is_to_be_installed_again(
    tmp_path: pathlib.Path, name: str, content: bytes | None, found: str
) -> None:
    path = pathlib.Path(package(tmp_path / "damaged")) / name
    path.unlink() if content is None else path.write_bytes(content)
    remedy = rf": npm install onnxruntime-web@{web_page.VERSION}\.$"
    with pytest.raises(UsageError, match=f"^{re.escape(str(path))} {found}.*{remedy}"):
        web_page.runtime_files(str(tmp_path / "damaged"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--format=web", "--out={new}.onnx"], "--format=web writes no file whose name ends in .onnx"),
        (["--format=onnx", "--out={new}"], "must be a file whose name ends in .onnx"),
        (["--format=web", "--out={new}", "--weights=float16"], "--weights=float16 is for a SavedModel"),
        (["--format=web", "--out={new}", "--signature=mediapipe"], "--signature is for a SavedModel"),
        (["--format=web", "--out={new}", "--input_type=uint8"], "--input_type has an effect only with --format=onnx"),
        (["--format=web", "--out={here}"], "exists already"),
        (
            ["--format=onnx", "--out={new}.onnx", "--onnxruntime_web=x"],
            "--onnxruntime_web has an effect only with --format=web",
        ),
    ],
)
def test_wrong_usage(tmp_path: pathlib.Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    paths = {"new": tmp_path / "new", "here": tmp_path}
    assert cli.main(["export", f"--model={tmp_path}", *(word.format(**paths) for word in words)]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_page_knows_features_names_and_thresholds(tmp_path: pathlib.Path) -> None:
    data, parts, checkpoint = small_exports.checkpoint(tmp_path, "FrameLevelLogisticModel")
    names = [f"name {index}, of 30" for index in range(small_exports.CLASSES)]
    rows = [f"{index},{name},{'inf' if index else 0.25},{'too_few_labels' if index else 'class'},9,,,,7"
            for index, name in enumerate('"' + name + '"' for name in names)]  # fmt: skip
    text = "\n".join(["index,name,threshold,basis,positives,precision,recall,f1,step", *rows]) + "\n"
    path = str(tmp_path / "model.onnx")
    export_onnx(
        path,
        checkpoint,
        data,
        parts.modeler,
        ModelFacts(names=vocabulary.of_names(names)),
        describe=lambda *_: {"thresholds.csv": text},
    )
    facts = web_page.page_facts(OnnxFile(path))
    assert facts == {
        "model": "FrameLevelLogisticModel",
        "step": 0,
        "features": [
            {"name": "rgb", "size": 6, "range": (-2.0, 2.0)},
            {"name": "audio", "size": 2, "range": (-2.0, 2.0)},
        ],
        "classes": names,
        "thresholds": [0.25] + [None] * 29,
        "per_second": 1.0,
        "counts_whole": False,
        "window": 300,
        "film": None,
        "takes_best": False,
        "few_positives": [9] * 30,
    }


@pytest.mark.heavy
def test_a_page_of_a_run_is_a_whole_folder(
    tmp_path: pathlib.Path, onnxruntime_web: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(folder, "--model=MoeModel") == 0
    evaluate(folder, "--report")
    sizes = {}
    for weights in ("float32", "int8"):
        out = tmp_path / weights
        words = ["--format=web", f"--weights={weights}", f"--out={out}", f"--onnxruntime_web={onnxruntime_web}"]
        assert cli.main(["export", f"--model={folder}", *words]) == 0
        assert f"weights: {weights}\n{out}: " in capsys.readouterr().out
        sizes[weights] = (out / "model.onnx").stat().st_size
        facts = json.loads((out / "page.json").read_text())
        assert (facts["model"], facts["step"], len(facts["thresholds"])) == ("MoeModel", 12, 10)
        scripts = {path.name for path in ROOT.glob("yt8m/data/web/*.js")}
        runtime_names = {"license.txt", "onnxruntime-web.js", "onnxruntime-web.wasm"}
        assert {path.name for path in (out / "onnxruntime").iterdir()} == runtime_names
        assert {path.name for path in out.iterdir()} == {
            "index.html", "model.onnx", "onnxruntime", "page.json", "style.css", *scripts
        }  # fmt: skip
        assert "Copyright (c) Microsoft Corporation" in (out / "onnxruntime/license.txt").read_text()
    assert sizes["int8"] < sizes["float32"]
    assert {path.name for path in tmp_path.iterdir()} == {"run", "float32", "int8"}
