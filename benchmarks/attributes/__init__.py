"""PASS and the methods it is compared with."""
