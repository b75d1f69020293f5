"""The client of Google Cloud Storage: credentials, gs:// paths, and its errors turned into ours.

Bytes to and from buckets: whole, checked by crc32c, and only over what was there when the work began.
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
from google.api_core.retry import Retry
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

_BUSY = (api.TooManyRequests, api.ServerError, auth.TransportError)
_BROKEN_OFF = (http.ConnectionError, http.Timeout, http.ChunkedEncodingError, urllib3.HTTPError, ConnectionError)
_REQUEST = re.compile(r"^(\d* ?)[A-Z]+ https?://\S+: ")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


class Place(NamedTuple):
    """A bucket and the name of an object in it (empty for the bucket itself)."""

    bucket: str
    name: str


class DamagedTransferError(Exception):
    """Bytes arrived otherwise than they were sent."""


def parse(path: str) -> Place:
    """Takes gs://bucket/name apart; raises `UsageError` where there is no bucket in it."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket or WILD.search(bucket):
        raise UsageError(f"cannot use {path}: expected gs://bucket/name with a bucket's full name")
    return Place(bucket, name)


def client() -> Any:
    """The client for the server that the environment names now."""
    return _client_for(os.environ.get("STORAGE_EMULATOR_HOST"))


@functools.lru_cache(maxsize=4)
def _client_for(emulator: str | None) -> Any:
    """One client a server; without any credentials an anonymous one, which reads public buckets."""
    made = _new_client(emulator)
    # For tracing, it asks for each bucket in a thread of its own, which needs a permission of its own.
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


def again(action: str, path: str) -> Any:
    """How a request is repeated: with growing pauses, where that can help, for a bounded time."""

    def tell(error: Exception) -> None:
        logging.warning("cannot %s %s just now (%s); trying again", action, path, _short(error))

    return Retry(
        predicate=_may_pass, initial=_FIRST_WAIT, maximum=_LONGEST_WAIT, timeout=base.retry_seconds(), on_error=tell
    )


def ask(action: str, path: str, call: Callable[[], T]) -> T:
    """The answer of `call`, which may safely be repeated; its errors are turned into ours.

    Raises:
      NotFoundError: there is no such object.
      UsageError: there is no such bucket, or no permission.
      RunError: the server cannot be reached, or gives no answer in the time allowed.
    """
    with named(action, path):
        return again(action, path)(call)()  # type: ignore[no-any-return]


@contextlib.contextmanager
def named(action: str, path: str) -> Iterator[None]:
    """Turns the client library's errors into ours, with the path and what was being done."""
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
            f"cannot {action} {path}: the credentials are of no use ({_short(error)}). Log in with "
            "`gcloud auth application-default login`."
        ) from error
    except api.RetryError as error:
        raise _gave_up(action, path, error.cause or error) from error
    except (*_BUSY, *_BROKEN_OFF, DamagedTransferError) as error:
        raise _gave_up(action, path, error) from error
    except (api.GoogleAPIError, GoogleCloudError, auth.GoogleAuthError, http.RequestException) as error:
        raise RunError(f"cannot {action} {path}: {_short(error)}") from error
    except transfer.DataCorruption as error:
        raise _gave_up(action, path, error) from error


def _gave_up(action: str, path: str, error: BaseException) -> RunError:
    if isinstance(error, DamagedTransferError | transfer.DataCorruption):
        what = f"it arrives damaged ({_short(error)})"
    elif isinstance(error, _BROKEN_OFF):
        what = f"the server cannot be reached ({_short(error)}); look at the network, a proxy or a firewall"
    else:
        what = f"the server is out of order ({_short(error)})"
    return RunError(
        f"cannot {action} {path}: {what}. It was tried for up to {base.retry_seconds():g} s "
        f"(--gs_retry_seconds, {base.GIVEN_RETRY}); start again later to go on."
    )


def _may_pass(error: BaseException) -> bool:
    """Whether trying again can help."""
    return isinstance(error, (DamagedTransferError, transfer.DataCorruption, *_BUSY, *_BROKEN_OFF))


def _short(error: BaseException) -> str:
    """What the server said, or the first line of what the library makes of it."""
    text = str(error)
    if isinstance(error, api.GoogleAPICallError):
        said = re.search(r'"message": *"([^"]+)"', text)  # of an upload, all of the answer is quoted
        code = error.code.value if error.code else ""
        text = f"{code} {said[1]}" if said else _REQUEST.sub(r"\1", text)
    return (text.splitlines() or [type(error).__name__])[0][:300]


def refuse_missing_bucket(path: str) -> None:
    """Raises `UsageError` where the bucket itself is missing."""
    bucket = parse(path).bucket
    try:
        next(iter(client().list_blobs(bucket, max_results=1, retry=None)), None)
    except api.NotFound as error:
        raise UsageError(
            f"cannot use {path}: there is no bucket {bucket}; check the name, or make it with "
            f"`gcloud storage buckets create gs://{bucket}`"
        ) from error
    except (api.GoogleAPIError, auth.GoogleAuthError, http.RequestException):
        return  # the first error says more


def blob_at(path: str) -> Any:
    """The handle of the object `path`, which may not exist; raises `UsageError` for a bare bucket."""
    place = parse(path)
    if not place.name:
        raise UsageError(f"cannot use {path} as a file: it names a whole bucket")
    return client().bucket(place.bucket).blob(place.name)


_BLOCK = 1 << 20


class _Summed:
    """A file that sums what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sum = file, google_crc32c.Checksum()

    def write(self, data: bytes) -> int:
        self._sum.update(data)
        return self._file.write(data)

    def crc32c(self) -> str:
        """As the server writes it."""
        return base64.b64encode(self._sum.digest()).decode()


def download(path: str, file: IO[bytes]) -> Any:
    """Fetches an object into `file`, from its start; returns its handle, with what is known of it.

    Raises:
      RunError: it is not there, or cannot be fetched in the time allowed.
    """
    return ask("read", path, lambda: _download(path, file))


def _download(path: str, file: IO[bytes]) -> Any:
    blob, target = blob_at(path), _Summed(file)
    blob.reload(retry=None)
    file.seek(0)
    file.truncate()
    is_plain = not blob.content_encoding  # else the server's sum is that of the packed bytes
    try:
        blob.download_to_file(
            target,
            if_generation_match=blob.generation,
            raw_download=is_plain,
            checksum=None if is_plain else "auto",
            retry=None,
        )
    except api.PreconditionFailed as error:
        raise DamagedTransferError("it was replaced while it was read") from error
    if is_plain and blob.crc32c and target.crc32c() != blob.crc32c:
        raise DamagedTransferError(f"its crc32c is {target.crc32c()}, the server's {blob.crc32c}")
    return blob


def fetch(path: str, local: str) -> None:
    """Copies an object to a local file, which appears whole, with the object's time; raises as `download`."""
    with LocalStore().write_atomic(local, "wb") as file:
        blob = download(path, file)
        file.flush()
        if blob.updated is not None:
            os.utime(file.fileno(), (blob.updated.timestamp(),) * 2)


def generation_of(path: str) -> int:
    """Which version of an object is there; 0 for none.

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

    return ask("look up", path, look)


def version_of(path: str) -> tuple[int, int]:
    """The generation and the bytes of an object; raises as `download`."""
    blob = blob_at(path)
    ask("read", path, lambda: blob.reload(retry=None))
    return int(blob.generation), int(blob.size)


def upload(path: str, file: IO[bytes], generation: int) -> int:
    """Sends a whole file; the object appears at once or not at all. Returns its new generation.

    Args:
      path: the object.
      file: seekable.
      generation: of what it replaces; 0 where nothing is there. With it a request may be repeated safely, and
        two writers never undo each other's work unseen.

    Raises:
      RunError: another has written it meanwhile, or it cannot be sent in the time allowed.
    """
    sender = _Upload(path, file, generation)
    with named("write", path):
        return ask("write", path, sender)


class _Upload:
    """One upload, which may be called again until it is through."""

    def __init__(self, path: str, file: IO[bytes], generation: int) -> None:
        self._path, self._file, self._generation = path, file, generation
        self._crc32c, self._size = _sum_of(file)

    def __call__(self) -> int:
        blob = blob_at(self._path)
        try:
            blob.upload_from_file(
                self._file,
                rewind=True,
                size=self._size,
                if_generation_match=self._generation,
                checksum="crc32c",
                retry=None,
            )
        except api.PreconditionFailed as error:
            blob.reload(retry=None)
            # An earlier attempt may have come through although its answer was lost.
            if (blob.crc32c, blob.size) != (self._crc32c, self._size):
                raise RunError(
                    f"cannot write {self._path}: another program has written it meanwhile. See that only one "
                    "works on it, then start again."
                ) from error
        if blob.crc32c and blob.crc32c != self._crc32c:
            self._generation = int(blob.generation)
            raise DamagedTransferError(f"its crc32c is {self._crc32c}, the server has {blob.crc32c}")
        return int(blob.generation)


def _sum_of(file: IO[bytes]) -> tuple[str, int]:
    """crc32c as the server writes it, and bytes."""
    total, size = google_crc32c.Checksum(), 0
    for block in _blocks(file):
        total.update(block)
        size += len(block)
    return base64.b64encode(total.digest()).decode(), size


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(_BLOCK):
        yield block
