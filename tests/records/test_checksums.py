"""CRC-32C as TFRecord files store it, and of joined strings."""

from __future__ import annotations

import google_crc32c
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from yt8m.records import checksums


def test_a_masked_checksum_is_that_of_the_format() -> None:
    assert checksums.masked_crc(b"") == bytes.fromhex("d8ea82a2")
    crc = 0x364B3FB7  # CRC-32C of "abc" (RFC 3720 has the polynomial)
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert checksums.masked_crc(b"abc") == masked.to_bytes(4, "little")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_checksums_are_joined(first: bytes, second: bytes) -> None:
    joined = checksums.join_crcs(google_crc32c.value(first), google_crc32c.value(second), len(second))
    assert joined == google_crc32c.value(first + second)


def test_checksums_of_many_bytes_are_joined() -> None:
    second = np.random.default_rng(0).integers(256, size=5_000_011, dtype=np.uint8).tobytes()
    joined = checksums.join_crcs(google_crc32c.value(b"first"), google_crc32c.value(second), len(second))
    assert joined == google_crc32c.value(b"first" + second)
