"""One contract for every measure of leakage and usefulness."""
