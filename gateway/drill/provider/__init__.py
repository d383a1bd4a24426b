"""A scripted OpenAI-compatible provider: a real HTTP server that answers, stalls, resets, lies and counts as it is told."""
