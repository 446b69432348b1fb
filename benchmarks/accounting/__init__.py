"""What the papers claim, and what is true."""
