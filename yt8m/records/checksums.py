"""The checksums of TFRecord files and manifests: CRC-32C, masked or of joined strings."""

from __future__ import annotations

import functools
import struct
from typing import Any

import google_crc32c

# The constant that TFRecord adds to a rotated checksum, and the bits of the sum that are kept.
_MASK_DELTA, _WORD = 0xA282EAD8, 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """The masked CRC-32C of `data` as TFRecord files store it, 4 bytes: rotated, with a constant added.

    TFRecord masks checksums because the plain CRC of data that contain CRCs detects fewer errors.
    """
    return struct.pack("<I", mask_crc(google_crc32c.value(data)))


def mask_crc(crc: Any) -> Any:
    """Masks a CRC-32C as `masked_crc` describes: an int, or each item of a uint64 array. The result has that type."""
    return ((((crc >> 15) | (crc << 17)) & _WORD) + _MASK_DELTA) & _WORD


def join_crcs(first: int, second: int, size: int) -> int:
    """The CRC-32C of two concatenated byte strings.

    With CRCs as polynomials over GF(2), the result is `first` * x^(8 * `size`) + `second`, modulo the polynomial of
    CRC-32C.

    Args:
      first: the CRC-32C of the first string.
      second: the CRC-32C of the second string.
      size: the number of bytes of the second string.
    """
    power, exponent, product = 1 << 31, 8 * size, 1 << 30  # x^0, and x^1: the highest bit is the lowest coefficient
    while exponent:
        power = _multiply(power, product) if exponent & 1 else power
        exponent, product = exponent >> 1, _square(product)
    return _multiply(power, first) ^ second


def _multiply(factor: int, other: int) -> int:
    """The product of two polynomials over GF(2) modulo the polynomial of CRC-32C."""
    product = 0
    for bit in range(31, -1, -1):
        if factor >> bit & 1:
            product ^= other
        other = other >> 1 ^ (0x82F63B78 if other & 1 else 0)
    return product


@functools.cache
def _square(factor: int) -> int:
    return _multiply(factor, factor)
