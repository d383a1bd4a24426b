"""The protocol as a model that any order of steps may drive, and the faults that it has to show."""
