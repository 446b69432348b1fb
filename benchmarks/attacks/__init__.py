"""Every protection against every attack."""
