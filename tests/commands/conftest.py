"""Buckets for the tests of this folder."""

from emulator import bucket, emulator_address

__all__ = ["bucket", "emulator_address"]
