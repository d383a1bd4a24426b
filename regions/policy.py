"""The settings of regions."""

from __future__ import annotations

from stanchion.model import Policy


class RegionPolicy(Policy):
    """One region. Its name is the key it stands under; it has no settings of its own yet."""
