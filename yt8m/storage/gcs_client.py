"""Requests to Google Cloud Storage: credentials, gs:// paths, retries, and error messages.

Downloads and uploads transfer whole objects and check their crc32c. An upload replaces only the generation that its
caller names, so that two writers cannot overwrite each other's objects unnoticed.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple, TypeVar

import google.auth
import google_crc32c
from absl import logging
from google.api_core import exceptions as api
from google.api_core.retry import Retry, if_exception_type
from google.auth import exceptions as auth
from google.cloud import storage
from google.cloud.exceptions import GoogleCloudError
from google.cloud.storage import exceptions as transfer
from requests import exceptions as http
from urllib3 import exceptions as urllib3

from yt8m.errors import RunError, UsageError
from yt8m.storage import base
from yt8m.storage.base import NotFoundError
from yt8m.storage.local import LocalStore

WILD = re.compile(r"[*?\[]")
T = TypeVar("T")

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between two attempts
_BLOCK = 1 << 20  # bytes that are read at a time to compute a checksum
_CAUSE = re.compile(r"Caused by \w+\(.*?: (.*?)[\"']?\)+$")  # in messages of failed connections
_REQUEST = re.compile(r"^(\d* ?)[A-Z]+ https?://\S+: ")  # at the start of messages: status, method and URL


class DamagedTransferError(Exception):
    """The bytes that arrived differ from those that were sent."""


# Transient errors, after which a request is retried.
_BUSY = (api.TooManyRequests, api.ServerError, auth.TransportError)
_BROKEN_OFF = (http.ConnectionError, http.Timeout, http.ChunkedEncodingError, urllib3.HTTPError, ConnectionError)
_DAMAGED = (DamagedTransferError, transfer.DataCorruption)
_TEMPORARY = (*_BUSY, *_BROKEN_OFF, *_DAMAGED)


class Place(NamedTuple):
    """A bucket, and the name of an object in it; the name is empty for the bucket itself."""

    bucket: str
    name: str


def parse(path: str) -> Place:
    """Splits gs://bucket/name; raises `UsageError` if `path` does not name one bucket."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket or WILD.search(bucket):
        raise UsageError(f"cannot use {path}: expected gs://bucket/name with a bucket's full name")
    return Place(bucket, name)


def client() -> Any:
    """The client of Google Cloud Storage, or of the emulator that STORAGE_EMULATOR_HOST names at this moment."""
    return _client_for(os.environ.get("STORAGE_EMULATOR_HOST"))


@functools.lru_cache(maxsize=4)
def _client_for(emulator: str | None) -> Any:
    """The client of a server; without credentials it is anonymous, and can read public buckets."""
    made = _new_client(emulator)
    # Otherwise the library fetches the metadata of each bucket for tracing, which needs an additional permission.
    made._bucket_metadata_cache = None
    return made


def _new_client(emulator: str | None) -> Any:
    if emulator:
        return storage.Client.create_anonymous_client()
    try:
        credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/devstorage.read_write"])
    except auth.DefaultCredentialsError:
        return storage.Client.create_anonymous_client()
    return storage.Client(project=project or "<none>", credentials=credentials)


def with_retries(action: str, path: str, call: Callable[[], T]) -> T:
    """Returns the result of `call`, which must be safe to repeat; turns its errors into errors of this package.

    After transient errors `call` is retried, with growing pauses, for at most `base.retry_seconds()`.

    Raises:
      NotFoundError: there is no such object.
      UsageError: there is no such bucket, or no permission.
      RunError: the server cannot be reached, or does not answer in time.
    """

    def log(error: Exception) -> None:
        logging.warning("cannot %s %s (%s); trying again", action, path, _short(error))

    retry = Retry(
        predicate=if_exception_type(*_TEMPORARY),
        initial=_FIRST_WAIT,
        maximum=_LONGEST_WAIT,
        timeout=base.retry_seconds(),
        on_error=log,
    )
    with naming_errors(action, path):
        return retry(call)()  # type: ignore[no-any-return]


@contextlib.contextmanager
def naming_errors(action: str, path: str) -> Iterator[None]:
    """Turns errors of the client library into errors of this package, which name the action and the path."""
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
        raise _gave_up(action, path, error.cause or error) from error
    except _TEMPORARY as error:
        raise _gave_up(action, path, error) from error
    except (api.GoogleAPIError, GoogleCloudError, auth.GoogleAuthError, http.RequestException) as error:
        raise RunError(f"cannot {action} {path}: {_short(error)}") from error


def _gave_up(action: str, path: str, error: BaseException) -> RunError:
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
    """The server's message, or the first line of the library's message."""
    text = str(error)
    if isinstance(error, api.GoogleAPICallError):
        said = re.search(r'"message": *"([^"]+)"', text)  # for uploads, the library quotes the server's whole answer
        code = error.code.value if error.code else ""
        text = f"{code} {said[1]}" if said else _REQUEST.sub(r"\1", text)
    elif cause := _CAUSE.search(text):  # skips the library's description of its own objects
        text = cause[1]
    return (text.splitlines() or [type(error).__name__])[0][:300]


def refuse_missing_bucket(path: str) -> None:
    """Raises `UsageError` if the bucket itself is missing."""
    bucket = parse(path).bucket
    try:
        next(iter(client().list_blobs(bucket, max_results=1, retry=None)), None)
    except api.NotFound as error:
        raise UsageError(
            f"cannot use {path}: there is no bucket {bucket}; check the name, or make it with "
            f"`gcloud storage buckets create gs://{bucket}`"
        ) from error
    except (api.GoogleAPIError, auth.GoogleAuthError, http.RequestException):
        return  # the caller's own error is more precise


def blob_at(path: str) -> Any:
    """The blob (handle) of the object `path`, which may not exist; raises `UsageError` if `path` is a whole bucket."""
    place = parse(path)
    if not place.name:
        raise UsageError(f"cannot use {path} as a file: it names a whole bucket")
    return client().bucket(place.bucket).blob(place.name)


class _ChecksumWriter:
    """Writes to a file, and computes the checksum of the written bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sum = file, google_crc32c.Checksum()

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self._file.write(data)


def _text(crc32c: google_crc32c.Checksum) -> str:
    """A checksum in the server's format: base64."""
    return base64.b64encode(crc32c.digest()).decode()


def crc32c_of(blob: Any) -> int:
    """The checksum of an object as a number, from the metadata of its blob."""
    return int.from_bytes(base64.b64decode(blob.crc32c or ""))


def download(path: str, file: IO[bytes]) -> Any:
    """Fetches an object into `file`, whose content it replaces; returns the blob with its metadata.

    Raises:
      RunError: there is no such object, or it cannot be fetched in time.
    """
    return with_retries("read", path, lambda: _download(path, file))


def _download(path: str, file: IO[bytes]) -> Any:
    blob, target = blob_at(path), _ChecksumWriter(file)
    blob.reload(retry=None)
    file.seek(0)
    file.truncate()
    is_plain = not blob.content_encoding  # the server's checksum of a compressed object is that of the compressed bytes
    checksum = None if is_plain else "auto"
    try:
        blob.download_to_file(
            target, if_generation_match=blob.generation, raw_download=is_plain, checksum=checksum, retry=None
        )
    except api.PreconditionFailed as error:
        raise DamagedTransferError("it was replaced while it was read") from error
    if is_plain and blob.crc32c and _text(target.sum) != blob.crc32c:
        raise DamagedTransferError(f"its crc32c is {_text(target.sum)}, the server's {blob.crc32c}")
    return blob


def fetch(path: str, local: str) -> None:
    """Copies an object to a local file with the object's update time, whole or not at all; raises like `download`."""
    with LocalStore().write_atomic(local, "wb") as file:
        blob = download(path, file)
        file.flush()
        if blob.updated is not None:
            os.utime(file.fileno(), (blob.updated.timestamp(),) * 2)


def generation_of(path: str) -> int:
    """The generation of an object; 0 if there is no such object.

    Raises:
      UsageError: there is no such bucket.
    """

    def look() -> int:
        blob = blob_at(path)
        try:
            blob.reload(retry=None)
        except api.NotFound:
            refuse_missing_bucket(path)
            return 0
        return int(blob.generation)

    return with_retries("look up", path, look)


def version_of(path: str) -> tuple[int, int]:
    """(generation, size in bytes) of an object; raises like `download`."""
    blob = blob_at(path)
    with_retries("read", path, lambda: blob.reload(retry=None))
    return int(blob.generation), int(blob.size)


def upload(path: str, file: IO[bytes], generation: int) -> int:
    """Uploads a file as an object, whole or not at all; returns the generation of the object.

    Args:
      path: the path of the object.
      file: the file to upload, which must be seekable.
      generation: the generation of the object to replace; 0 if there is no object. The upload fails if the object has
        another generation, so a retry is safe, and an object that another program wrote meanwhile is kept.

    Raises:
      RunError: another program has written the object meanwhile, or the file cannot be sent in time.
    """
    total = google_crc32c.Checksum()
    file.seek(0)
    size = sum(map(len, total.consume(file, _BLOCK)))
    crc32c = _text(total)

    def send() -> int:
        nonlocal generation
        blob = blob_at(path)
        try:
            blob.upload_from_file(
                file, rewind=True, size=size, if_generation_match=generation, checksum="crc32c", retry=None
            )
        except api.PreconditionFailed as error:
            blob.reload(retry=None)
            # An earlier attempt may have succeeded without its answer arriving.
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
