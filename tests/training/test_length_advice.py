"""A training of few steps on YouTube-8M's data says what to set; one whose length the user chose does not."""

from __future__ import annotations

import pathlib

import pytest
from reader_records import video_record, write_shard

from yt8m import train

FEATURES = ["--feature_names=mean_rgb", "--feature_sizes=16", "--num_classes=10"]


@pytest.fixture
def pattern(tmp_path: pathlib.Path) -> str:
    records = [video_record(id=[b"v%d" % row], labels=[row % 10], mean_rgb=[0.1] * 16) for row in range(640)]
    return str(write_shard(tmp_path / "train.tfrecord", records))


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        (("--num_epochs=2",), "640 videos, --batch_size=1024 and --num_epochs=2 give 2 steps"),
        (("--num_epochs=1", "--batch_size=3"), ""),
        *(
            pytest.param(*case, marks=pytest.mark.heavy)
            for case in (
                (("--num_epochs=2", "--num_gpu=2"), "try --batch_size=16 --num_epochs=10"),
                (("--num_epochs=12",), "try --batch_size=32 --num_epochs=12"),
                (("--num_epochs=2", "--max_steps=3"), ""),
            )
        ),
    ],
)
def test_fewer_than_200_steps(
    pattern: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], flags: tuple[str, ...], advice: str
) -> None:
    words = [f"--train_data_pattern={pattern}", f"--train_dir={tmp_path}/run", *FEATURES, *flags]
    assert train.main(words) == 0
    said = capfd.readouterr().err
    assert (advice or "learns little") in said if advice else "learns little" not in said
