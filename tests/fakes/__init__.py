"""Stand-ins for the world outside: time and paid providers. Real modules with tests of their own."""
