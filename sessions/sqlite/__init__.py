"""A session store in one SQLite file: the embedded default."""
