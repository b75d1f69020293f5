"""The weights of extractors: at a path of the user, or fetched once, checked, and later compared."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import pathlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import stand_ins

from yt8m import extractors
from yt8m.command_line import cli
from yt8m.datasets.extract import weights
from yt8m.errors import RunError, UsageError
from yt8m.extractors import Extractor, PublishedFile

CONTENT = np.random.default_rng(0).bytes(700_000)


class Files(http.server.ThreadingHTTPServer):
    """Serves CONTENT under every name; `asked` has the path of each request."""

    asked: list[str]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *unused: Any) -> None:
        pass


@pytest.fixture
def files() -> Iterator[Files]:
    with Files(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "yt8m" / "weights"


def extractor_of_source(source: PublishedFile | None, path: str = "") -> Extractor:
    @dataclass(frozen=True)
    class OfSource(Extractor):
        feature: ClassVar[str] = "thing"
        thing_file: str = extractors.weights("a thing", source)

        def open(self, weights: Any) -> Any:
            return contextlib.nullcontext()

    return OfSource(path)


def source_at(files: Files, md5: str = "", sha256: str = "") -> PublishedFile:
    return PublishedFile("thing.bin", f"http://127.0.0.1:{files.server_port}/models/thing.bin", md5, sha256)


def test_a_file_is_fetched_once_and_its_sha256_is_recorded(
    files: Files, cache: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extractor = extractor_of_source(source_at(files, hashlib.md5(CONTENT).hexdigest()))
    first = weights.find(extractor, "thing")
    assert first.paths == {"thing_file": str(cache / "thing.bin")}
    assert first.sha256 == {"thing_file": hashlib.sha256(CONTENT).hexdigest()}
    told = capsys.readouterr().err
    assert f"fetching http://127.0.0.1:{files.server_port}/models/thing.bin" in told
    assert f"sha256 is {first.sha256['thing_file']}; " in told
    assert weights.find(extractor, "thing") == first
    assert files.asked == ["/models/thing.bin"]
    assert sorted(path.name for path in cache.iterdir()) == ["thing.bin", "thing.bin.sha256"]


def test_a_file_that_changed_after_its_first_use_is_refused(files: Files, cache: pathlib.Path) -> None:
    extractor = extractor_of_source(source_at(files))
    weights.find(extractor, "thing")
    (cache / "thing.bin").write_bytes(b"other")
    with pytest.raises(RunError, match=f"has the sha256 {hashlib.sha256(b'other').hexdigest()}; expected"):
        weights.find(extractor, "thing")
    (cache / "thing.bin").unlink()
    assert weights.find(extractor, "thing").sha256["thing_file"] == hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_file_that_the_user_put_into_the_cache_must_have_the_published_digest(
    files: Files, cache: pathlib.Path, kind: str
) -> None:
    extractor = extractor_of_source(source_at(files, **{kind: hashlib.new(kind, CONTENT).hexdigest()}))
    cache.mkdir(parents=True)
    (cache / "thing.bin").write_bytes(b"other")
    with pytest.raises(
        RunError, match=f"has the {kind} {hashlib.new(kind, b'other').hexdigest()}; expected .*published"
    ):
        weights.find(extractor, "thing")
    (cache / "thing.bin").write_bytes(CONTENT)
    weights.find(extractor, "thing")
    assert files.asked == []


def test_an_error_says_what_to_do_if_a_file_cannot_be_fetched(
    cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "_BACKOFF_SECONDS", 0.01)
    address = "http://127.0.0.1:9/thing.bin"  # nobody listens there
    with pytest.raises(RunError) as error:
        weights.find(extractor_of_source(PublishedFile("thing.bin", address)), "thing")
    told = str(error.value)
    assert told.startswith("extractor thing needs thing.bin, which could not be fetched: ")
    assert re.search(f"{address} .* at {cache / 'thing.bin'}", told)
    assert told.endswith("or give its path by --thing_file=PATH.")
    assert [path.name for path in cache.iterdir() if path.name.endswith(("bin", "sha256"))] == []


def test_weights_at_a_path_of_the_user(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    path = tmp_path / "mine.bin"
    path.write_bytes(b"mine")
    found = weights.find(extractor_of_source(None, str(path)), "thing")
    assert found == ({"thing_file": str(path)}, {"thing_file": hashlib.sha256(b"mine").hexdigest()}, {})
    assert not cache.exists()
    with pytest.raises(UsageError, match=r"--thing_file=.*missing: .*no such file"):
        weights.find(extractor_of_source(None, str(tmp_path / "missing")), "thing")
    with pytest.raises(UsageError, match="--thing_file=PATH"):
        weights.find(extractor_of_source(None), "thing")


def test_the_sha256_of_a_folder_depends_on_names_and_contents(tmp_path: pathlib.Path) -> None:
    def folder(name: str, **files: str) -> str:
        for file, content in files.items():
            path = tmp_path / name / file.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return str(tmp_path / name)

    first = weights.sha256_of(folder("a", x="1", y__z="2"))
    assert weights.sha256_of(folder("b", y__z="2", x="1")) == first
    others = [folder("c", x="1", y__z="3"), folder("d", x="1", y__w="2"), folder("e", x="1", z="2")]
    assert len({first, *map(weights.sha256_of, others)}) == 4


def test_the_command_fetches_and_names_the_weights(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stand_ins.write_onnx(tmp_path / "clip.onnx")
    assert cli.call("extract", [f"--extractors=onnx:{path}", "--fetch_weights"]) == 0
    sha256 = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    assert capsys.readouterr().out == f"onnx:{path} onnx_file: {path}, sha256 {sha256}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--extractors=inception", "--picture_size=8"], r"extractors inception .*such a setting"),
        (["--extractors=onnx:a/x.onnx,onnx:b/x.onnx"], r"two of them .*'x'"),
        (["--extractors=inception,vggish,vggish"], r"vggish .*twice"),
        (["--extractors=incption"], "did you mean inception"),
        (["--extractors=onnx:x.onnx", "--mean=a,b,c"], "numbers with commas"),
    ],
)
def test_wrong_extractors_and_settings_are_refused(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        cli.call("extract", [*words, "--fetch_weights"])


def test_help_lists_the_settings_of_all_extractors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.call("extract", ["--help"])
    told = capsys.readouterr().out
    for name in ("--inception_graph", "--vggish_pca", "--picture_size", "--mean", "--pooling"):
        assert name in told
    assert "saved_model: 0" not in told.replace("\n", " ") or "onnx: 224" in told


def test_the_sha256_of_an_onnx_model_covers_all_its_files(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_onnx(tmp_path / "clip.onnx", weights="clip.onnx.data")
    extractor = extractors.create(f"onnx:{path}", {"picture_size": 8})
    assert extractor.files_of(path) == [path, f"{path}.data"]
    before = weights.find(extractor, "onnx").sha256
    pictures = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    with extractor.open({"onnx_file": path}) as compute:
        values = compute(pictures)
    (tmp_path / "clip.onnx.data").write_bytes((2 * stand_ins.PROJECTION).tobytes())
    with extractor.open({"onnx_file": path}) as compute:
        np.testing.assert_allclose(compute(pictures), 2 * values, rtol=1e-5)
    assert weights.find(extractor, "onnx").sha256 != before
    (tmp_path / "clip.onnx.data").unlink()
    with pytest.raises(UsageError, match=r"clip\.onnx .*weights in .*clip\.onnx\.data\b.*not exist"):
        weights.find(extractor, "onnx")


def test_an_onnx_model_in_one_file_has_its_sha256(tmp_path: pathlib.Path) -> None:
    path = stand_ins.write_onnx(tmp_path / "clip.onnx")
    found = weights.find(extractors.create(f"onnx:{path}"), "onnx").sha256
    assert found == {"onnx_file": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()}


@pytest.mark.parametrize(
    ("name", "field", "problem", "message"),
    [
        ("onnx:a.onnx", "onnx_file", "there is no such file.", "extractor onnx:a.onnx: there is no such file."),
        (
            "vggish",
            "vggish_pca",
            "there is no such file.",
            "extractor vggish, --vggish_pca=a.onnx: there is no such file.",
        ),
        ("hf:a", "hf_model", "extractor hf:a needs torch.", "extractor hf:a needs torch."),
    ],
)
def test_a_message_names_the_extractor_and_the_path_once(name: str, field: str, problem: str, message: str) -> None:
    assert weights._of_extractor(name, field, "a.onnx", problem) == message
