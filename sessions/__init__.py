"""Sessions and what lives in them. Nothing is stored yet; the name is this project's."""
