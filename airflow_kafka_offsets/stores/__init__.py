"""The work store: the only folder that does its I/O.

Four verbs on each kind of store (``store``), objects with a digest (``objects``), and on them the log of batches
(``pipeline_log``), what Spark drivers report (``reads``) and whose an output is (``outputs``).
"""
