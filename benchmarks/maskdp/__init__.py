"""DP and MaskDP: accuracy against epsilon."""
