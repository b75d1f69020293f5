"""The client of Google Cloud Storage: credentials, gs:// paths, and its errors turned into ours."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import google.auth
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
from yt8m.storage import settings
from yt8m.storage.failures import NotFoundError

WILD = re.compile(r"[*?\[]")
T = TypeVar("T")

_BUSY = (api.TooManyRequests, api.ServerError, auth.TransportError)
_BROKEN_OFF = (
    http.ConnectionError,
    http.Timeout,
    http.ChunkedEncodingError,
    urllib3.HTTPError,
    ConnectionError,
)
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
        credentials, project = google.auth.default(
            scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
        )
    except auth.DefaultCredentialsError:
        return storage.Client.create_anonymous_client()
    return storage.Client(project=project or "<none>", credentials=credentials)


def again(action: str, path: str) -> Any:
    """How a request is repeated: with growing pauses, where that can help, for a bounded time."""

    def tell(error: Exception) -> None:
        logging.warning("cannot %s %s just now (%s); trying again", action, path, _short(error))

    return Retry(
        predicate=_may_pass,
        initial=_FIRST_WAIT,
        maximum=_LONGEST_WAIT,
        timeout=settings.retry_seconds(),
        on_error=tell,
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
        f"cannot {action} {path}: {what}. It was tried for up to {settings.retry_seconds():g} s "
        f"(--gs_retry_seconds, {settings.GIVEN_RETRY}); start again later to go on."
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
