"""A pinhole camera in the convention of OpenCV: x right, y down, z into the scene."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato.body._skeleton import Floats


@dataclass(frozen=True)
class Camera:
    """``rotation`` (3, 3) and ``translation`` (3,) take world points into the camera's frame."""

    width: int
    height: int
    focal: float
    rotation: Floats
    translation: Floats
    centre: tuple[float, float] | None = None

    @property
    def principal(self) -> tuple[float, float]:
        return self.centre or (self.width / 2, self.height / 2)

    @property
    def position(self) -> npt.NDArray[np.float64]:
        """Where the camera stands in the world."""
        return np.asarray(-self.rotation.T @ self.translation, dtype=np.float64)

    @classmethod
    def look(
        cls,
        width: int,
        height: int,
        eye: npt.ArrayLike,
        target: npt.ArrayLike,
        *,
        field_of_view: float = 50.0,
    ) -> Camera:
        """A level camera at ``eye`` that looks at ``target``; the field of view is horizontal."""
        origin, aim = np.asarray(eye, float), np.asarray(target, float)
        ahead = (aim - origin) / np.linalg.norm(aim - origin)
        right = np.cross(ahead, [0.0, 1.0, 0.0])
        right /= np.linalg.norm(right)
        rotation = np.stack([right, np.cross(ahead, right), ahead])
        focal = width / 2 / np.tan(np.deg2rad(field_of_view) / 2)
        return cls(width, height, float(focal), rotation, -rotation @ origin)

    @classmethod
    def facing(cls, width: int, height: int, *, focal: float | None = None) -> Camera:
        """A camera at the origin that looks along -z of the y-up world (people face it at rest).

        Without a known focal length, 0.9 times the longer side (58 degrees: a phone that films) is assumed.
        """
        turn = np.diag([1.0, -1.0, -1.0])
        return cls(width, height, focal or 0.9 * max(width, height), turn, np.zeros(3))

    def resized(self, width: int, height: int) -> Camera:
        """The same view with other pixels."""
        cx, cy = self.principal
        sx, sy = width / self.width, height / self.height
        return replace(
            self, width=width, height=height, focal=self.focal * sx, centre=(cx * sx, cy * sy)
        )

    def to_camera(self, points: Floats) -> npt.NDArray[np.float64]:
        return np.asarray(points @ self.rotation.T + self.translation, dtype=np.float64)

    def project(self, points: Floats) -> npt.NDArray[np.float64]:
        """World points (..., 3) to pixels (..., 2); a pixel's centre is at half a pixel."""
        seen = self.to_camera(points)
        depth = np.maximum(seen[..., 2:], 1e-6)
        return np.asarray(seen[..., :2] / depth * self.focal + np.array(self.principal))

    def rays(self, x: Floats, y: Floats) -> npt.NDArray[np.float32]:
        """World directions through pixel positions, with a depth of one along the view axis."""
        cx, cy = self.principal
        local = np.stack([(x - cx) / self.focal, (y - cy) / self.focal, np.ones_like(x)], -1)
        return np.ascontiguousarray(local @ self.rotation, dtype=np.float32)
