"""Pose estimation under every method, epsilon and clip norm."""
