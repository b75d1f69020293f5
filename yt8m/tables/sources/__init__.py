"""Bytes become rows: CSV in any dialect, workbooks, Parquet and Arrow, NPZ, and lists of words."""
