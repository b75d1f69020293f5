"""Batch-prediction JSON lines and MediaPipe's protos in the formats that the other programs read."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import pytest
from reader_records import Parsed, frame_record, read_shard

from yt8m.command_line import cli
from yt8m.readers import YT8MFrameFeatureReader
from yt8m.records import prediction_files, shards

LINES = [
    {"video_id": "abcd", "class_indexes": [3, 1, 2], "predictions": [0.25, 0.5, 0.25]},
    {"video_id": 'e,"f', "class_indexes": [7], "predictions": [1e-7]},
]


def to_csv(folder: pathlib.Path, *more: str) -> int:
    flags = [f"--json_prediction_files_pattern={folder}/*.json", f"--csv_output_file={folder}/out.csv"]
    return cli.main(["json-to-csv", *flags, *more])


def test_json_lines(tmp_path: pathlib.Path) -> None:
    for at, line in enumerate(LINES):
        (tmp_path / f"{at}.json").write_text(json.dumps(line) + "\n")
    assert to_csv(tmp_path) == 0
    text = (tmp_path / "out.csv").read_text()
    assert text.splitlines()[:2] == ["VideoId,LabelConfidencePairs", "abcd,1 0.500000 2 0.250000 3 0.250000"]
    rows = list(prediction_files.read_predictions(str(tmp_path / "out.csv"), 10))
    assert [row.video_id for row in rows] == ["abcd", 'e,"f']
    assert to_csv(tmp_path, "--top_k=1") == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "abcd,1 0.500000"


def test_the_list_form_of_the_published_converter(tmp_path: pathlib.Path) -> None:
    """Its videos get the rows that they get one by one; the published converter drops all but the first."""
    for at, line in enumerate(LINES):
        (tmp_path / f"{at}.json").write_text(json.dumps({key: [value] for key, value in line.items()}) + "\n")
    assert to_csv(tmp_path) == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == [
        "abcd,1 0.500000 2 0.250000 3 0.250000",
        '"e,""f",7 1e-07',
    ]
    (tmp_path / "0.json").write_text(json.dumps({key: [line[key] for line in LINES] for key in LINES[0]}) + "\n")
    (tmp_path / "1.json").unlink()
    before = (tmp_path / "out.csv").read_bytes()
    assert to_csv(tmp_path) == 0
    assert (tmp_path / "out.csv").read_bytes() == before


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[1]",
        '{"video_id": "a"}',
        '{"video_id": 3, "class_indexes": [1], "predictions": [0.5]}',
        '{"video_id": "a", "class_indexes": [1, 2], "predictions": [0.5]}',
        '{"video_id": "a", "class_indexes": [1.5], "predictions": [0.5]}',
        '{"video_id": "a", "class_indexes": [1], "predictions": [NaN]}',
        '{"video_id": "a", "class_indexes": [-1], "predictions": [0.5]}',
        '{"video_id": "a", "class_indexes": 1, "predictions": [0.5]}',
        '{"video_id": "a", "class_indexes": [1, 1], "predictions": [0.5, 0.5]}',
        '{"video_id": "a", "class_indexes": [1], "predictions": [1' + 400 * "0" + "]}",
        '{"video_id": "", "class_indexes": [1], "predictions": [0.5]}',
        '{"video_id": "\\ud800", "class_indexes": [1], "predictions": [0.5]}',
        '{"video_id": ["a"], "class_indexes": [1], "predictions": [0.5]}',
        '{"video_id": ["a", "b"], "class_indexes": [[1]], "predictions": [[0.5]]}',
        '{"video_id": ["a", "a"], "class_indexes": [[1], [2]], "predictions": [[0.5], [0.5]]}',
        '{"video_id": ["a"], "class_indexes": [[1]], "predictions": 0.5}',
        100_000 * "[",
        json.dumps(LINES[0]),
    ],
)
def test_a_bad_line_is_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], bad: str) -> None:
    (tmp_path / "0.json").write_text(json.dumps(LINES[0]) + "\n" + bad + "\n")
    assert to_csv(tmp_path) == 1
    assert "0.json, line 2: " in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_files_without_a_line_are_no_predictions(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0.json").write_text("")
    assert to_csv(tmp_path) == 1
    assert "holds no prediction" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_missing_flags_and_files(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert to_csv(tmp_path) == 2
    assert cli.main(["json-to-csv"]) == 2
    assert cli.main(["from-mediapipe"]) == 2
    assert cli.main(["from-mediapipe", f"--input_pattern={tmp_path}/*.pb", "--output_file=o"]) == 2
    capsys.readouterr()


def proto(name: bytes, rgb: np.ndarray, audio: np.ndarray, **context: object) -> bytes:
    lists = {"RGB/feature/floats": rgb.tolist(), "AUDIO/feature/floats": audio.tolist()}
    return frame_record({"id": [name], **context}, lists)


def from_mediapipe(folder: pathlib.Path, *more: str) -> int:
    flags = [f"--input_pattern={folder}/*.pb", f"--output_file={folder}/out.tfrecord"]
    return cli.main(["from-mediapipe", *flags, *more])


def test_mediapipe_protos_read_as_frame_records(tmp_path: pathlib.Path) -> None:
    draw = np.random.default_rng(0)
    rgb, audio = draw.uniform(-2, 2, (7, 6)), draw.uniform(-2.5, 2.5, (8, 4))
    (tmp_path / "one.pb").write_bytes(proto(b"vid1", rgb, audio, labels=[3, 5]))
    lists = {"RGB/feature/floats": rgb[:2].tolist(), "AUDIO/feature/floats": audio[:2].tolist()}
    (tmp_path / "two.pb").write_bytes(frame_record({}, lists))
    assert from_mediapipe(tmp_path) == 0
    payloads = read_shard(tmp_path / "out.tfrecord")
    parsed = Parsed(YT8MFrameFeatureReader(9, (6, 4)))(payloads)
    assert parsed["video_ids"].tolist() == [b"vid1", b"two"]
    assert parsed["num_frames"].tolist() == [7, 2]
    assert np.flatnonzero(parsed["labels"][0]).tolist() == [3, 5]
    whole = np.concatenate([rgb, np.clip(audio[:7], -2, 2)], axis=1)
    # Half a step of the quantisation, and at the ends of the range what the outermost middles leave.
    assert np.abs(parsed["video_matrix"][0, :7] - whole).max() < 4 / 255 / 2 + 1e-6


def test_each_video_has_an_id_of_its_own(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without one in the proto it is the file's name, all of it but the ending."""
    content = frame_record({}, {"RGB/feature/floats": [[1.0]]})
    for name in ("a.v1.pb", "a.v2.pb"):
        (tmp_path / name).write_bytes(content)
    assert from_mediapipe(tmp_path) == 0
    payloads = shards.read_shard(str(tmp_path / "out.tfrecord"))
    assert [shards.parse(one).id() for one in payloads] == [b"a.v1", b"a.v2"]
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.v1.pb").write_bytes(content)
    flags = [f"--input_pattern={tmp_path}/*.pb,{tmp_path}/more/*.pb", f"--output_file={tmp_path}/again"]
    assert cli.main(["from-mediapipe", *flags]) == 1
    assert "both hold the video a.v1" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def test_the_name_of_a_file_may_hold_any_bytes(tmp_path: pathlib.Path) -> None:
    name = b"a\nb\xff"
    with open(os.path.join(os.fsencode(tmp_path), name + b".pb"), "wb") as file:
        file.write(frame_record({}, {"RGB/feature/floats": [[1.0]]}))
    assert from_mediapipe(tmp_path) == 0
    payloads = shards.read_shard(str(tmp_path / "out.tfrecord"))
    assert [shards.parse(one).id() for one in payloads] == [name]


def test_floats_are_kept_where_asked(tmp_path: pathlib.Path) -> None:
    rgb, audio = np.random.default_rng(1).normal(size=(5, 6)), np.random.default_rng(2).normal(size=(5, 4))
    (tmp_path / "one.pb").write_bytes(proto(b"vid1", rgb, audio))
    assert from_mediapipe(tmp_path, "--keep_floats") == 0
    reader = YT8MFrameFeatureReader(9, (6, 4), ("RGB/feature/floats", "AUDIO/feature/floats"))
    parsed = Parsed(reader)(read_shard(tmp_path / "out.tfrecord"))
    expected = np.concatenate([rgb, audio], axis=1).astype(np.float32)
    np.testing.assert_array_equal(parsed["video_matrix"][0, :5], expected)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xff", "not a serialized SequenceExample"),
        (frame_record({"id": [b"a"]}, {"rgb": [[1.0]]}), "holds rgb; expected RGB/feature/floats or"),
        (frame_record({}, {"RGB/feature/floats": [[1.0], [1.0, 2.0]]}), "the same number of floats in each frame"),
        (
            frame_record({}, {"RGB/feature/floats": [[float("nan")]]}),
            "frame 0, value 0 is nan; no value may be NaN, infinite or beyond 1e+16",
        ),
        (frame_record({}, {"RGB/feature/floats": [[1.0]], "AUDIO/feature/floats": []}), "has no frame"),
        (
            frame_record({"labels": [float("nan")]}, {"RGB/feature/floats": [[1.0]]}),
            "labels holds [nan]; expected whole",
        ),
        (frame_record({"labels": [b"cat"]}, {"RGB/feature/floats": [[1.0]]}), "labels holds [b'cat']; expected whole"),
        (frame_record({"labels": [2, -1]}, {"RGB/feature/floats": [[1.0]]}), "labels holds [2, -1]; expected whole"),
    ],
    ids=[
        "no proto",
        "other name",
        "unequal frames",
        "nan",
        "no frame",
        "nan label",
        "name",
        "-1",
    ],  # bytes of a proto have no fixed order
)
def test_a_bad_proto_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    (tmp_path / "bad.pb").write_bytes(content)
    assert from_mediapipe(tmp_path) == 1
    said = capsys.readouterr().err
    assert "bad.pb" in said
    assert words in said
    assert not (tmp_path / "out.tfrecord").exists()
