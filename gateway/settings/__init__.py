"""The settings: from the YAML file to the frozen objects that a request meets."""
