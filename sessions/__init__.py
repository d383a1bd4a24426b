"""Sessions: their events and state, in a store that takes writes only from whoever holds its grant.

`store.py` is the contract, `sqlite/` and `redis/` keep it, `errors.py` is what may be refused.
"""
