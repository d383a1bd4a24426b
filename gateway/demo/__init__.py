"""The quick start: two real models on this machine, a gateway in front of them, and something to break."""
