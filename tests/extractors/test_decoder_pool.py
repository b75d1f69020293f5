from __future__ import annotations

import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, BinaryIO

import cases
import made_videos
import numpy as np
import pytest
from docs.command_blocks import ROOT

from yt8m.extractors import decoder_pool
from yt8m.extractors.base import Scaling, Sound
from yt8m.extractors.decoder_messages import UnusableDecoderError
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import DecodeError, Message, Request, decode

GENEROUS = Limits(seconds=200.0)


def plain(message: Message) -> Any:
    return message.kind, message.row, None if message.values is None else message.values.tobytes()


def outcome(decoding: Any) -> Any:
    try:
        return [
            (one.kind, one.row, None if one.values is None else one.values.tobytes()) for one in decoding.messages()
        ]
    except DecodeError as error:
        return str(error)


def request(path: Any, **more: Any) -> Request:
    return Request(str(path), pictures=(None, Scaling(8)), sounds=(Sound(16000, 15600, 16000),), **more)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("videos")
    made = [
        made_videos.write(folder / f"{number}.mp4", made_videos.shape("disc", seed=number), made_videos.tone("disc"))
        for number in range(3)
    ]
    (folder / "bad.mp4").write_bytes(b"nothing of a video")
    return [made[0], str(folder / "bad.mp4"), *made[1:]]


@pytest.mark.parametrize("jobs", cases.all_of([3], heavy=[1]))
def test_videos_in_order_as_if_decoded_here(videos: list[str], jobs: int) -> None:
    with DecoderPool(jobs, GENEROUS) as pool:
        found = [outcome(decoding) for decoding in pool.decode(request(path) for path in videos)]
    assert "it is damaged" in found[1]
    for place in (0, 2, 3):
        assert found[place] == list(map(plain, decode(request(videos[place]))))


@pytest.mark.promise("X7")
def test_a_child_that_dies_ends_its_video_only(videos: list[str]) -> None:
    with DecoderPool(1, GENEROUS) as pool:
        requests = iter([request(videos[0]), request(videos[2]), request(videos[3])])
        found = []
        for number, decoding in enumerate(pool.decode(requests)):
            if number == 1:
                (child,) = pool._children
                assert child._process is not None
                os.kill(child._process.pid, signal.SIGSTOP)
                os.kill(child._process.pid, signal.SIGKILL)
            found.append(outcome(decoding))
    assert isinstance(found[0], list)
    assert isinstance(found[2], list)
    # it may have answered already before it was killed
    assert isinstance(found[1], list) or "(signal 9)" in found[1]


@pytest.mark.promise("X7")
def test_limits_on_time_and_memory(videos: list[str], tmp_path: pathlib.Path) -> None:
    with DecoderPool(1, Limits(seconds=0.001)) as pool:
        (slow,) = [outcome(one) for one in pool.decode([request(videos[0])])]
    assert slow == "decoding takes longer than 0.001 seconds"
    with DecoderPool(1, GENEROUS) as pool:
        (after,) = [outcome(one) for one in pool.decode([request(tmp_path / "no")])]
    assert "no" in after  # there is no such file
    with DecoderPool(1, Limits(200.0, megabytes=150)) as pool:
        (found,) = [outcome(one) for one in pool.decode([request(videos[0])])]
    assert "memory" in found or "150 MB" in found


def test_videos_that_nobody_takes_leave_no_process(videos: list[str]) -> None:
    with DecoderPool(2, GENEROUS) as pool:
        for _ in pool.decode(request(path) for path in videos * 3):
            break


def test_requests_survive_json() -> None:
    given = request("a.mp4", start=1.5, end=2.5, most=7)
    assert Request.from_json(json.loads(json.dumps(given))) == given


@pytest.fixture
def living_child() -> Iterator[tuple[Any, BinaryIO]]:
    """A child that never ends by itself, and the pipe from which its answers are read."""
    child = decoder_pool._Child(GENEROUS)
    answers, from_child = os.pipe()
    os.set_blocking(answers, False)
    child._process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    child._answers = Connection(answers, writable=False)
    with open(from_child, "wb", buffering=0) as sending:
        yield child, sending
    child.end()


@pytest.mark.parametrize("answer", [b"no JSON", b"[]", b'{"kind": "picture"}'])
def test_a_living_child_that_sends_no_message_is_given_up(living_child: tuple[Any, BinaryIO], answer: bytes) -> None:
    child, sending = living_child
    decoder_pool._send_bytes(sending, answer)
    with pytest.raises(DecodeError, match=r"decoder process.*no message"):
        child._receive(time.monotonic() + 60, lambda: False)


def test_a_living_child_that_closes_its_pipe_is_given_up(
    living_child: tuple[Any, BinaryIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    child, sending = living_child
    monkeypatch.setattr(decoder_pool, "_EXIT_SECONDS", 0.1)
    sending.close()
    with pytest.raises(DecodeError, match="stop sending messages"):
        child._receive(time.monotonic() + 60, lambda: False)


_HEAD = json.dumps({"kind": "picture", "form_index": 0, "row": 0, "shape": [2, 2, 3], "details": None}).encode()


@pytest.mark.parametrize("sent", cases.all_of([b"", _HEAD], heavy=[b"\0" * 4, _HEAD[:9], _HEAD + b"\0" * 11]))
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_living_child_that_stops_in_the_middle_of_a_message_is_given_up(
    living_child: tuple[Any, BinaryIO], sent: bytes, is_cancelled: bool
) -> None:
    child, sending = living_child
    if sent.startswith(_HEAD[:1]):
        sending.write(len(_HEAD).to_bytes(8))
    sending.write(sent[: len(_HEAD)])
    if sent[len(_HEAD) :]:
        sending.write((12).to_bytes(8) + sent[len(_HEAD) :])
    seconds, told = (3600.0, "was cancelled") if is_cancelled else (0.1, "takes longer than")
    with pytest.raises(DecodeError, match=told):
        child._receive(time.monotonic() + seconds, lambda: is_cancelled)


def test_a_message_that_comes_in_pieces_is_received(living_child: tuple[Any, BinaryIO]) -> None:
    child, sending = living_child
    values = np.arange(200 * 300 * 3, dtype=np.uint8).reshape(200, 300, 3)
    message = Message("picture", 1, 2, values, {"seconds": 1.5})
    pieces = io.BytesIO()
    decoder_pool._send_message(pieces, message)

    def send() -> None:
        for start in range(0, len(pieces.getvalue()), 999):
            sending.write(pieces.getvalue()[start : start + 999])

    thread = threading.Thread(target=send)
    thread.start()
    received = child._receive(time.monotonic() + 60, lambda: False)
    thread.join()
    assert received.values.tobytes() == values.tobytes()
    assert received._replace(values=None) == message._replace(values=None)
    assert received.values.shape == values.shape


def test_a_living_child_that_sends_too_much_is_given_up(
    living_child: tuple[Any, BinaryIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    child, sending = living_child
    monkeypatch.setattr(decoder_pool, "_EXIT_SECONDS", 0.1)
    sending.write((1 << 40).to_bytes(8))
    with pytest.raises(DecodeError, match="stop sending messages"):
        child._receive(time.monotonic() + 60, lambda: False)


def test_an_error_that_every_video_has_ends_the_command_with_the_childs_words(
    tmp_path: pathlib.Path, videos: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "av.py").write_text(made_videos.FAILING_AV)
    monkeypatch.syspath_prepend(str(tmp_path))
    with DecoderPool(1, GENEROUS) as pool:
        decodings = pool.decode(request(path) for path in videos)
        first = next(decodings)
        with pytest.raises(UnusableDecoderError, match=r"no video.*decoded.*metadata_errors'"):
            list(first.messages())


def test_an_error_of_one_video_is_that_videos(videos: list[str]) -> None:
    """A request that no program makes stands for a video that confuses a library."""
    confusing = Request(videos[0], pictures=("no scaling",))  # type: ignore[arg-type]
    with DecoderPool(1, GENEROUS) as pool:
        found = [outcome(decoding) for decoding in pool.decode([confusing, request(videos[2])])]
    assert "the decoder process failed: " in found[0]
    assert found[1][-1][0] == "end"


_UNDER_ULIMIT = """
import json, sys
from yt8m.extractors.base import Scaling
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import Request
if __name__ == "__main__":
    with DecoderPool(1, Limits(seconds=200.0, megabytes=4096)) as pool:
        for decoding in pool.decode([Request(sys.argv[1], pictures=(Scaling(8),))]):
            print([message.kind for message in decoding.messages()][-1])
"""


@pytest.mark.heavy
@pytest.mark.parametrize(("megabytes", "succeeds"), [(2000, True), (150, False)])
def test_a_hard_limit_below_the_one_asked_for_is_kept(videos: list[str], megabytes: int, succeeds: bool) -> None:
    """`ulimit -v` sets the hard limit, above which only the superuser could set a limit for a child."""
    command = f'ulimit -v {megabytes * 1024}; exec "$@"' if succeeds else 'exec "$@"'
    program = _UNDER_ULIMIT if succeeds else _UNDER_ULIMIT.replace("4096", str(megabytes))
    as_user = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"] if os.getuid() == 0 else []
    words = [*as_user, "bash", "-c", command, "bash", sys.executable, "-c", program, videos[0]]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if succeeds:
        assert done.stdout == "end\n", done.stderr
    else:
        assert "no video can be" in done.stderr
        assert f"{megabytes} MB" in done.stderr
