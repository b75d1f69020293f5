"""A training of few steps on YouTube-8M's data says what to set; one whose length the user chose does not."""

from __future__ import annotations

import pathlib

import pytest
from reader_records import video_record, write_shard

from yt8m import deploy, train
from yt8m.config.data_config import DataConfig
from yt8m.records.opened_data import open_data
from yt8m.training import length_advice

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
        *(
            pytest.param(*case, marks=pytest.mark.heavy)
            for case in (
                (("--num_epochs=1", "--batch_size=3"), ""),
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
    words = [
        f"--train_data_pattern={pattern}",
        f"--train_dir={tmp_path}/run",
        *FEATURES,
        *flags,
        "--export_model_steps=none",
    ]
    assert train.main(words) == 0
    said = capfd.readouterr().err
    assert (advice or "learns little") in said if advice else "learns little" not in said


@pytest.mark.parametrize(("gpus", "batch"), [(0, 16), (1, 32), (4, 16)])
def test_the_advice_counts_the_towers_that_there_will_be(
    pattern: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, gpus: int, batch: int
) -> None:
    monkeypatch.setattr(deploy, "count_gpus", lambda: gpus)
    data = DataConfig(data_pattern=pattern, num_epochs=2, num_classes=10)
    with caplog.at_level("INFO"):
        length_advice.log(data, 2, open_data(pattern), None, False)
    steps = 1 if gpus != 1 else 2
    assert f"give {steps} steps" in caplog.text
    assert f"try --batch_size={batch} " in caplog.text
