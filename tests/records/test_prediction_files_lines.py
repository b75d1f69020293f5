"""Lines of prediction files and of submissions: what is read, and what is refused with file, line and reason."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from yt8m.errors import RunError
from yt8m.records import prediction_files
from yt8m.records.prediction_files import TextLine, read_lines, read_predictions, read_segments

HEADER = b"VideoId,LabelConfidencePairs\n"


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "p.csv"


def refusal(function, *arguments) -> str:
    with pytest.raises(RunError) as found:
        list(function(*arguments))
    return str(found.value)


def test_lines_are_numbered_and_empty_ones_passed_over(file: pathlib.Path) -> None:
    file.write_bytes(b"a\n\nb c\n")
    assert list(read_lines(str(file))) == [TextLine(str(file), 1, b"a"), TextLine(str(file), 3, b"b c")]


def test_line_ends_and_the_byte_order_mark_of_windows_are_no_part_of_lines(file: pathlib.Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfa,1 0.5\r\n\r\nb c\r\n")
    assert [(line.number, line.text) for line in read_lines(str(file))] == [(1, b"a,1 0.5"), (3, b"b c")]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b"\x1f\x8b\x08\n",
            "line 1: the file holds no lines of predictions: it is compressed by gzip; unpack it (gunzip).",
        ),
        (
            b"a\nb",
            "line 2: the last line has no line end, so the file may be cut short; write it again, or add the line end "
            "if the line is complete.",
        ),
    ],
)
def test_files_that_are_no_plain_lines_are_refused(file: pathlib.Path, content: bytes, told: str) -> None:
    file.write_bytes(content)
    assert refusal(read_lines, str(file)) == f"{file}, {told}"


def test_only_the_first_line_can_be_gzip(file: pathlib.Path) -> None:
    file.write_bytes(b"a\n\x1f\x8b\n")
    assert [line.text for line in read_lines(str(file))] == [b"a", b"\x1f\x8b"]


def test_whole_numbers() -> None:
    given = {b"0": 0, b"7": 7, b"123456": 123456, b"9" * 18: 10**18 - 1, b"9" * 19: -1, b"": -1, b"-1": -1, b"x": -1}
    assert {text: prediction_files.whole_number(text) for text in given} == given


def test_a_quotation_is_short_and_printable() -> None:
    assert prediction_files.shown(b"abc") == "'abc'"
    assert prediction_files.shown(b"x" * 40) == repr("x" * 40)
    assert prediction_files.shown(b"x" * 41) == repr("x" * 40 + "...")
    assert prediction_files.shown(b"\xff\n") == repr("\\xff\n")


@pytest.mark.parametrize("header", [b"", HEADER])
def test_rows_are_read_with_or_without_a_header(file: pathlib.Path, header: bytes) -> None:
    file.write_bytes(header + b'a,9 0.5 0 1e-3\n"b,""c""",\n')
    first, second = read_predictions(str(file), 10)
    number = 2 if header else 1
    assert (first.where, first.video_id) == (f"{file}, line {number}", "a")
    assert (first.classes.dtype, first.scores.dtype) == (np.int32, np.float32)
    assert first.classes.tolist() == [9, 0]
    np.testing.assert_allclose(first.scores, [0.5, 1e-3])
    assert (second.where, second.video_id, len(second.classes)) == (f"{file}, line {number + 1}", 'b,"c"', 0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"Class,Segments\n", "line 1: the file has ranked segments; expected predictions for videos (VideoId,LabelCo"),
        (
            b"a,1 0.5\nVideoId,LabelConfidencePairs\n",
            "line 2: 'LabelConfidencePairs': expected alternating class numbers",
        ),
        (b"a 1 0.5\n", "line 1: 'a 1 0.5': expected `video,class score"),
        (b"a,1 0.5\na,2 0.5\n", "line 2: video 'a' is in an earlier line already"),
        (b"a,x 0.5\n", "line 1: 'x 0.5': expected alternating class numbers and scores."),
        (b"a,1 y\n", "line 1: '1 y': expected alternating class numbers"),
        (b"a,1.5 0.5\n", "line 1: '1.5 0.5': expected alternating class numbers"),
        (b"a,99999999999999999999 0.5\n", "line 1: '99999999999999999999 0.5': expected alternating class numbers"),
        (b"a,1 0.5 2\n", "line 1: class 2 has no score; expected a score after each class."),
        (b"a,1 nan\n", "line 1: the score of class 1 is not finite; expected a finite score for each class."),
        (b"a,2 0.5 1 inf\n", "line 1: the score of class 1 is not finite"),
        (b"a,3 0.5 10 0.5\n", "line 1: classes 3 to 10; expected 0 to 9 (--num_classes)."),
        (b"a,-1 0.5 9 0.5\n", "line 1: classes -1 to 9; expected 0 to 9 (--num_classes)."),
        (b"a,1 0.5 2 0.5 1 0.25\n", "line 1: a class is repeated; give each class once per video."),
    ],
)
def test_rows_that_are_refused(file: pathlib.Path, content: bytes, told: str) -> None:
    file.write_bytes(content)
    assert refusal(read_predictions, str(file), 10).startswith(f"{file}, {told}")


@pytest.mark.parametrize("content", [b"", HEADER, b"\n"])
def test_a_file_without_a_video_is_refused(file: pathlib.Path, content: bytes) -> None:
    file.write_bytes(content)
    assert refusal(read_predictions, str(file), 10).startswith(f"{file} holds no prediction; expected lines")


def test_a_line_is_written_as_it_is_read(file: pathlib.Path) -> None:
    assert prediction_files.prediction_line('a,"b', [(3, 0.5), (1.0, 1e-9)]) == '"a,""b",3 0.5 1 1e-09\n'
    assert prediction_files.prediction_line("a", []) == "a,\n"


@pytest.mark.parametrize("header", [b"", b"Class,Segments\n", b" Class ,x\n"])
def test_submissions_are_read_with_or_without_a_header(file: pathlib.Path, header: bytes) -> None:
    file.write_bytes(header + b"7,a:0 b:c:15 a:5 \n\n3,\n")
    first, second = read_segments(str(file), [3, 7])
    assert (first.number, first.ranks) == (7, {b"a:0": 0, b"b:c:15": 1, b"a:5": 2})
    assert (second.number, second.ranks) == (3, {})


WAY = "; expected video:start with a start of 0, 5, 10, ... seconds, and one space between two segments."


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"VideoId,x\n", "line 1: the file has predictions for videos; expected ranked segments (Class,Segments)."),
        (b"3,\nClass,Segments\n", "line 2: 'Class' is not one of the 2 classes for which segments are rated"),
        (b"3,\nVideoId,x\n", "line 2: 'VideoId' is not one of the 2 classes"),
        (b"4,a:0\n", "line 1: '4' is not one of the 2 classes"),
        (b"3\n", "line 1: there is no comma; expected `class,video:start"),
        (b"3,a:0\n7,a:0\n3,b:0\n", "line 3: class 3 is in line 1 already; give each class one line."),
        (b"3,a:0 b:5 a:0\n", "line 1: the segment 'a:0' is repeated; give each segment once per class."),
        (b"3,a:0 b:5  c:5\n", f"line 1: there are two spaces in a row{WAY}"),
        *((b"3,x:0 " + bad + b" y:5\n", f"line 1: {prediction_files.shown(bad)} is not a segment{WAY}")
          for bad in (b"a", b":5", b"a:", b"a:05", b"a:1x", b"a:/5", b"a:1234567", b"a:7", b"a,b:5", b"a\tb:5")),
        (b'3,"a":5\n', f"line 1: '\"a\":5' is not a segment{WAY}"),
    ],
)  # fmt: skip
def test_submissions_that_are_refused(file: pathlib.Path, content: bytes, told: str) -> None:
    file.write_bytes(content)
    assert refusal(read_segments, str(file), [3, 7]).startswith(f"{file}, {told}")


def test_starts_need_be_multiples_of_five_only_if_asked(file: pathlib.Path) -> None:
    file.write_bytes(b"3,a:7 a:0 a:123456\n")
    (line,) = read_segments(str(file), [3], any_start=True)
    assert line.ranks == {b"a:7": 0, b"a:0": 1, b"a:123456": 2}
    assert "'a:7' is not a segment" in refusal(read_segments, str(file), [3])
    file.write_bytes(b"3,a:1234567\n")
    assert "from 0 to 999999," in refusal(read_segments, str(file), [3], True)


@pytest.mark.parametrize("content", [b"", b"Class,Segments\n"])
def test_a_submission_without_a_class_is_refused(file: pathlib.Path, content: bytes) -> None:
    file.write_bytes(content)
    assert refusal(read_segments, str(file), [3]).startswith(f"{file} lists no class; expected lines")
