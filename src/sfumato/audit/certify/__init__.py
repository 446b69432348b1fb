"""Lower bounds on epsilon, and whether code does what its card says."""
