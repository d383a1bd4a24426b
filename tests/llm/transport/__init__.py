"""The HTTP client to the providers, on real sockets."""
