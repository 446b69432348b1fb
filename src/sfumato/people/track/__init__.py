"""What detectors find, followed through a video without gaps."""
