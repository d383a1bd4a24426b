"""The HTTP application: settings, wiring, routes, command line."""
