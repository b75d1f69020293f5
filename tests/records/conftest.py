"""The bucket for tests of records."""

from emulator import bucket, emulator_address

__all__ = ["bucket", "emulator_address"]
