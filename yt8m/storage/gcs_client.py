"""Requests to Google Cloud Storage: credentials, gs:// paths, retries, and error messages.

Downloads and uploads transfer whole objects and check their CRC-32C. An upload replaces only the generation (version)
of an object that its caller names, so that two writers cannot overwrite each other's objects unnoticed.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import functools
import os
import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import IO, Any, NamedTuple, TypeVar

import google.auth
import google_crc32c
from absl import logging
from google.api_core import exceptions as api
from google.api_core.retry import Retry
from google.auth import exceptions as auth
from google.cloud import storage
from google.cloud.exceptions import GoogleCloudError
from google.cloud.storage import exceptions as transfer
from requests import exceptions as http
from urllib3 import exceptions as urllib3

from yt8m.errors import RunError, UsageError
from yt8m.storage import base
from yt8m.storage.base import WILD, NotFoundError
from yt8m.storage.local import LocalStore

T = TypeVar("T")

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between two attempts
_BLOCK = 1 << 20  # bytes that are read at a time to compute a checksum
_CAUSE = re.compile(r"Caused by \w+\(.*?: (.*?)[\"']?\)+$")  # the end of messages about failed connections
_REQUEST = re.compile(r"^(\d* ?)[A-Z]+ https?://\S+: ")  # the start of the server's messages: status, method and URL


class DamagedTransferError(Exception):
    """The bytes that arrived differ from those that were sent."""


# Transient errors, after which a request is retried.
_BUSY = (api.TooManyRequests, api.ServerError, auth.TransportError)
_BROKEN_OFF = (http.ConnectionError, http.Timeout, http.ChunkedEncodingError, urllib3.HTTPError, ConnectionError)
_DAMAGED = (DamagedTransferError, transfer.DataCorruption)
_TEMPORARY = (*_BUSY, *_BROKEN_OFF, *_DAMAGED)


class Location(NamedTuple):
    """The two parts of a path in a bucket.

    Attributes:
      name: the name of an object in it; empty for the bucket itself.
    """

    bucket: str
    name: str


def parse(path: str) -> Location:
    """Splits the path gs://bucket/name; raises `UsageError` if it has no bucket, or a pattern in place of a bucket."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket or WILD.search(bucket):
        raise UsageError(f"cannot use {path}: expected gs://bucket/name with a bucket's full name")
    return Location(bucket, name)


def client() -> Any:
    """The client of Google Cloud Storage, or of the emulator that STORAGE_EMULATOR_HOST names at this moment."""
    return _client_for(os.environ.get("STORAGE_EMULATOR_HOST"))


@functools.lru_cache(maxsize=4)
def _client_for(emulator: str | None) -> Any:
    """The client of the emulator at this address, or of Google Cloud Storage if it is None."""
    new_client = _new_client(emulator)
    # If this attribute were not None, the library would fetch the metadata of each bucket for tracing, which needs
    # another permission than reading and writing objects.
    new_client._bucket_metadata_cache = None
    return new_client


def _new_client(emulator: str | None) -> Any:
    """A client with the user's credentials; an anonymous one for an emulator, or if the user has no credentials.

    An anonymous client can read only public buckets.

    Args:
      emulator: the address of an emulator; None or empty for Google Cloud Storage.
    """
    if emulator:
        return storage.Client.create_anonymous_client()
    try:
        credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/devstorage.read_write"])
    except auth.DefaultCredentialsError:
        return storage.Client.create_anonymous_client()
    return storage.Client(project=project or "<none>", credentials=credentials)


def with_retries(action: str, path: str, call: Callable[[], T]) -> T:
    """Calls a function that sends a request, and calls it again after transient errors; returns its result.

    The pauses between the calls grow. After `base.retry_seconds()` it gives up.

    Args:
      action: a verb for messages, such as `read`.
    """
    end = datetime.datetime.now() + datetime.timedelta(seconds=base.retry_seconds())
    has_warned = False

    def log(error: Exception) -> None:
        nonlocal has_warned
        setting = f"--gs_retry_seconds or {base.RETRY_VARIABLE}: {base.retry_seconds():g} s"
        until = "" if has_warned else f" until {end:%H:%M:%S} ({setting})"
        logging.warning("cannot %s %s (%s); trying again%s", action, path, _short(error), until)
        has_warned = True

    retry = Retry(
        predicate=_is_temporary, initial=_FIRST_WAIT, maximum=_LONGEST_WAIT, timeout=base.retry_seconds(), on_error=log
    )
    with naming_errors(action, path):
        return retry(call)()  # type: ignore[no-any-return]


def _is_temporary(error: BaseException) -> bool:
    """Whether a request that failed with `error` is retried."""
    # The server answers 408 if a request, such as an upload, arrives too slowly. The library has no type for it.
    is_too_slow = isinstance(error, api.GoogleAPICallError) and error.code == HTTPStatus.REQUEST_TIMEOUT
    # The server that renews credentials was busy; the credentials may be right.
    is_auth_busy = isinstance(error, auth.RefreshError) and error.retryable
    return is_too_slow or is_auth_busy or isinstance(error, _TEMPORARY)


@contextlib.contextmanager
def naming_errors(action: str, path: str) -> Iterator[None]:
    """Turns errors of the client library in the block into errors of this package: `cannot ACTION PATH: ...`.

    Args:
      action: a verb, such as `read`.
    """
    try:
        yield
    except api.NotFound as error:
        refuse_missing_bucket(path)
        raise NotFoundError(f"cannot {action} {path}: there is no such object") from error
    except (api.Forbidden, api.Unauthorized) as error:
        raise UsageError(
            f"cannot {action} {path}: no permission ({_short(error)}). Log in with `gcloud auth "
            f"application-default login`, or ask for a role on the bucket {parse(path).bucket}."
        ) from error
    except (auth.DefaultCredentialsError, auth.RefreshError) as error:
        raise UsageError(
            f"cannot {action} {path}: the credentials do not work ({_short(error)}). Log in with "
            "`gcloud auth application-default login`."
        ) from error
    except api.RetryError as error:
        raise _retry_error(action, path, error.cause or error) from error
    except _TEMPORARY as error:
        raise _retry_error(action, path, error) from error
    except (api.GoogleAPIError, GoogleCloudError, auth.GoogleAuthError, http.RequestException) as error:
        raise RunError(f"cannot {action} {path}: {_short(error)}") from error


def _retry_error(action: str, path: str, error: BaseException) -> RunError:
    """The error for a request that `with_retries` gave up because it failed for too long."""
    if isinstance(error, _DAMAGED):
        problem = f"it arrives damaged ({_short(error)})"
    elif isinstance(error, _BROKEN_OFF):
        problem = f"the server cannot be reached ({_short(error)}); look at the network, a proxy or a firewall"
    else:
        problem = f"the server is busy or does not work ({_short(error)})"
    return RunError(
        f"cannot {action} {path}: {problem}. It was tried for up to {base.retry_seconds():g} s "
        f"(--gs_retry_seconds, {base.RETRY_VARIABLE}); start again later."
    )


def _short(error: BaseException) -> str:
    """The reason in an error of the client library: the server's message, or the first line of the library's own."""
    text = str(error)
    if isinstance(error, api.GoogleAPICallError):
        message = re.search(r'"message": *"([^"]+)"', text)  # for uploads, the library quotes the server's whole answer
        code = int(error.code) if error.code else ""  # an HTTPStatus, or a number if the library has no type for it
        text = f"{code} {message[1]}" if message else _REQUEST.sub(r"\1", text)
    elif cause := _CAUSE.search(text):  # the text before the cause describes objects of the library
        text = cause[1]
    return (text.splitlines() or [type(error).__name__])[0][:300]


def refuse_missing_bucket(path: str) -> None:
    """Raises a `UsageError` if the bucket of a path does not exist; does nothing if that cannot be found out."""
    bucket = parse(path).bucket
    try:
        next(iter(client().list_blobs(bucket, max_results=1, retry=None)), None)
    except api.NotFound as error:
        raise UsageError(
            f"cannot use {path}: there is no bucket {bucket}; check the name, or make it with "
            f"`gcloud storage buckets create gs://{bucket}`"
        ) from error
    except (api.GoogleAPIError, auth.GoogleAuthError, http.RequestException):
        return  # the caller raises its own error, which describes the problem better


def blob_at(path: str) -> Any:
    """The blob of the object `path`: the client library's handle, which can be made before the object exists."""
    location = parse(path)
    if not location.name:
        raise UsageError(f"cannot use {path} as a file: it names a whole bucket; add the name of an object")
    return client().bucket(location.bucket).blob(location.name)


class _ChecksumWriter:
    """Writes to a file, and computes the checksum of the written bytes.

    Attributes:
      checksum: the CRC-32C of all bytes written so far.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.checksum = file, google_crc32c.Checksum()

    def write(self, data: bytes) -> int:
        self.checksum.update(data)
        return self._file.write(data)


def _encode_crc32c(crc32c: google_crc32c.Checksum) -> str:
    """A checksum as the server writes it, in base64."""
    return base64.b64encode(crc32c.digest()).decode()


def crc32c_of(blob: Any) -> int:
    """The CRC-32C of an object as a number, from the metadata of its blob; 0 if the server gives none."""
    return int.from_bytes(base64.b64decode(blob.crc32c or ""))


def download(path: str, file: IO[bytes]) -> Any:
    """Fetches an object into an open file, whose content is replaced."""
    return with_retries("read", path, lambda: _download_once(path, file))


def _download_once(path: str, file: IO[bytes]) -> Any:
    """`download` without retries; raises `DamagedTransferError` if other bytes arrive than those of the object."""
    blob, target = blob_at(path), _ChecksumWriter(file)
    blob.reload(retry=None)
    file.seek(0)
    file.truncate()
    # The server's checksum of a compressed object is that of the compressed bytes, so the library must compare it.
    is_plain = not blob.content_encoding
    checksum = None if is_plain else "auto"
    try:
        blob.download_to_file(
            target, if_generation_match=blob.generation, raw_download=is_plain, checksum=checksum, retry=None
        )
    except api.PreconditionFailed as error:
        raise DamagedTransferError("it was replaced while it was read") from error
    crc32c = _encode_crc32c(target.checksum)
    if is_plain and blob.crc32c and crc32c != blob.crc32c:
        raise DamagedTransferError(f"its crc32c is {crc32c}, the server's {blob.crc32c}")
    return blob


def fetch(path: str, local: str) -> None:
    """Copies an object to a local file, whole or not at all; the file gets the object's time of the last change.

    Args:
      local: the path of the local file; an existing one is replaced.
    """
    with LocalStore().write_atomic(local, "wb") as file:
        blob = download(path, file)
        file.flush()
        if blob.updated is not None:
            os.utime(file.fileno(), (blob.updated.timestamp(),) * 2)


def generation_of(path: str) -> int:
    """The generation of an object; 0 if there is no such object."""

    def request_generation() -> int:
        blob = blob_at(path)
        try:
            blob.reload(retry=None)
        except api.NotFound:
            refuse_missing_bucket(path)
            return 0
        return int(blob.generation)

    return with_retries("look up", path, request_generation)


def version_of(path: str) -> tuple[int, int]:
    """(generation, size in bytes) of an object; raises like `download`."""
    blob = blob_at(path)
    with_retries("read", path, lambda: blob.reload(retry=None))
    return int(blob.generation), int(blob.size)


def upload(path: str, file: IO[bytes], generation: int) -> int:
    """Uploads a file as an object, whole or not at all.

    Args:
      generation: the generation of the object that is replaced; 0 if there must be no object. If the object has another
        generation, another program wrote it; then the upload fails, and that object is kept.
    """
    checksum = google_crc32c.Checksum()
    file.seek(0)
    size = sum(map(len, checksum.consume(file, _BLOCK)))
    crc32c = _encode_crc32c(checksum)

    def send() -> int:
        nonlocal generation
        blob = blob_at(path)
        try:
            blob.upload_from_file(
                file, rewind=True, size=size, if_generation_match=generation, checksum="crc32c", retry=None
            )
        except api.PreconditionFailed as error:
            blob.reload(retry=None)
            # An earlier attempt may have succeeded although its answer was lost. Then the object has this content.
            if (blob.crc32c, blob.size) != (crc32c, size):
                raise RunError(
                    f"cannot write {path}: another program has written it meanwhile. Make sure that only one "
                    "works on it, then start again."
                ) from error
        if blob.crc32c and blob.crc32c != crc32c:
            generation = int(blob.generation)
            raise DamagedTransferError(f"its crc32c is {crc32c}, the server has {blob.crc32c}")
        return int(blob.generation)

    return with_retries("write", path, send)
