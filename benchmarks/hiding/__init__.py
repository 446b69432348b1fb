"""Blur, pixelate and silhouette on every clip of a folder."""
