"""What is done about damaged input; training, evaluation and inference have the same options for it."""

from __future__ import annotations

MANIFEST_HELP = "file of how many records each shard holds (yt8m verify); manifest.json beside the shards"
BAD_HELP = "bad records that are borne; the rest of the shard of each is skipped, and told at the end"
NAN_HELP = "features that are NaN, infinite or beyond 1e16: an error, or set to 0 and counted"
NAN_POLICIES = ("refuse", "zero")
