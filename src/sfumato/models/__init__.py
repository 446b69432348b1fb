"""Models: ports whose parameters carry the published names, and small encoders of our own.

Every model is a sequence of ``steps()``; ``cut(model)`` gives its frozen beginning and the rest, so
that the beginning can run once per record. No model has a layer that mixes records, except
BatchNorm: freeze it or replace it before private training.
"""

from sfumato.devices import choose_device, device_of
from sfumato.models._efficientnet import EfficientNetLite0, efficientnet_lite0
from sfumato.models._encoders import MelCNN, RecordMLP, SensorCNN
from sfumato.models._i3d import I3D, i3d, i3d_state, kinetics400_classes
from sfumato.models._joints_head import THUNDER, JointsHead, JointsNet, MirrorTrunk, thunder_pose
from sfumato.models._linear_probe import FEATURE_NETWORKS, LinearProbe, array_head, feature_head
from sfumato.models._movenet import MoveNetThunder, movenet_thunder
from sfumato.models._mvit import MViT, mvit_b, mvit_v2_s
from sfumato.models._norms import freeze_batchnorm, replace_batchnorm
from sfumato.models._pose_nets import POSE_BACKBONES, TwoScales, pose_net
from sfumato.models._select import Preset, select
from sfumato.models._simcc import PoseNet, SimCC, decode, simcc_loss, soft_labels, split_axes
from sfumato.models._speaker import SPEAKER_RATE, SpeakerEncoder
from sfumato.models._steps import Step, cut, run
from sfumato.models._tiny_vit import (
    MOBILE_SAM,
    TinyViT,
    mobile_sam_state,
    mobile_sam_trunk,
    tiny_vit,
)
from sfumato.models._video_vit import VideoViT
from sfumato.models._weights import WeightsError, load_weights, read_weights

__all__ = [
    "FEATURE_NETWORKS",
    "I3D",
    "MOBILE_SAM",
    "POSE_BACKBONES",
    "SPEAKER_RATE",
    "THUNDER",
    "EfficientNetLite0",
    "JointsHead",
    "JointsNet",
    "LinearProbe",
    "MViT",
    "MelCNN",
    "MirrorTrunk",
    "MoveNetThunder",
    "PoseNet",
    "Preset",
    "RecordMLP",
    "SensorCNN",
    "SimCC",
    "SpeakerEncoder",
    "Step",
    "TinyViT",
    "TwoScales",
    "VideoViT",
    "WeightsError",
    "array_head",
    "choose_device",
    "cut",
    "decode",
    "device_of",
    "efficientnet_lite0",
    "feature_head",
    "freeze_batchnorm",
    "i3d",
    "i3d_state",
    "kinetics400_classes",
    "load_weights",
    "mobile_sam_state",
    "mobile_sam_trunk",
    "movenet_thunder",
    "mvit_b",
    "mvit_v2_s",
    "pose_net",
    "read_weights",
    "replace_batchnorm",
    "run",
    "select",
    "simcc_loss",
    "soft_labels",
    "split_axes",
    "thunder_pose",
    "tiny_vit",
]  # fmt: skip
