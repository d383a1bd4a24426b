"""How bytes get to a provider and back: one small interface, and the client behind it."""
