"""Buckets that a target's requests and tokens are reserved from and settled with."""
