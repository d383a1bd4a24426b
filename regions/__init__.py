"""Regions. For now only their names, which targets refer to."""
