"""What an outcome means for the error budget."""
