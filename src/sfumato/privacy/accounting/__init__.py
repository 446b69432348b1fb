"""Accountants: epsilon, delta and noise of any event under a stated relation."""
