"""Decodes a video with PyAV: opens its container, and says why a file cannot be decoded.

Only the child processes of `decoder_pool` call `decode`, because a malicious file can end the process that decodes it.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from yt8m import storage
from yt8m.errors import RunError, missing_extra
from yt8m.extractors import containers
from yt8m.extractors.decoder import VideoDecoder
from yt8m.extractors.decoder_messages import DecodeError as DecodeError
from yt8m.extractors.decoder_messages import Message as Message
from yt8m.extractors.decoder_messages import Request as Request

# FFmpeg's names of the formats that may be opened: containers of videos and sound. Playlists, for example, may not be
# opened, because they can name other files.
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,asf,flv,live_flv,mpeg,mpegts,mpegvideo,m4v,h264,hevc,ogg,rm,mxf,dv,nut,"
    "gif,apng,wav,mp3,aac,flac,ac3,aiff,au,amr,caf,w64,ape,wv,ivf,obu,swf,wtv,vob,y4m,yuv4mpegpipe,gxf,nsv,roq,smk,bink"
)


def require_av() -> None:
    """Checks that the libraries for decoding are installed, without importing them: only the decoders need them."""
    if any(importlib.util.find_spec(name) is None for name in ("av", "soxr")):
        raise missing_extra("reading video files", "PyAV (av) and soxr", "video")


def import_av() -> Any:
    """Imports PyAV; raises like `require_av`."""
    require_av()
    import av

    return av


def decode(request: Request) -> Iterator[Message]:
    """Yields the pictures, clips and windows of a video as messages, each once it is complete, then `end`."""
    av = import_av()
    try:
        if storage.is_special(request.path):
            raise DecodeError("it is a pipe or a device, not a file")
        with storage.open_read(request.path) as file:
            states_length = containers.states_length(file, DecodeError)
        if VideoDecoder.may_seek(request):
            with _open_container(av, request.path) as container:
                decoder = VideoDecoder(container, request, states_length)
                if decoder.seek():
                    yield from decoder.messages()
                    return
        with _open_container(av, request.path) as container:
            yield from VideoDecoder(container, request, states_length).messages()
    except (av.error.FFmpegError, ValueError, UnicodeError) as error:
        raise DecodeError(f"it is damaged, or not a video ({_reason_of(error)})") from error
    except RunError as error:
        raise DecodeError(str(error)) from error
    except MemoryError as error:
        raise DecodeError("it needs more memory than a decoder may have") from error


def _reason_of(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).split("\n")[0][:200]


@contextlib.contextmanager
def _open_container(av: Any, path: str) -> Iterator[Any]:
    """Opens a container with PyAV.

    FFmpeg gets an open Python file, and may use no protocols. So a malicious file cannot make FFmpeg open other files.
    """
    options = {"protocol_whitelist": "none", "format_whitelist": _FORMATS}
    # Before version 19, PyAV raised an error for metadata that are not UTF-8 unless it was told to ignore them.
    error_options = {"metadata_errors": "ignore"} if int(av.__version__.partition(".")[0]) < 19 else {}
    with (
        storage.open_read(path) as file,
        av.open(file, options=options, container_options=options, buffer_size=1 << 18, **error_options) as container,
    ):
        yield container
