"""Mistakes in releases: video (24-29, 37, 41, 42), PASS-LDP (30-33)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_DPRP = "tests/protect/test_dprp.py"
_BASES = "tests/protect/test_bases.py"
_UNIT = f"{_DPRP}::test_no_change_within_the_unit_costs_more_than_promised"
_NOISE = f"{_DPRP}::test_noise_is_standard_normal_and_independent_everywhere"
_LDP = "tests/protect/test_pass_ldp.py"
_ENUMERATION = (f"{_LDP}::test_no_log_ratio_exceeds_epsilon_on_and_opposite_to_donors",)
_SAMPLE = (f"{_LDP}::test_draws_are_random_and_not_the_best_donor",)

_NORMAL = "drawn = self.generator.standard_normal(coefficients.shape, dtype=np.float32)"
_SOFTMAX = "return torch.softmax(self.epsilon / 4.0 * cosine, 1)"
_UNITS = "unit = nn.functional.normalize(embedded.to(torch.float64), dim=1)"
_DRAW = "chosen = draw(self._rows(nn.functional.normalize(means, dim=1)), self._generator)"


def _blocks(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("protect/video/_noisy_blocks.py", old, new),)


def _ldp(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("protect/attributes/_ldp.py", old, new),)


MUTANTS = (
    Mutant(
        "24",
        "video: theta = 255/sqrt(k)",
        (
            Patch(
                "protect/video/_dprp.py",
                "return PEAK * self.basis(shape, frames).gain(*unit_extent(unit or self.unit, shape))",
                "return PEAK / float(np.sqrt(self.basis(shape, frames).coefficients))",
            ),
        ),
        (_UNIT,),
    ),
    Mutant(
        "25",
        "video: sqrt 3 for the channels forgotten",
        (
            Patch(
                "protect/video/_bases.py",
                "return math.sqrt(CHANNELS * space * time)",
                "return math.sqrt(space * time)",
            ),
        ),
        (_UNIT,),
    ),
    Mutant(
        "26b",
        "video: the same noise on all blocks",
        _blocks(
            _NORMAL,
            _NORMAL.replace("self.generator", '__import__("copy").deepcopy(self.generator)'),
        ),
        (_NOISE,),
    ),
    Mutant(
        "26a",
        "video: the same noise on all channels",
        _blocks(
            _NORMAL,
            "drawn = np.repeat(self.generator.standard_normal(\n"
            "                (*coefficients.shape[:-1], 1), dtype=np.float32), "
            "coefficients.shape[-1], axis=-1)",
        ),
        (_NOISE,),
    ),
    Mutant(
        "27",
        "video: DC coefficient without noise",
        _blocks(_NORMAL, _NORMAL + "\n            drawn.reshape(-1)[:3] = 0"),
        (_NOISE,),
    ),
    Mutant(
        "28",
        "video: DCT that is not orthonormal",
        (
            Patch(
                "protect/video/_bases.py",
                "    matrix *= math.sqrt(2.0 / size)\n    matrix[0] /= math.sqrt(2.0)\n",
                "    matrix *= 2.0\n",
            ),
        ),
        (f"{_BASES}::test_analysis_has_orthonormal_rows", _UNIT),
    ),
    Mutant(
        "29",
        "video: scaled by the private maximum",
        _blocks(
            "            block -= GREY\n",
            "            block -= GREY\n            block *= 127.5 / max(1.0, float(np.abs(block).max()))\n",
        ),
        (
            f"{_DPRP}::test_output_depends_on_the_video_only_through_the_noised_coefficients",
            f"{_DPRP}::test_each_frame_enters_exactly_one_block",
        ),
    ),
    Mutant(
        "30",
        "PASS-LDP: temperature 0.01",
        _ldp(_SOFTMAX, "return torch.softmax(cosine / 0.01, 1)"),
        _ENUMERATION,
    ),
    Mutant(
        "31",
        "PASS-LDP: t = epsilon/2",
        _ldp(_SOFTMAX, _SOFTMAX.replace("4.0", "2.0")),
        _ENUMERATION,
    ),
    Mutant(
        "32a",
        "PASS-LDP: embeddings not normalised",
        (
            *_ldp(_UNITS, "unit = embedded.to(torch.float64)"),
            *_ldp("cosine = (unit @ donors.T).clamp(-1.0, 1.0)", "cosine = unit @ donors.T"),
        ),
        _ENUMERATION,
    ),
    Mutant(
        "32b",
        "PASS-LDP: truncated to the best donors",
        _ldp(
            _SOFTMAX,
            "best = cosine.topk(2, dim=1).values[:, -1:]\n"
            "        scores = (self.epsilon / 4.0 * cosine).masked_fill(cosine < best, -100.0)\n"
            "        return torch.softmax(scores, 1)",
        ),
        _ENUMERATION,
    ),
    Mutant(
        "33a",
        "PASS-LDP: the best donor instead of a draw",
        (
            Patch(
                "protect/attributes/_pass.py",
                _DRAW,
                "chosen = self._rows(nn.functional.normalize(means, dim=1)).argmax(1).numpy()",
            ),
        ),
        _SAMPLE,
    ),
    Mutant(
        "33b",
        "PASS-LDP: draws from a fixed seed",
        (
            Patch(
                "protect/attributes/_pass.py",
                _DRAW,
                _DRAW.replace("self._generator", "np.random.default_rng(0)"),
            ),
        ),
        _SAMPLE,
    ),
    Mutant(
        "37",
        "public layer through a lossy codec",
        (
            Patch(
                "protect/video/avatar/_layers.py",
                'self._layer = VideoWriter(layer, rate=rate, size=size, codec="ffv1", force=force)',
                'self._layer = VideoWriter(layer, rate=rate, size=size, codec="h264", force=force)',
            ),
            Patch(
                "protect/video/avatar/_layers.py",
                "self._layer.write(np.where(chosen, image, np.uint8(0)))",
                "self._layer.write(image)",
            ),
        ),
        (
            "tests/protect/test_seeded_layers.py::test_private_pixels_leave_no_trace_in_the_public_layer",
        ),
        "our layer is black outside the mask, so that must be left out too",
    ),
    Mutant(
        "41",
        "a region from a detector under a guarantee",
        (
            Patch(
                "protect/_limited.py",
                "        if not self.region.public_mask:\n",
                '        if self.region.kind == "mask" and not self.region.public_mask:\n',
            ),
        ),
        (
            "tests/protect/test_regions_and_chains.py::"
            "test_a_region_found_by_a_detector_voids_the_guarantee",
        ),
    ),
    Mutant(
        "42",
        "blocks overlap by one frame, uncounted",
        (
            *_blocks("            del held[:size]\n", "            del held[: size - 1]\n"),
            *_blocks("for part in (held[:half], held[half:]):", "for part in (held,):"),
            *_blocks(
                "            yield from back.astype(np.uint8)\n",
                "            yield from back.astype(np.uint8)[getattr(self.basis, 'again', 0) :]\n"
                "            self.basis.again = 1\n",
            ),
        ),
        ("tests/protect/test_seeded_blocks.py::test_a_frame_moves_the_coefficients_of_one_block",),
    ),
)
