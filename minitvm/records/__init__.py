"""What was measured: records of candidates, in a database that several processes write at once.

record.py     one measurement: task, target, decision, seconds, or why there are none
database.py   records in SQLite or PostgreSQL: add, find, export, import, merge
lookup.py     which decisions a build takes from a database

A build needs no more than this. What makes records is `tune`.
"""

from .record import Record, target_key

__all__ = ["Record", "target_key"]
