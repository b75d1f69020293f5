"""Many shards by Apache Beam."""
