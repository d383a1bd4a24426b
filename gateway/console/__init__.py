"""How the command line looks: what it prints, and nothing of what it decides elsewhere."""
