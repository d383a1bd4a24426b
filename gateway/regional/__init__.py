"""Regions for operators: what they are like, and what may be done to them."""
