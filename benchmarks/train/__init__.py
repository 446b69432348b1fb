"""Every training method: accuracy against epsilon."""
