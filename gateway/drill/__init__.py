"""The fault laboratory: faults played at a real gateway on loopback, and a verdict for each."""
