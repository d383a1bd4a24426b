"""The settings of a target's quota."""

from __future__ import annotations

from pydantic import Field

from stanchion.model import Policy
from stanchion.units import Count, Duration


class QuotaPolicy(Policy):
    """What a target may be asked for. A limit that is not written is not applied."""

    requests_per_minute: Count | None = Field(None, gt=0, description="Requests a minute that the provider allows.")
    tokens_per_minute: Count | None = Field(None, gt=0, description="Input and output tokens a minute, together.")
    burst: Duration = Field(10.0, gt=0, description="Bucket size as a time: size = rate x burst.")
    concurrency: Count | None = Field(None, gt=0, description="Requests in flight at once.")
