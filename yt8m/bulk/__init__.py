"""`yt8m bulk`: processes many shards with Apache Beam."""
