"""`yt8m ensemble` on prediction files: means by hand, files in other orders, fitted weights."""

from __future__ import annotations

import pathlib
import re
import sys

import numpy as np
import pytest
from reader_records import video_record, write_shard

from yt8m.command_line import cli
from yt8m.datasets import ground_truth
from yt8m.export import ensembles
from yt8m.export.ensembles import aligned, side_by_side
from yt8m.records.opened_data import open_data
from yt8m.records.prediction_files import PredictionRow

C = 12
HEADER = "VideoId,LabelConfidencePairs"


def run(*words: object) -> int:
    return cli.main(["ensemble", f"--num_classes={C}", *map(str, words)])


def write(path: pathlib.Path, scores: dict[str, dict[int, float]]) -> pathlib.Path:
    rows = [
        f"{video}," + " ".join(f"{c} {p:g}" for c, p in sorted(row.items(), key=lambda one: -one[1]))
        for video, row in scores.items()
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def read(path: pathlib.Path) -> dict[str, dict[int, float]]:
    found = {}
    for line in path.read_text().splitlines()[1:]:
        video, _, pairs = line.partition(",")
        words = pairs.split()
        found[video] = dict(zip(map(int, words[::2]), map(float, words[1::2]), strict=True))
    return found


def drawn(seed: int, videos: int = 9) -> dict[str, dict[int, float]]:
    draw = np.random.default_rng(seed)
    return {
        f"v{at}": {int(c): round(float(draw.random()), 4) for c in draw.permutation(C)[: draw.integers(1, 6)]}
        for at in range(videos)
    }


@pytest.mark.parametrize("weights", [(), (1.0, 3.0)])
def test_the_mean_of_scores(tmp_path: pathlib.Path, weights: tuple[float, ...]) -> None:
    first, second = drawn(1), drawn(2)
    paths = write(tmp_path / "a.csv", first), write(tmp_path / "b.csv", second)
    given = ["--weights", *weights] if weights else []
    assert run("--predictions", *paths, *given, f"--output_file={tmp_path}/o.csv", "--top_k=4") == 0
    found, (x, y) = read(tmp_path / "o.csv"), weights or (1, 1)
    assert list(found) == list(first)
    for video, row in found.items():
        both = first[video].keys() | second[video].keys()
        mean = {c: (x * first[video].get(c, 0) + y * second[video].get(c, 0)) / (x + y) for c in both}
        best = sorted(mean, key=lambda c: (-mean[c], c))[:4]
        assert list(row) == best
        assert list(row.values()) == pytest.approx([mean[c] for c in best], rel=1e-5)


def test_the_mean_of_ranks(tmp_path: pathlib.Path) -> None:
    paths = [write(tmp_path / "a.csv", {"v": {1: 0.9, 2: 0.2}}), write(tmp_path / "b.csv", {"v": {2: 0.01}})]
    words = ["--predictions", *paths, "--mean=rank", f"--output_file={tmp_path}/o.csv", "--top_k=4"]
    assert run(*words) == 0
    assert read(tmp_path / "o.csv") == {"v": {2: (0.75 + 1) / 2, 1: 0.5}}


def test_files_in_other_orders(tmp_path: pathlib.Path) -> None:
    first, second = drawn(1, 30), drawn(2, 30)
    order = np.random.default_rng(0).permutation(list(second)).tolist()
    same = [write(tmp_path / "a.csv", first), write(tmp_path / "b.csv", second)]
    other = [same[0], write(tmp_path / "c.csv", {video: second[video] for video in order})]
    for name, paths in (("s", same), ("o", other)):
        assert run("--predictions", *paths, f"--output_file={tmp_path}/{name}.csv") == 0
    assert (tmp_path / "s.csv").read_text() == (tmp_path / "o.csv").read_text()


def test_other_videos_and_bad_lines(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "a.csv", {"v": {1: 0.5}, "w": {1: 0.5}})
    for name, content, words in (
        ("more", {"v": {1: 0.5}, "w": {1: 0.5}, "x": {1: 0.5}}, "more.csv, line 4: "),
        ("less", {"v": {1: 0.5}}, "has no video 'w'"),
    ):
        second = write(tmp_path / f"{name}.csv", content)
        assert run("--predictions", first, second, f"--output_file={tmp_path}/o.csv") == 1
        assert words in capsys.readouterr().err
    (tmp_path / "bad.csv").write_text("v,1 0.5\nw,99 0.5\n")
    assert run("--predictions", first, tmp_path / "bad.csv", f"--output_file={tmp_path}/o.csv") == 1
    assert "bad.csv, line 2: " in capsys.readouterr().err
    for content, line in (("v,1 0.5\nw,1 0.5\nw,1 0.5\n", 3), ("v,1 0.5\nv,1 0.5\nw,1 0.5\n", 2)):
        (tmp_path / "bad.csv").write_text(content)
        assert run("--predictions", first, tmp_path / "bad.csv", f"--output_file={tmp_path}/o.csv") == 1
        said = capsys.readouterr().err
        assert f"bad.csv, line {line}: video '{content[line * 8 - 8]}' has line {line - 1} already" in said
    (tmp_path / "empty.csv").write_text(HEADER + "\n")
    empty = [tmp_path / "empty.csv"] * 2
    assert run("--predictions", *empty, f"--output_file={tmp_path}/o.csv") == 1
    assert "empty.csv holds no prediction" in capsys.readouterr().err
    assert run("--predictions", first, first, f"--fit_on={tmp_path}/none") == 2
    assert "--fit_on=" in capsys.readouterr().err
    (tmp_path / "bad.csv").write_text("w,1 0.5\nw,1 0.5\nv,1 0.5\n")
    assert run("--predictions", first, tmp_path / "bad.csv", f"--output_file={tmp_path}/o.csv") == 1
    assert "bad.csv, line 2: video 'w' has line 1 already" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--predictions", "a"],
        ["--predictions", "a", "b"],
        ["--predictions", "a", "b", "--output_file=o", "--weights", "1"],
        ["--predictions", "a", "b", "--output_file=o", "--weights", "1", "0"],
        ["--predictions", "a", "b", "--output_file=o", "--weights=1,x"],
        ["--predictions", "a", "b", "--runs", "a", "b"],
        ["--runs", "a", "b"],
        ["--runs", "a", "b", "--export_dir=e", "--output_file=o"],
        [],
    ],
)
def test_what_cannot_be(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert capsys.readouterr().err.startswith("yt8m ensemble: error: ")


@pytest.mark.parametrize(
    ("name", "ending", "flag"),
    [
        ("both.onnx", ".onnx", "output_onnx"),
        ("both.tgz", ".tgz", "output_model_tgz"),
        ("both.tar.gz", ".tar.gz", "output_model_tgz"),
    ],
)
def test_a_folder_of_a_model_cannot_have_the_name_of_a_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str, ending: str, flag: str
) -> None:
    assert run("--model=a,b", f"--out={tmp_path}/{name}") == 2
    out = f"{tmp_path}/{name}"
    assert re.fullmatch(
        rf"yt8m ensemble: error: --out={out}: .* end in {ending}\. .*--{flag}={out}\.\n", capsys.readouterr().err
    )
    assert not (tmp_path / name).exists()


def world(folder: pathlib.Path, videos: int = 1200) -> list[pathlib.Path]:
    """A good model, one that errs on its own, and one that knows nothing; records with the labels."""
    draw = np.random.default_rng(5)
    labels = draw.random((videos, C)) < 0.25
    truth = labels.astype(float)
    models = [truth + draw.normal(0, noise, truth.shape) for noise in (0.5, 0.7)]
    models.append(draw.normal(0, 1, truth.shape))
    paths = []
    for at, scores in enumerate(models):
        p = 1 / (1 + np.exp(-3 * (scores - 0.5)))
        table = {f"{row:04d}": {c: float(p[row, c]) for c in np.argsort(-p[row])[:6]} for row in range(videos)}
        paths.append(write(folder / f"{at}.csv", table))
    records = [video_record(id=[b"%04d" % row], labels=np.flatnonzero(labels[row]).tolist()) for row in range(videos)]
    write_shard(folder / "labels.tfrecord", records)
    return paths


def test_fitted_weights_gain_on_videos_that_were_not_fitted_on(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = world(tmp_path)
    words = ["--predictions", *paths, f"--fit_on={tmp_path}/labels.tfrecord", f"--output_file={tmp_path}/o.csv"]
    assert run(*words, "--top_k=6") == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if line.startswith("--weights="))
    weights = [float(word) for word in line.removeprefix("--weights=").split(",")]
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert weights[0] > weights[1] > weights[2]
    assert weights[2] < 0.15
    gain = float(said.split("gain over equal weights ")[1].split(",")[0])
    over_best = float(said.split("single file ")[1].split(")")[0])
    assert gain > 0.01
    assert over_best > 0.01
    (tmp_path / "again").mkdir()
    again = ["--predictions", *paths, line, f"--output_file={tmp_path}/again/o.csv", "--top_k=6"]
    assert run(*again) == 0
    first, second = read(tmp_path / "o.csv"), read(tmp_path / "again/o.csv")
    assert [next(iter(row)) for row in first.values()] == [next(iter(row)) for row in second.values()]
    # The figures are those of `yt8m score`.
    assert run("--predictions", *paths, f"--output_file={tmp_path}/equal.csv", "--top_k=6") == 0
    capsys.readouterr()
    scores = []
    for name in ("o.csv", "equal.csv"):
        labels = f"--eval_data_pattern={tmp_path}/labels.tfrecord"
        assert cli.main(["score", f"--predictions={tmp_path}/{name}", labels, f"--num_classes={C}"]) == 0
        scores.append(float(capsys.readouterr().out.split()[1]))
    assert scores[0] - scores[1] == pytest.approx(gain, abs=0.03)


@pytest.mark.heavy
def test_the_printed_weights_can_be_given_and_have_the_printed_gap(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the fit finds a file worth next to nothing: its weight is the smallest that is printed, not 0."""
    paths = world(tmp_path)
    monkeypatch.setattr(ensembles, "fit_weights", lambda *_: np.array([0.7499, 0.25009, 0.00001]))
    words = ["--predictions", *paths, "--top_k=6"]
    labels = f"{tmp_path}/labels.tfrecord"
    assert run(*words, f"--fit_on={labels}", f"--output_file={tmp_path}/o.csv") == 0
    said = capsys.readouterr()
    assert said.err == f"1200 predictions are in {tmp_path}/o.csv\n"
    line = said.out.splitlines()[-1]
    assert line == "--weights=0.7499,0.2501,0.0001"
    assert run(*words, line, f"--output_file={tmp_path}/again.csv") == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()
    weights = np.array([float(word) for word in line.removeprefix("--weights=").split(",")])
    truth = ground_truth.video_labels(open_data(labels), C)
    _, held_out = ensembles.halves(side_by_side([str(path) for path in paths], C), truth, False, 6)
    printed = said.out.split("GAP with fitted weights: ")[1].split()[0]
    assert printed == f"{held_out.gap(weights / weights.sum(), 6):.5f}"


def test_without_scipy_it_says_how_to_install_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    paths = world(tmp_path, 50)
    assert run("--predictions", *paths, f"--fit_on={tmp_path}/labels.tfrecord") == 2
    assert "run pip install -e '.[ensemble]' in the checkout of yt8m, or give --weights" in capsys.readouterr().err


def test_gap_of_pairs_is_that_of_the_metrics() -> None:
    draw = np.random.default_rng(0)
    labels = draw.random((50, C)) < 0.3
    scores = draw.random((50, C)).astype(np.float32) + 0.01
    rows = [PredictionRow("", f"{at}", np.arange(C, dtype=np.int32), scores[at]) for at in range(50)]
    stacked = [(*aligned([row], False, 5)[1:], labels[at], int(labels[at].sum())) for at, row in enumerate(rows)]
    pairs = ensembles.ScoredPairs.stack(stacked)
    from yt8m.eval_util import calculate_gap

    assert pairs.gap(np.ones(1), 5) == pytest.approx(calculate_gap(scores, labels, 5), abs=1e-9)
