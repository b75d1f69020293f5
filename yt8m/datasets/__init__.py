"""Data sets: made from tables, arrays and videos, downloaded, generated, shown and checked."""
