"""The power fails while `yt8m bulk` writes: no name promises more than the disk holds, and a job can go on."""

from __future__ import annotations

import fnmatch
import pathlib

import made_videos
import pytest
from bulk_data import FRAME, VIDEO, frame_shards, trained, video_shards
from bulk_jobs import finish, start
from faults.power_cuts import OUTCOMES, Recording, build, promises, record, write_files, yt8m_words
from faults.test_power_cut import check
from small_run import ROOT

COMMANDS = {
    "infer": ["infer", "--model={video_run}", "--input={video}", "--output={folder}/scores", "--batch_size=4"],
    "rank": ["rank", "--model={frame_run}", "--input={frame}", "--output={folder}/ranking", "--batch_size=16"],
    "eval": ["eval", "--model={video_run}", "--input={video}", "--output={folder}/figures", "--batch_size=4"],
    "extract": [
        *("extract", "--videos={clips}", "--labels=folder", "--out={folder}/extracted", "--shards=2"),
        "--extractors=own_extractors:Colours",
    ],
}
# Patterns of the files that the workers write, and of the file that the job writes last.
WRITTEN = {
    "infer": ["scores/part0.csv", "scores/part2.csv", "scores/parts/done*", "scores/predictions.json"],
    "rank": ["ranking/parts/class*", "ranking/segments.csv"],
    "eval": ["figures/parts/figures.json", "figures/report.json"],
    "extract": ["extracted/*.tfrecord", "extracted/*summary.json"],
}
pytestmark = [pytest.mark.heavy]


@pytest.fixture(scope="module", autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two runs, their shards, and a folder of videos."""
    video, frame, clips = (tmp_path_factory.mktemp(name) for name in ("video", "frame", "clips"))
    shards = {"video": video_shards(video, (5, 9, 2)), "frame": frame_shards(frame, (3, 4))}
    made_videos.write_kinds(clips, 6)
    return shards | {
        "clips": str(clips),
        "video_run": trained(video, shards["video"], "MoeModel", *VIDEO),
        "frame_run": trained(frame, shards["frame"], "FrameLevelLogisticModel", *FRAME),
    }


@pytest.fixture(scope="module")
def jobs(places: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Each job is recorded with its worker processes."""
    folder = tmp_path_factory.mktemp("jobs")
    commands = {
        name: ["bulk", *(word.format(folder=folder, **places) for word in words)] for name, words in COMMANDS.items()
    }
    library = build(tmp_path_factory.mktemp("recorder"))
    return record(library, folder, yt8m_words(commands), PYTHONPATH=f"{ROOT}:{ROOT / 'tests/support'}")


@pytest.mark.promise("C11")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_jobs_write(jobs: Recording, command: str) -> None:
    for pattern in WRITTEN[command]:
        assert fnmatch.filter(promises(jobs).files, pattern), pattern
    check(jobs, command, 200)


@pytest.mark.promise("C11")
def test_predictions_go_on_after_a_power_cut(jobs: Recording, places: dict[str, str], tmp_path: pathlib.Path) -> None:
    """What is on the disk is not predicted again, and the files are the same in the end."""
    whole = {path: content for path, (_, content) in jobs.after.items() if path.startswith("scores/") and content}
    for point, disk in jobs.replay(jobs.points(2, "infer")):
        files = disk.after_power_cut(OUTCOMES[point % len(OUTCOMES)])
        begun = {path: content for path, content in files.items() if path.startswith("scores/")}
        write_files(tmp_path / str(point), begun)
        output = tmp_path / str(point) / "scores"
        finish(start("infer", places["video_run"], places["video"], output, "--batch_size=4", "--resume"))
        assert {f"scores/{path.name}": path.read_bytes() for path in output.iterdir()} == whole
