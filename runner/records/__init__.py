"""The files of a sweep:
its lock, a run's record with its schema, how a run ended, and how they are written and read.
"""
