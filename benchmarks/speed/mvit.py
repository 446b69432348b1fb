"""MViTv2-S forward pass beside torchvision's: same weights, same clip, interleaved, best of several.

    python -m benchmarks.speed.mvit [--threads 2] [--rounds 5] [--json]

Also says where the time went: the operators of each, by the profiler.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sfumato import models

GROUPS = {
    "linear layers": ("aten::addmm", "aten::mm"),
    "attention products": ("aten::bmm", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    "softmax": ("aten::_softmax",),
    "copies and joins": ("aten::copy_", "aten::cat"),
    "sums": ("aten::add", "aten::add_", "aten::mul"),
    "convolution": ("aten::mkldnn_convolution", "aten::_slow_conv2d_forward"),
    "max-pool": ("aten::max_pool3d_with_indices",),
    "gelu": ("aten::gelu",),
    "layer norm": ("aten::native_layer_norm",),
}


def torchvision_mvit() -> Any:
    """torchvision's module, importable beside a CPU torch once two schemas are defined."""
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    import torchvision.models.video.mvit as module

    module._keep_alive = library
    return module


def interleaved(
    runs: dict[str, Callable[[], Tensor]], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Best wall and best processor time of each run, in turns so that a busy machine hurts all alike."""
    wall, processor = dict.fromkeys(runs, float("inf")), dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start, used = time.perf_counter(), time.process_time()
            run()
            wall[name] = min(wall[name], time.perf_counter() - start)
            processor[name] = min(processor[name], time.process_time() - used)
    return wall, processor


def where(run: Callable[[], Tensor]) -> dict[str, float]:
    """Seconds by group of operators."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    seconds = {row.key: row.self_cpu_time_total / 1e6 for row in profile.key_averages()}
    known = {group: sum(seconds.get(key, 0.0) for key in keys) for group, keys in GROUPS.items()}
    return {**known, "the rest": sum(seconds.values()) - sum(known.values())}


def measure(threads: int = 2, rounds: int = 5) -> dict[str, Any]:
    """Times, ratio, largest difference of the outputs, and where the time went."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    theirs: nn.Module = torchvision_mvit().mvit_v2_s().eval()
    ours = models.mvit_v2_s().eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    clip = torch.randn(1, 3, 16, 224, 224)
    runs: dict[str, Callable[[], Tensor]] = {
        "torchvision": lambda: theirs(clip),
        "sfumato": lambda: ours(clip),
    }
    with torch.no_grad():
        difference = float((theirs(clip) - ours(clip)).abs().max())
        best, processor = interleaved(runs, rounds)
        parts = {name: where(run) for name, run in runs.items()}
    return {
        "threads": threads,
        "seconds": best,
        "processor seconds": processor,
        "faster": best["torchvision"] / best["sfumato"],
        "largest difference": difference,
        "where": parts,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options.threads, options.rounds)
    if options.json:
        print(json.dumps(result))
        return 0
    seconds, processor = result["seconds"], result["processor seconds"]
    print(f"MViTv2-S, one clip 16x224x224, {result['threads']} threads, best of {options.rounds}")
    for name, value in seconds.items():
        print(f"  {name:12} {value:6.2f} s wall, {processor[name]:6.2f} s processor")
    print(f"  {result['faster']:.2f}x faster, outputs differ by {result['largest difference']:.1e}")
    print(f"  {'seconds in':22} {'torchvision':>12} {'sfumato':>9}")
    for group, value in result["where"]["torchvision"].items():
        print(f"  {group:22} {value:12.2f} {result['where']['sfumato'][group]:9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
