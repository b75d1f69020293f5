"""The client of Google Cloud Storage: credentials, gs:// paths, and its errors turned into ours."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import google.auth
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import storage
from requests import exceptions as http

from yt8m.errors import RunError, UsageError
from yt8m.storage.failures import NotFoundError

WILD = re.compile(r"[*?\[]")


class Place(NamedTuple):
    """A bucket and the name of an object in it (empty for the bucket itself)."""

    bucket: str
    name: str


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
    if emulator:
        return storage.Client.create_anonymous_client()
    try:
        credentials, project = google.auth.default(
            scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
        )
    except auth.DefaultCredentialsError:
        return storage.Client.create_anonymous_client()
    return storage.Client(project=project or "<none>", credentials=credentials)


@contextlib.contextmanager
def named(action: str, path: str) -> Iterator[None]:
    """Turns the client library's errors into ours, with the path and what was being done."""
    try:
        yield
    except api.NotFound as error:
        _refuse_missing_bucket(path)
        raise NotFoundError(f"cannot {action} {path}: there is no such object") from error
    except (api.Forbidden, api.Unauthorized, auth.GoogleAuthError) as error:
        raise UsageError(
            f"cannot {action} {path}: no permission ({error}). Log in with `gcloud auth application-default "
            f"login`, or ask for a role on the bucket {parse(path).bucket}."
        ) from error
    except (api.GoogleAPIError, http.RequestException) as error:
        raise RunError(f"cannot {action} {path}: {error}") from error


def _refuse_missing_bucket(path: str) -> None:
    bucket = parse(path).bucket
    try:
        next(iter(client().list_blobs(bucket, max_results=1)), None)
    except api.NotFound as error:
        raise UsageError(f"cannot use {path}: there is no bucket {bucket}; check the name") from error
    except (api.GoogleAPIError, auth.GoogleAuthError, http.RequestException):
        return  # the first error says more


def blob_at(path: str) -> Any:
    """The handle of the object `path`, which may not exist; raises `UsageError` for a bare bucket."""
    place = parse(path)
    if not place.name:
        raise UsageError(f"cannot use {path} as a file: it names a whole bucket")
    return client().bucket(place.bucket).blob(place.name)
