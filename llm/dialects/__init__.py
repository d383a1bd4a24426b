"""Wire formats: one folder file per format and direction."""
