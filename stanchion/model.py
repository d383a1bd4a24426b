"""The base of every settings model: frozen, strict about unknown keys, silent about the values it was given."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class Policy(BaseModel):
    """A part of the settings.

    Unknown keys are refused, instances never change, and messages never repeat an input value, since a value may be a
    secret (validators that know theirs is none say it themselves).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=False)

    def merged(self, *overrides: Self | None) -> Self:
        """This policy with every key that an override wrote itself; later overrides win."""
        written: dict[str, object] = {}
        for override in overrides:
            if override is not None:
                written.update({name: getattr(override, name) for name in override.model_fields_set})
        return self.model_copy(update=written)
