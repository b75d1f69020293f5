"""What several tests of faults need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.saved_states import Bucket


@pytest.fixture
def saved_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket that can be set back to an earlier state. The test and its subprocesses use its emulator."""
    from google.cloud import storage as gcs

    with Bucket() as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.address)
        gcs.Client.create_anonymous_client().create_bucket(bucket.name)
        yield bucket
