"""The floor that every room stands on: the version, units of the settings, and the clock."""

__version__ = "0.1.0"
