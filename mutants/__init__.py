"""The seeded-bug suite: known mistakes put into a copy of our own code, which the tests must notice.

``python -m mutants`` (or ``make mutants``) prints which were caught. Numbers are those of the soundness
notes. The tests see the changed code's behaviour only; none of them knows what was changed.
"""
