"""GraphFlat: k-hop neighbourhoods of targets as protobuf records in Parquet shards (AGL, section 3.2)."""
