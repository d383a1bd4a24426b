"""A session store in Redis: one primary for a shard, shared by all gateways."""
