"""The authority: a third place that says, for each shard, which store is the primary of which epoch."""
