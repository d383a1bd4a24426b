"""Tests, laid out like the source; `tests.fakes` holds what stands in for the world outside."""
