"""What sessions do while networks, stores, authorities and gateways fail: real processes, and a checker of what they said.

`python -m tests.partition --help` runs as many rounds as one likes; the tests here are a short form of that.
"""
