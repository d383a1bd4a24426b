"""The soak: a real gateway process under callers and providers that do everything wrong, for as long as one likes.

`make soak` runs the long form (ten minutes), `python -m tests.soak --seconds N --seed S` any other.
"""
