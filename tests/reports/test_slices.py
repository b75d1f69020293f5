"""Figures of parts of the videos and the classes: against scikit-learn and loops over the parts."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
from reports import report_runs
from sklearn import metrics

from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import TrainConfig
from yt8m.eval_util.resampling import Interval, interval
from yt8m.eval_util.videos import Videos, hashes
from yt8m.records import manifest, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import slices
from yt8m.reports.loading import Run, interval_if_certain, load
from yt8m.reports.report_writer import class_counts
from yt8m.runs.opened_run import RunFiles

CLASSES = report_runs.CLASSES
VERTICALS = ("Animals", "Plants", "", "Animals") * 3
COUNTS = np.array([5, 900, 20, 1, 1, 70, 60, 50, 40, 30, 2, 3])
NAMES = Vocabulary(tuple(f"name {index}" for index in range(CLASSES)), COUNTS, VERTICALS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("slices")
    report_runs.make_run(folder, 1, num_classes=CLASSES)
    (found,) = load([str(folder)], 40, 0)
    return found


@pytest.fixture(scope="module")
def found(run: Run) -> dict[str, slices.Division]:
    return {one.title: one for one in slices.divisions(run, NAMES, class_counts(run, NAMES))}


def aps_and_labels() -> tuple[np.ndarray, np.ndarray]:
    scores, labels = report_runs.data(1)
    known = labels.any(0)
    aps = np.full(CLASSES, np.nan)
    aps[known] = metrics.average_precision_score(labels[:, known], scores[:, known], average=None)
    return aps, labels


def check_classes(run: Run, part: slices.Part, classes: list[int]) -> None:
    aps, labels = aps_and_labels()
    having = [c for c in classes if labels[:, c].any()]
    assert part.figure == pytest.approx(aps[having].mean())
    assert (part.classes, part.videos) == (len(having), labels[:, having].any(1).sum())
    means = np.array([np.nanmean(row[having]) for row in run.class_aps])
    excess = np.nanmean(run.excess[having])
    expected = interval(aps[having].mean() - excess, means) if np.median(labels.sum(0)[having]) >= 10 else None
    assert part.bounds == (pytest.approx(expected) if expected else None)


def test_verticals_are_means_of_their_classes_with_intervals(run, found):
    parts = {part.name: part for part in found["vertical"].parts}
    assert set(parts) == {"Animals", "Plants"}
    for name, part in parts.items():
        check_classes(run, part, [c for c in range(CLASSES) if VERTICALS[c] == name])
    videos = [part.videos for part in found["vertical"].parts]
    assert videos == sorted(videos, reverse=True)


def test_the_intervals_of_videos_depend_on_the_seed_and_the_number_of_resamples(run, found):
    counts = class_counts(run, NAMES)
    for other in (run._replace(seed=1), run._replace(class_aps=run.class_aps[:20])):
        parts = {one.title: one.parts for one in slices.divisions(other, NAMES, counts)}["number of labels"]
        former = found["number of labels"].parts
        assert [part.figure for part in parts] == [part.figure for part in former]
        assert [part.bounds for part in parts] != [part.bounds for part in former]


def test_thirds_are_by_training_videos(run, found):
    order = sorted(range(CLASSES), key=lambda c: (-COUNTS[c], c))
    ends = {"head": "50 to 900", "middle": "5 to 40", "tail": "1 to 3"}
    titles = [f"{name} ({between} videos, by the vocabulary)" for name, between in ends.items()]
    parts = found["frequency of the class"].parts
    assert [part.name for part in parts] == titles
    for index, part in enumerate(parts):
        check_classes(run, part, order[4 * index : 4 * index + 4])


@pytest.mark.parametrize(
    ("title", "value"), [("number of labels", "num_labels"), ("length of the video", "num_frames")]
)
def test_parts_of_the_videos_have_the_mean_perr_of_their_videos(run, found, title, value):
    scores, labels = report_runs.data(1)
    perr = {}
    for row in range(len(scores)):
        count = int(labels[row].sum())
        perr[b"v%d" % row] = labels[row][np.argsort(-scores[row])[:count]].mean() if count else 0.0
    videos = run.samples.videos
    of_video = np.array([perr.get(one, perr[b"v%d" % FIRST]) for one in videos.ids])
    draw, total = np.random.default_rng(0), 0
    for part in found[title].parts:
        ends = [int(word.replace(",", "")) for word in part.name.split() if word[0].isdigit()]
        ends = [10, 99] if "more" in part.name else ends
        is_within = (getattr(videos, value) >= ends[0]) & (getattr(videos, value) <= ends[-1])
        rows = np.flatnonzero(is_within & (videos.num_labels > 0))
        assert part.videos == len(rows)
        assert part.figure == pytest.approx(of_video[rows].mean())
        means = np.array([of_video[rows][draw.integers(len(rows), size=len(rows))].mean() for _ in run.class_aps])
        expected = interval(of_video[rows].mean(), means)
        if len(rows) < 10 or expected.low == expected.high:
            assert part.bounds is None
        else:
            assert part.bounds == pytest.approx(expected)
        total += part.videos
    assert 0 < total == np.count_nonzero(videos.num_labels) < len(videos)


def test_too_few_videos_and_equal_ones_have_no_interval():
    assert interval_if_certain(Interval(0.2, 0.4), 10) == (0.2, 0.4)
    assert interval_if_certain(Interval(0.2, 0.4), 9) is None
    assert interval_if_certain(Interval(1.0, 1.0), 500) is None


# The first video by its hash has a hostile name in the runs made by hand.
FIRST = int(np.argmin(hashes([b"v%d" % number for number in range(report_runs.VIDEOS)])))


def of_lengths(videos: Videos, counts: list[int]) -> Videos:
    """As many videos as there are counts, with these numbers of frames."""
    rows = np.resize(np.flatnonzero(videos.num_labels), len(counts))
    return dataclasses.replace(videos.take(rows), num_frames=np.array(counts, np.int32))


def test_lengths_are_cut_into_four_parts_of_about_the_same_size(run):
    counts = np.random.default_rng(0).integers(1, 301, 4000)
    parts = slices.by_length(of_lengths(run.samples.videos, counts))
    assert len(parts) == 4
    assert sorted(np.concatenate([rows for _, rows in parts]).tolist()) == list(range(4000))
    assert all(900 < len(rows) < 1100 for _, rows in parts)
    assert [name for name, _ in slices.by_length(of_lengths(run.samples.videos, [7, 7, 1]))] == ["1 frame", "7 frames"]
    unlabelled = np.flatnonzero(run.samples.videos.num_labels == 0)
    assert slices.by_length(run.samples.videos.take(unlabelled)) == []


def test_what_is_not_known_or_all_the_same_is_left_out(run):
    nothing = slices.ClassCounts(np.zeros(CLASSES, np.int64))
    titles = [one.title for one in slices.divisions(run, vocabulary.of_names(NAMES.names), nothing)]
    assert titles == ["number of labels", "length of the video"]
    assert slices.by_frequency(nothing) == []
    assert slices.by_labels(np.zeros(0, np.int64)) == []


def write_training(folder: pathlib.Path, positives: list[int]) -> None:
    """The config of a training on a shard whose manifest has these counts."""
    shard = folder / "data/train0.tfrecord"
    shard.parent.mkdir(exist_ok=True)
    written = manifest.write_shard(str(shard), [b"x"])
    data = DataFormat("video", (FeatureFormat("clip", 4),), num_classes=len(positives), positives=tuple(positives))
    manifest.write(str(shard.parent / manifest.NAME), {str(shard): written}, data)
    run_dir.write(str(folder), TrainConfig(data=DataConfig(data_pattern=f"{shard.parent}/train*")))


def test_counts_come_from_the_vocabulary_or_else_from_the_manifest_of_the_training(run):
    def counts(names: Vocabulary) -> tuple[list[int], str]:
        found = class_counts(run._replace(training=RunFiles(run.folder)), names)  # a run reads each file once
        return found.counts.tolist(), found.unit

    assert counts(NAMES) == (COUNTS.tolist(), "videos, by the vocabulary")
    unnamed = vocabulary.of_names(NAMES.names)
    assert counts(unnamed) == ([0] * CLASSES, "training videos")  # the folder has no config
    folder = pathlib.Path(run.folder)
    write_training(folder, COUNTS.tolist())
    assert counts(unnamed) == (COUNTS.tolist(), "training videos")
    write_training(folder, COUNTS.tolist()[:-1])
    assert counts(unnamed) == ([0] * CLASSES, "training videos")
