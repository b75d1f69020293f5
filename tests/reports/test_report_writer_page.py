"""The page: its numbers by scikit-learn, no name comes out as markup, nothing is asked from outside."""

from __future__ import annotations

import base64
import html.parser
import importlib.util
import pathlib
import re
from dataclasses import replace

import numpy as np
import pytest
from evaluated_videos import corrected_ap
from reports import report_runs as pages
from sklearn import metrics

from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.eval_util import eval_samples
from yt8m.eval_util.resampling import interval
from yt8m.eval_util.videos import hashes
from yt8m.reports import loading
from yt8m.reports.charts import legend, picture
from yt8m.reports.loading import difference_interval, figure, interval_of, load
from yt8m.reports.measures import class_rows
from yt8m.runs.opened_run import RunFiles

VOID = {"meta", "img", "input"}


class Reader(html.parser.HTMLParser):
    """Elements, their attributes and the text of the page; refuses elements that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += [data.strip()] if data.strip() else []

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module", params=["one", "both"])
def page(world: pathlib.Path, request: pytest.FixtureRequest) -> Reader:
    return Reader((world / f"{request.param}.html").read_text())


def test_names_stay_words_and_nothing_comes_from_outside(page: Reader) -> None:
    known = {"html", "head", "meta", "title", "style", "body", "main", "section", "div", "span", "p", "i"}
    known |= {"h1", "h2", "h3", "figure", "figcaption", "img", "table", "thead", "tbody", "tr", "th", "td"}
    known |= {"details", "summary", "label", "input", "output", "script", "a", "small"}
    assert {name for name, _ in page.elements} <= known
    attributes = {name for _, given in page.elements for name in given}
    usual = {
        "src",
        "alt",
        "class",
        "style",
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "id",
        "hidden",
        "type",
        "title",
    }
    usual |= {
        "scope",
        "role",
        "tabindex",
        "aria-label",
        "aria-live",
        "autocomplete",
        "spellcheck",
        "data-of",
        "data-search",
        "data-points",
    }
    assert attributes <= usual
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.named("img"))
    assert not re.search(r"url\(|@import", "".join(page.words))
    assert pages.HOSTILE in page.words
    assert any("default-src 'none'" in str(given.get("content")) for given in page.named("meta"))


def test_every_picture_says_what_it_shows(page: Reader) -> None:
    told = [image["alt"] for image in page.named("img")]
    assert len(told) == len(set(told)) >= 8
    assert all(len(text.split()) > 5 for text in told)
    for part in ("Precision against recall", "Calibration", "by vertical", "loss over the steps", "GAP over"):
        assert any(part in text for text in told), part


def test_the_figures_are_those_of_scikit_learn(world: pathlib.Path) -> None:
    scores, labels = pages.data(1)
    words = Reader((world / "one.html").read_text()).words
    has = labels.any(0)
    aps = metrics.average_precision_score(labels[:, has], scores[:, has], average=None)
    order = np.argsort(-scores, axis=1)
    expected = {
        "GAP": metrics.average_precision_score(labels.ravel(), scores.ravel()),
        "mAP": aps.mean(),
        "Hit@1": labels[np.arange(len(labels)), order[:, 0]].mean(),
        "PERR": np.mean(
            [row[best[: row.sum()]].sum() / max(1, row.sum()) for row, best in zip(labels, order, strict=True)]
        ),
    }
    for name, value in expected.items():
        place = words.index(name)
        assert words[place + 1] == f"{value:.4f}"
        low, high = map(float, words[place + 2].split(" to "))
        assert low < value < high < low + 0.3
    table = "\n".join(words[words.index("best") :])
    for ap, count in zip(aps, labels[:, has].sum(0), strict=True):
        assert f"{count}\n{ap:.3f}" in table


def test_the_table_of_all_classes_is_that_of_scikit_learn(tmp_path: pathlib.Path) -> None:
    pages.make_run(tmp_path, 1)
    scores, labels = pages.data(1)
    (run,) = load([str(tmp_path)], 60, 0)
    rows = class_rows(run, pages.hostile_vocabulary())
    assert [row.number for row in rows] == list(range(3862))
    order = np.argsort(hashes([b"v%d" % number for number in range(len(scores))]))
    draw = np.random.default_rng(0)
    sets = [order[draw.integers(len(scores), size=len(scores))] for _ in range(60)]
    points = run.samples.points
    assert points is not None
    for c in range(11):
        row, truth = rows[c], labels[:, c]
        ap = metrics.average_precision_score(truth, scores[:, c])
        assert row[3:5] == (f"{truth.sum()}", f"{ap:.3f}")
        assert row[6:10] == (*(f"{share[c]:.3f}" for share in points[3:6]), f"{points.thresholds[c]:.3g}")
        assert row.remark == (f"({truth.sum()})" if truth.sum() < 20 else "")
        aps = np.array([corrected_ap(scores[rows, c], truth[rows]) for rows in sets])
        low, high = interval(corrected_ap(scores[:, c], truth), aps)
        assert row.interval == f"{low:.3f} to {high:.3f}"
    for row in rows[11:]:
        assert (row.positives, row.average_precision, row.interval, row.recall, row.remark) == ("0", *["—"] * 3, "*")


def with_loss(folder: pathlib.Path, loss: float, seen: int = pages.VIDEOS) -> loading.Run:
    """A run whose evaluation of `seen` videos has this loss."""
    pages.make_run(folder, 1, seen=seen)
    whole = eval_samples.read(str(folder))
    eval_samples.write(str(folder), whole._replace(figures={**whole.figures, "loss": loss}))
    return load([str(folder)], 400, 0)[0]


@pytest.mark.heavy
def test_the_loss_has_an_interval_as_a_mean_of_the_videos_has(tmp_path: pathlib.Path) -> None:
    scores, labels = pages.data(1)
    losses = -np.log(np.where(labels, scores, 1 - scores) + 1e-5).sum(1).astype(float)
    run = with_loss(tmp_path, float(losses.mean()))
    found = interval_of(run, "loss")
    assert found is not None
    assert found.high - found.low == pytest.approx(2 * 1.96 * losses.std() / np.sqrt(len(losses)), rel=0.15)
    assert found.low < losses.mean() < found.high
    assert cli.main(["report", str(tmp_path), "--resamples=400"]) == 0
    words = Reader((tmp_path / "eval/report.html").read_text()).words
    assert words[words.index("loss") + 1 :][:2] == [f"{losses.mean():.4f}", f"{found.low:.4f} to {found.high:.4f}"]


def test_a_loss_that_is_not_the_cross_entropy_of_the_videos_has_no_interval(tmp_path: pathlib.Path) -> None:
    scores, labels = pages.data(1)
    losses = -np.log(np.where(labels, scores, 1 - scores) + 1e-5).sum(1).astype(float)
    assert "loss" not in with_loss(tmp_path, float(losses.mean()) * 1.01).resampled
    assert "loss" in with_loss(tmp_path, float(losses.mean()) * 1.01, seen=320).resampled  # by the choice of the sample
    assert "loss" not in with_loss(tmp_path, float(losses.mean()) / 4, seen=320).resampled


def test_runs_stand_side_by_side(world: pathlib.Path) -> None:
    words = Reader((world / "both.html").read_text()).words
    assert "_second" in words
    gaps = [words[place + 1] for place, word in enumerate(words) if word == "GAP"][-2:]
    place = words.index("GAP", words.index("verdict"))
    verdict, difference, interval, *values = words[place + 1 : place + 6]
    assert words[place - 1] == "this run"  # the last header
    assert "_second" in verdict or verdict == "may be chance" or verdict.endswith(" is better")
    assert values == gaps[-2:]
    assert float(difference) == pytest.approx(float(gaps[1]) - float(gaps[0]), abs=1.1e-4)
    low, high = map(float, interval.split(" to "))
    assert low < float(difference) < high


def test_the_interval_of_a_difference_is_that_of_the_other_way_round(tmp_path: pathlib.Path) -> None:
    """One of the two differences is negative."""
    for seed in (1, 2):
        (tmp_path / f"{seed}").mkdir()
        pages.make_run(tmp_path / f"{seed}", seed)
    one, two = load([f"{tmp_path}/1", f"{tmp_path}/2"], resamples=30, seed=0)
    for name in ("gap", "hit_at_one", "perr", "map"):
        low, high = difference_interval(one, two, name)
        assert low <= figure(two, name) - figure(one, name) <= high
        assert difference_interval(two, one, name) == pytest.approx((-high, -low))


def test_the_same_values_give_the_same_picture_and_ink_follows_the_theme() -> None:
    def draw(axes) -> None:
        legend(axes, axes.plot([1, 2], [3, 4]) * 2, ["_hidden?", "$x^{"])

    first, again = (picture(draw, "alt", "caption") for _ in range(2))
    assert first == again
    svg = base64.b64decode(re.search(r"base64,(.+)", first.source).group(1)).decode()
    assert "prefers-color-scheme:dark" in svg
    assert svg.count("var(--ink)") > 10
    assert "http" not in re.sub(
        r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|<metadata>.*?</metadata>', "", svg, flags=re.DOTALL
    )


def test_curves_take_the_later_line_of_a_step_and_no_line_cut_short(world: pathlib.Path) -> None:
    found = loading.curves_of(RunFiles(str(world / "_second")).training_lines)
    assert list(found) == ["loss", "GAP", pages.HOSTILE]
    np.testing.assert_array_equal(found["loss"].steps, np.arange(1, 91))
    assert found["loss"].values[:6].tolist() == pytest.approx([902, 452, 302, 227, 7, 152])
    smoothed = found["loss"].smoothed()
    assert smoothed[0] == pytest.approx(np.mean(found["loss"].values[:3]))
    assert smoothed[40] == pytest.approx(np.mean(found["loss"].values[38:43]))
    assert loading.curves_of(RunFiles(str(world)).training_lines) == {}


def test_a_run_without_labels_and_curves_has_a_page(tmp_path: pathlib.Path) -> None:
    pages.make_run(tmp_path, 1, labelled=False)
    (tmp_path / "metrics.jsonl").unlink()
    assert cli.main(["report", str(tmp_path), "--resamples=10"]) == 0
    page = Reader((tmp_path / "eval/report.html").read_text())
    assert len(page.named("img")) == 2
    for name in ("GAP", "mAP", "Hit@1", "PERR"):
        place = page.words.index(name)
        assert page.words[place + 1 : place + 3] == ["—", "no example has a label"]
    assert any("no metrics.jsonl" in word for word in page.words)


@pytest.mark.heavy
def test_classes_of_ones_own_have_numbers_and_no_verticals(tmp_path: pathlib.Path) -> None:
    """Beside a run of YouTube-8M's classes each keeps its own names."""
    for name, num_classes in (("own", pages.CLASSES), ("published", 3862)):
        (tmp_path / name).mkdir()
        pages.make_run(tmp_path / name, 1, num_classes=num_classes)
        assert cli.main(["report", str(tmp_path / name), "--resamples=10"]) == 0
    runs = [f"{tmp_path}/own", f"{tmp_path}/published"]
    assert cli.main(["report", *runs, f"--output={tmp_path}/both.html", "--resamples=10"]) == 0
    pages_of = {name: tmp_path / f"{name}/eval/report.html" for name in ("own", "published")}
    own, published, both = (Reader(path.read_text()) for path in (*pages_of.values(), tmp_path / "both.html"))
    assert "class 2" in own.words
    assert "Vehicle" not in own.words
    assert "Vehicle" in published.words
    assert "class 2" not in published.words
    assert {"class 2", "Vehicle"} <= set(both.words)
    verticals = [any("by vertical" in image["alt"] for image in one.named("img")) for one in (own, published)]
    assert verticals == [False, True]


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        ([], 2, "no run is named"),
        (["nowhere"], 2, "there is no such folder"),
        (["{0}/_second", "{0}/_second/"], 2, "is named twice"),
        (["{0}"], 2, "it is not the folder of a run"),
        (["{0}/new"], 1, "yt8m eval --model={0}/new --data=FILES --run_once --report"),
        (["{0}/damaged"], 1, "is damaged"),
    ],
)
def test_what_cannot_be_says_what_to_do(world, capsys, words, status, part):
    (world / "damaged/eval").mkdir(parents=True, exist_ok=True)
    (world / "new").mkdir(exist_ok=True)
    (world / "new/config.json").write_text("{}")
    whole = (world / "_second/eval/videos.npz").read_bytes()
    (world / "damaged/eval/videos.npz").write_bytes(whole[: len(whole) // 2])
    assert cli.main(["report", *(word.format(world) for word in words)]) == status
    assert part.format(world) in capsys.readouterr().err


def test_a_missing_matplotlib_is_named(world, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "matplotlib" else found(name, *more)
    )
    assert cli.main(["report", f"{world}/_second"]) == 2
    assert "run pip install -e '.[reports]' in the checkout of yt8m" in capsys.readouterr().err


@pytest.mark.heavy
def test_the_candidates_of_a_choice_have_a_table(tmp_path: pathlib.Path) -> None:
    pages.make_run(tmp_path, 1)
    rows = [
        {"candidate": f"{name}, 30 steps", "map": value, "gap": 0.8, "hit_at_one": 0.75, "map_error": 0.01}
        | {"gap_error": 0.02, "seconds": 1.25, "is_chosen": name == "MoeModel"}
        for name, value in (("MoeModel", 0.9), ("LogisticModel", 0.7))
    ]
    config = TrainConfig()
    run_dir.write(str(tmp_path), replace(config, search=replace(config.search, trials=tuple(rows))))
    assert cli.main(["report", str(tmp_path), "--resamples=10"]) == 0
    words = Reader((tmp_path / "eval/report.html").read_text()).words
    place = words.index("MoeModel, 30 steps (chosen)")
    assert words[place : place + 5] == [
        "MoeModel, 30 steps (chosen)",
        "0.9000 ± 0.0196",
        "0.8000 ± 0.0392",
        "0.7500",
        "1.2",
    ]
    assert words[place + 5] == "LogisticModel, 30 steps"
