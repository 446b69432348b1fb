"""Detectors of faces, people, masks and poses: one file each, behind the protocols and the registry."""
