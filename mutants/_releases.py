"""Mistakes in releases: video (24-29, 37, 41, 42), PASS-LDP (30-33), noise on a lattice (150-164), avatars (360-362)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_DPRP = "tests/protect/noise/test_dprp.py"
_BASES = "tests/protect/noise/test_bases.py"
_UNIT = f"{_DPRP}::test_no_change_within_the_unit_costs_more_than_promised"
_NOISE = f"{_DPRP}::test_noise_is_standard_normal_and_independent_everywhere"
_LATTICE = "tests/protect/noise/test_lattice.py"
_DISCRETE = "tests/privacy/test_discrete.py"
_LDP = "tests/attributes/test_pass_ldp.py"
_ENUMERATION = (f"{_LDP}::test_no_log_ratio_exceeds_epsilon_on_and_opposite_to_donors",)
_SAMPLE = (f"{_LDP}::test_draws_are_random_and_not_the_best_donor",)

_DRAWN = "points += self.noise.draw(points.size, stream).reshape(points.shape)"
_EXPONENT = "torch.exp(self.epsilon / 4.0 * (cosine - 1.0))"
_COSINE = "cosine = (unit @ donors.T).nan_to_num(0.0).clamp(-1.0, 1.0)"
_UNITS = "unit = nn.functional.normalize(embedded.to(torch.float64), dim=1)"
_CLIPPED = "np.clip(np.rint(wanted), least, largest)"
_CHOSEN = "choose(self._weights(part), self._stream)"


def _blocks(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("protect/noise/_noisy_blocks.py", old, new),)


def _noised(new: str) -> tuple[Patch, ...]:
    return (Patch("protect/noise/_lattice.py", _DRAWN, new),)


def _discrete(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("privacy/_discrete.py", old, new),)


def _ldp(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("attributes/_ldp.py", old, new),)


# weights are kept within bounds that prove epsilon, so a wrong score needs that left out as well
_UNBOUNDED = _ldp(_CLIPPED, "np.maximum(np.rint(wanted), 1)")
_BOUNDS_NOTE = "weights are kept within bounds, so that must be left out too"


_AVATARS = "tests/protect/avatar/test_avatar_people.py"

MUTANTS = (
    Mutant(
        "24",
        "video: theta = 255/sqrt(k)",
        (
            Patch(
                "protect/noise/_dprp.py",
                "return reach_of(self.basis(shape, frames), *unit_extent(unit or self.unit, shape))",
                "basis = self.basis(shape, frames)\n"
                "        reach = reach_of(basis, *unit_extent(unit or self.unit, shape))\n"
                "        return replace(reach, length=255.0 / float(np.sqrt(basis.coefficients)))",
            ),
        ),
        (_UNIT,),
    ),
    Mutant(
        "25",
        "video: sqrt 3 for the channels forgotten",
        (
            Patch(
                "protect/noise/_bases.py",
                "return math.sqrt(CHANNELS * space * time)",
                "return math.sqrt(space * time)",
            ),
        ),
        (_UNIT,),
    ),
    Mutant(
        "26b",
        "video: the same noise on all blocks",
        _noised(_DRAWN.replace("stream)", "type(stream)(bytes(32)))")),
        (_NOISE,),
    ),
    Mutant(
        "26a",
        "video: the same noise on all channels",
        _noised(
            "few = self.noise.draw(points.size // points.shape[-1], stream)\n"
            "        points += few.reshape(*points.shape[:-1], 1)"
        ),
        (_NOISE,),
    ),
    Mutant(
        "27",
        "video: DC coefficient without noise",
        _noised(
            "drawn = self.noise.draw(points.size, stream)\n"
            "        drawn[:3] = 0\n"
            "        points += drawn.reshape(points.shape)"
        ),
        (_NOISE,),
    ),
    Mutant(
        "28",
        "video: DCT that is not orthonormal",
        (
            Patch(
                "protect/noise/_bases.py",
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
        (*_UNBOUNDED, *_ldp(_EXPONENT, "torch.exp((cosine - 1.0) / 0.01)")),
        _ENUMERATION,
        _BOUNDS_NOTE,
    ),
    Mutant(
        "31",
        "PASS-LDP: t = epsilon/2",
        (*_UNBOUNDED, *_ldp(_EXPONENT, _EXPONENT.replace("4.0", "2.0"))),
        _ENUMERATION,
        _BOUNDS_NOTE,
    ),
    Mutant(
        "32a",
        "PASS-LDP: embeddings not normalised",
        (
            *_UNBOUNDED,
            *_ldp(_UNITS, "unit = embedded.to(torch.float64)"),
            *_ldp(_COSINE, "cosine = unit @ donors.T"),
        ),
        _ENUMERATION,
        _BOUNDS_NOTE,
    ),
    Mutant(
        "32b",
        "PASS-LDP: truncated to the best donors",
        (
            *_UNBOUNDED,
            *_ldp(
                _COSINE,
                _COSINE + "\n        best = cosine.topk(2, dim=1).values[:, -1:]"
                "\n        cosine = cosine.masked_fill(cosine < best, -100.0)",
            ),
        ),
        _ENUMERATION,
        _BOUNDS_NOTE,
    ),
    Mutant(
        "33a",
        "PASS-LDP: the best donor instead of a draw",
        _ldp(_CHOSEN, "self._weights(part).argmax(1)"),
        _SAMPLE,
    ),
    Mutant(
        "33b",
        "PASS-LDP: draws from a fixed seed",
        (
            *_ldp(
                "from sfumato.privacy import (", "from sfumato.privacy import (\n    Randomness,"
            ),
            *_ldp(_CHOSEN, _CHOSEN.replace("self._stream", "Randomness(0).keystream()")),
        ),
        _SAMPLE,
    ),
    Mutant(
        "37",
        "public layer through a lossy codec",
        (
            Patch(
                "protect/avatar/_layers.py",
                'self._layer = VideoWriter(layer, rate=rate, size=size, codec="ffv1", force=force)',
                'self._layer = VideoWriter(layer, rate=rate, size=size, codec="h264", force=force)',
            ),
            Patch(
                "protect/avatar/_layers.py",
                "self._layer.write(np.where(public[..., None], image, np.uint8(0)))",
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
        (
            "tests/protect/noise/test_seeded_blocks.py::test_a_frame_moves_the_coefficients_of_one_block",
        ),
    ),
    Mutant(
        "150",
        "lattice: coefficients analysed to single precision only",
        (
            Patch(
                "protect/noise/_bases.py",
                "return np.asarray(found.transpose(2, 3).contiguous().numpy())",
                "return np.asarray(found.transpose(2, 3).contiguous().float().double().numpy())",
            ),
        ),
        (f"{_LATTICE}::test_a_pixel_moves_the_mean_of_a_large_picture_no_further_than_stated",),
    ),
    Mutant(
        "151",
        "lattice: rounding left out of the sensitivity",
        (
            Patch(
                "protect/noise/_lattice.py",
                "rounded = self.spread * (_LONGER * spacing + 2 * self.error)",
                "rounded = 0.0",
            ),
        ),
        (
            f"{_LATTICE}::test_rounding_can_move_neighbours_further_than_their_coefficients_are",
            f"{_LATTICE}::test_no_neighbours_are_further_apart_in_steps_than_stated",
        ),
    ),
    Mutant(
        "152",
        "lattice: rounding counted in one block of several",
        (
            Patch(
                "protect/noise/_bases.py",
                "return frames * self.coefficients",
                "return self.coefficients",
            ),
        ),
        (f"{_LATTICE}::test_rounding_is_counted_in_every_block_that_the_unit_touches",),
    ),
    Mutant(
        "153",
        "lattice: rounding of a sum of moves counted as of a length",
        (
            Patch(
                "protect/noise/_lattice.py",
                "return float(self.touched) if self.order == 1 else math.sqrt(self.touched)",
                "return math.sqrt(self.touched)",
            ),
        ),
        (f"{_LATTICE}::test_no_neighbours_are_further_apart_in_steps_than_stated",),
    ),
    Mutant(
        "154",
        "lattice: largest singular value taken from below",
        (
            Patch(
                "protect/noise/_random_bases.py",
                "return math.sqrt(top * (1 + raised) + factored + summed) * RAISED",
                "return math.sqrt(top) * (1 - 1e-9)",
            ),
        ),
        (f"{_LATTICE}::test_the_largest_singular_value_is_bounded_from_above_and_closely",),
    ),
    Mutant(
        "155",
        "discrete noise: a tie in 64 bits is not looked at further",
        _discrete("for tied in np.flatnonzero(floors[cell] == place):", "for tied in ():"),
        (f"{_DISCRETE}::test_a_tie_in_64_bits_is_settled_by_further_bits",),
    ),
    Mutant(
        "156",
        "discrete noise: minus zero is kept",
        _discrete("kept &= ~(negative & (values == 0))", "kept &= True"),
        (f"{_DISCRETE}::test_values_have_their_exact_probabilities",),
    ),
    Mutant(
        "157",
        "discrete noise: thresholds to 53 bits, as a float has them",
        _discrete(
            'floors = np.array(cumulative(kind == "gaussian", cells, 64), dtype=np.uint64)',
            'floors = np.array(cumulative(kind == "gaussian", cells, 64), dtype=np.uint64)\n'
            "    floors = floors >> np.uint64(11) << np.uint64(11)",
        ),
        (f"{_DISCRETE}::test_a_tie_in_64_bits_is_settled_by_further_bits",),
    ),
    Mutant(
        "158",
        "discrete noise: thresholds of another width",
        (
            Patch(
                "privacy/_exact.py",
                "first = exponential(1, 2 * cells + 1, precision)",
                "first = exponential(1, 2 * cells, precision)",
            ),
        ),
        (f"{_DISCRETE}::test_values_have_their_exact_probabilities",),
    ),
    Mutant(
        "159",
        "discrete noise: the second step always keeps",
        _discrete("(heads,) = np.nonzero(first < exponents)", "(heads,) = np.nonzero(first < 0)"),
        (f"{_DISCRETE}::test_values_have_their_exact_probabilities",),
    ),
    Mutant(
        "160",
        "discrete noise: the last bits are always zero",
        _discrete("return low & ((1 << below) - 1)", "return low & ((1 << below) - 1) & ~15"),
        (f"{_DISCRETE}::test_wide_noise_is_right_in_its_shape_and_in_its_last_bits",),
    ),
    Mutant(
        "161",
        "discrete noise: words modulo a limit, biased",
        _discrete("np.flatnonzero(drawn > last)", "np.flatnonzero(drawn > ones)"),
        (
            f"{_DISCRETE}::"
            "test_whole_numbers_below_a_limit_are_uniform_and_biased_words_are_drawn_again",
        ),
    ),
    Mutant(
        "162",
        "coins: threshold rounded to the side that promises more",
        _discrete(
            "return -(-(numerator << 64) // denominator)", "return (numerator << 64) // denominator"
        ),
        (f"{_DISCRETE}::test_coins_show_heads_no_less_often_than_asked",),
    ),
    Mutant(
        "163",
        "PASS-LDP: no floor under the weights",
        _ldp(_CLIPPED, _CLIPPED.replace("least, largest", "0, largest")),
        (f"{_LDP}::test_epsilon_holds_whatever_the_cosines_come_out_as",),
    ),
    Mutant(
        "164",
        "card: floating-point attacks covered whatever the promise says",
        (
            Patch(
                "privacy/_card_page.py",
                "if isinstance(promise, Guarantee) and DRAWN_EXACTLY in promise.public:",
                "if isinstance(promise, Guarantee):",
            ),
        ),
        ("tests/privacy/test_card.py::test_only_a_promise_that_says_so_covers_floating_point",),
    ),
)

# -- cards, reports and what audits leave behind ---------------------------------------------------

_TRUST = "tests/privacy/test_card_trust.py"
_INPUTS = "tests/report/test_report_inputs.py"
_LEAKS = "tests/audit/attack/test_leaks_by_card.py"


def _card(old: str, new: str, file: str = "_card") -> tuple[Patch, ...]:
    return (Patch(f"privacy/{file}.py", old, new),)


MUTANTS += (
    Mutant(
        "120",
        "a card speaks for a file that it does not name",
        _card(
            "    if output.name not in {each.name for each in card.outputs}:\n",
            "    if False:\n",
            "_card_files",
        ),
        (
            "tests/cli/test_cards_in_verbs.py::test_the_card_of_another_file_is_refused",
            f"{_TRUST}::test_the_card_of_another_file_is_no_card",
        ),
    ),
    Mutant(
        "121",
        "signatures cover what this version derives, not what is stored",
        _card(
            'return self.stored or {**self._derived, "readable": self.readable}',
            'return {**self._derived, "readable": self.readable}',
        ),
        (
            f"{_TRUST}::test_forged_words_break_a_signature",
            f"{_TRUST}::test_better_words_of_a_later_version_keep_a_signature",
        ),
    ),
    Mutant(
        "122",
        "a stored epsilon of NaN or infinity is above everything",
        (
            Patch(
                "privacy/_guarantee.py",
                "if not is_real(stored) or not abs(stored) <= _LARGEST:",
                "if not is_real(stored):",
            ),
        ),
        (f"{_TRUST}::test_a_stored_guarantee_has_a_finite_epsilon",),
    ),
    Mutant(
        "123",
        "control characters of a card reach the terminal",
        _card(
            'unicodedata.category(character) in {"Cc", "Cs"}', "character == chr(0)", "_card_text"
        ),
        (f"{_TRUST}::test_nothing_on_a_card_can_move_a_cursor",),
    ),
    Mutant(
        "124",
        "the readable page is never compared",
        _card(
            "    if not page.is_file() or sha256(page) != found.card.readable:\n",
            "    if False:\n",
            "_card_files",
        ),
        (f"{_TRUST}::test_a_changed_page_is_noticed",),
    ),
    Mutant(
        "125",
        "an alarm at a confidence that sound mechanisms exceed",
        (Patch("privacy/verdict.py", "if level >= ALARM]", "if level >= 0.999]"),),
        ("tests/audit/test_verdict_file.py::test_audit_and_report_raise_the_same_alarm",),
    ),
    Mutant(
        "126",
        "a report shows a private preview under another name",
        (
            Patch(
                "report/_collect.py", "        elif says_private(path):\n", "        elif False:\n"
            ),
        ),
        (f"{_INPUTS}::test_what_says_that_it_is_private_is_refused_whatever_its_name",),
    ),
    Mutant(
        "127",
        "a picture without a card is called released",
        (
            Patch(
                "report/_collect.py",
                "self._picture(path, vouched=self._vouched(path))",
                "self._picture(path, vouched=True)",
            ),
        ),
        (f"{_INPUTS}::test_a_picture_without_a_card_is_never_called_protected",),
    ),
    Mutant(
        "128",
        "no attack succeeded, though some could not be judged",
        (
            Patch(
                "report/_page.py",
                "harmless = 0 if leaking or unjudged else total",
                "harmless = 0 if leaking else total",
            ),
        ),
        (
            "tests/report/test_report_page.py::"
            "test_none_is_said_only_when_every_attack_could_be_judged",
        ),
    ),
    Mutant(
        "129",
        "bodies are no leaks where people were covered",
        (
            Patch(
                "audit/_released.py",
                'return HidingScope(True, f"its card says',
                'return HidingScope(False, f"its card says',
            ),
        ),
        (f"{_LEAKS}::test_bodies_are_leaks_only_where_they_were_covered",),
    ),
    Mutant(
        "130",
        "an audit writes into the released folder",
        (
            Patch(
                "audit/_released.py",
                "if folder.name and folder.is_dir() and _is_release(folder):",
                "if False:",
            ),
        ),
        (f"{_LEAKS}::test_results_about_a_file_of_a_released_folder_lie_beside_the_folder",),
    ),
    Mutant(
        "131",
        "the sheet of an audit is audited as a recording",
        (
            Patch(
                "audit/_released.py",
                "if path not in sidecars and not path.name.endswith(_SHEETS) and not _private(path)",
                "if path not in sidecars",
            ),
        ),
        (f"{_LEAKS}::test_the_sheet_lies_beside_the_release_says_what_it_is_and_is_no_recording",),
    ),
    Mutant(
        "132",
        "the card names packages that nothing used",
        (
            Patch(
                "protect/_release.py",
                "return versions_of(*dict.fromkeys((codec, *method.packages, *runtimes)))",
                'return versions_of(codec, "torch", "dp-accounting")',
            ),
        ),
        (
            "tests/protect/test_card_says_what_ran.py::"
            "test_the_card_of_a_blur_names_its_detectors_and_their_runtime",
        ),
    ),
    Mutant(
        "133",
        "previews do not say inside what they are",
        (
            Patch(
                "protect/_review_exports.py",
                "write_image(temporary, shown, note=PRIVATE_NOTE, force=True)",
                "write_image(temporary, shown, force=True)",
            ),
        ),
        (
            "tests/protect/test_review_exports.py::test_what_was_found_is_exported_reviewed_and_shown",
        ),
    ),
)

# Files, folders and what passes through without noise (R14, R20, R22).
_RELEASE = "tests/protect/test_release.py"
_JOBS = "tests/jobs/test_folder_jobs.py"
_FILES = "tests/test_files.py"
_TIMING = f"{_RELEASE}::test_nothing_of_the_timing_passes_where_a_whole_recording_is_protected"
_ONCE = f"{_JOBS}::test_under_a_guard_nothing_published_is_made_again"
_EQUAL = f"{_JOBS}::test_equal_recordings_are_one"
_FOREIGN = f"{_FILES}::test_folders_that_sfumato_did_not_make_are_never_touched"

MUTANTS += (
    Mutant(
        "180",
        "frame times pass under a guarantee for a whole recording",
        (
            Patch(
                "protect/_release.py",
                "return isinstance(promise, NoGuarantee) or promise.unit.kind in _INSIDE_A_RECORDING",
                "return True",
            ),
        ),
        (_TIMING,),
    ),
    Mutant(
        "181",
        "the shape of the pixels passes",
        (
            Patch(
                "media/_info.py",
                "            pixel_aspect=Fraction(1),",
                "            pixel_aspect=self.pixel_aspect,",
            ),
        ),
        (_TIMING,),
    ),
    Mutant(
        "182",
        "the exact rate passes",
        (Patch("media/_info.py", "rate = usual_rate(self.rate)", "rate = self.rate"),),
        ("tests/media/test_video_timing.py::test_a_usual_grid_tells_one_of_a_few_rates",),
    ),
    Mutant(
        "183",
        "the card does not name what stays public",
        (
            Patch(
                "protect/_release.py",
                "return replace(promise, public=(*promise.public, kept, *copies))",
                "return promise",
            ),
        ),
        (f"{_RELEASE}::test_where_times_are_kept_the_card_says_so",),
    ),
    Mutant(
        "184",
        "a lost output of a folder is drawn again under its open reservation",
        (
            Patch(
                "jobs/_run.py",
                'if state == "missing":\n                if self.guard is not None:',
                'if state == "missing":\n                if False:',
            ),
        ),
        (_ONCE,),
    ),
    Mutant(
        "185",
        "equal recordings of a folder are released twice and counted once",
        (Patch("jobs/_run.py", "        if other is None:\n", "        if other is not False:\n"),),
        (_EQUAL,),
    ),
    Mutant(
        "186",
        "the same recording in another container is another recording",
        (Patch("jobs/_manifest.py", "self._contents.get(digest), content):", "):"),),
        (_EQUAL,),
    ),
    Mutant(
        "187",
        "a folder job reserves under its path, not under a run",
        (
            Patch(
                "jobs/_manifest.py",
                "run = new_run_id()",
                'run = __import__("hashlib").md5(str(self.path).encode()).hexdigest()',
            ),
        ),
        (_ONCE,),
    ),
    Mutant(
        "188",
        "previews and exports go into the folder of the release",
        (
            Patch(
                "protect/_before_after.py",
                "if is_within(path, folder) and not is_within(source, folder):",
                "if False:",
            ),
        ),
        (
            "tests/protect/test_review_exports.py::test_notes_are_private_and_lie_outside_the_release",
        ),
    ),
    Mutant(
        "189",
        "private files are for everybody",
        (Patch("files.py", "0o600 if private else 0o666 & ~_umask()", "0o666 & ~_umask()"),),
        (f"{_FILES}::test_private_outputs_are_for_the_owner_only",),
    ),
    Mutant(
        "190",
        "the size that a JPEG states is not read before decoding",
        (Patch("media/_picture_size.py", "yield _jpeg(data)", "yield 1, 1"),),
        (
            "tests/media/test_images_and_folders.py::"
            "test_the_header_of_every_format_is_read_before_anything_is_decoded",
        ),
    ),
    Mutant(
        "191",
        "frames that the decoder leaves out are not missed",
        (Patch("media/_reader.py", "if left_out > 0:", "if False:"),),
        ("tests/media/test_damaged_videos.py::test_frames_that_the_decoder_leaves_out_are_missed",),
    ),
    Mutant(
        "192",
        "--force replaces the only original",
        (Patch("protect/_release.py", "    refuse_replacing(source, *places)\n", ""),),
        (f"{_RELEASE}::test_the_only_original_is_never_replaced",),
    ),
    Mutant(
        "193",
        "a folder of somebody else is removed for its name",
        (
            Patch(
                "files.py",
                "if still_there and os.read(lock, len(_MARKED)) == _MARKED:",
                "if still_there:",
            ),
        ),
        (_FOREIGN,),
    ),
    Mutant(
        "194",
        "the temporary folder of a run that lives is removed",
        (
            Patch(
                "files.py",
                "        lock_file(lock)\n        still_there",
                "        still_there",
            ),
        ),
        (f"{_FILES}::test_a_run_that_lives_is_not_disturbed",),
    ),
    Mutant(
        "195",
        "a foreign file in the manifest's place is cut",
        (
            Patch(
                "jobs/_manifest.py",
                "                if not self.run:\n                    raise self._unreadable()\n",
                "",
            ),
        ),
        (f"{_JOBS}::test_a_foreign_file_in_the_manifests_place_is_left_as_it_is",),
    ),
    Mutant(
        "196",
        "the ledger is spent before names are checked",
        (
            Patch(
                "protect/_release.py",
                "    require_target(source, target, how, sidecars=sidecars, force=force)\n",
                "",
            ),
        ),
        (f"{_RELEASE}::test_nothing_is_spent_on_what_is_known_to_fail",),
    ),
    Mutant(
        "197",
        "ok is true beside failures",
        (Patch("cli/_output.py", '"ok": ok}', '"ok": True}'),),
        ("tests/cli/test_ended_runs.py::test_ok_is_false_beside_a_failure",),
    ),
    Mutant(
        "198",
        "a folder agrees although no card speaks for one of its files",
        (Patch("privacy/_verify.py", "problems[name] = _uncovered(path)", "pass"),),
        (
            "tests/cli/test_cards_in_verbs.py::"
            "test_a_folder_does_not_agree_if_one_file_of_it_does_not",
        ),
    ),
    Mutant(
        "199",
        "what a folder job does not take is not named",
        (Patch("jobs/_run.py", "        outcomes.beyond += [\n", "        _ = [\n"),),
        (f"{_JOBS}::test_everything_in_a_folder_is_done_failed_or_named",),
    ),
    Mutant(
        "200",
        "the encoder reads memory that may hold the original",
        (Patch("media/_codecs.py", '_NO_STALE_MEMORY = {"mbtree": "0"}', "_NO_STALE_MEMORY = {}"),),
        ("tests/media/test_metadata_and_sound.py::test_what_memory_held_before_leaves_no_trace",),
    ),
)

_METADATA = "tests/attributes/test_pass_metadata.py"
_SETTINGS = "tests/cli/test_odd_settings.py"
_INPUT = "tests/cli/test_odd_input.py"

# Typed settings, refusals of the machine, and what a release of donors' files shows.
MUTANTS += (
    Mutant(
        "210",
        "PASS: donors' recordings are copied with their metadata",
        (
            Patch(
                "attributes/_layouts.py",
                "wavfile.write(target, *read_wav(recording))",
                "target.write_bytes(recording.read_bytes())",
            ),
        ),
        (f"{_METADATA}::test_no_metadata_of_a_donors_recording_is_released[int16]",),
    ),
    Mutant(
        "211",
        "PASS: the times of released files show an order",
        (Patch("attributes/_command.py", "level_times(fresh)", "fresh.stat()"),),
        (f"{_METADATA}::test_equal_donors_give_equal_bytes_and_nothing_shows_an_order",),
    ),
    Mutant(
        "212",
        "PASS: a file beside a record is of another donor",
        (
            Patch(
                "attributes/_layouts.py",
                "write_pixels(faces[index].x, path)",
                "write_pixels(faces[index - 1].x, path)",
            ),
        ),
        (f"{_METADATA}::test_pictures_in_an_archive_and_of_celeba_are_written_anew_too",),
    ),
    Mutant(
        "213",
        "settings passed in Python are not checked",
        (Patch("protect/_method.py", "if method.__init__ is checking:", "if False:"),),
        (f"{_SETTINGS}::test_the_constructor_checks_what_is_passed_in_python_too",),
    ),
    Mutant(
        "214",
        "true is taken for the number 1",
        (Patch("settings.py", "if isinstance(value, bool):", "if False:"),),
        (f"{_SETTINGS}::test_the_constructor_checks_what_is_passed_in_python_too",),
    ),
    Mutant(
        "215",
        "a typed value may refer to itself",
        (Patch("settings.py", "    aliases = False\n", "    aliases = True\n"),),
        (f"{_SETTINGS}::test_values_that_could_do_harm_are_not_read",),
    ),
    Mutant(
        "216",
        "a full or read-only disk is called a bug",
        (
            Patch(
                "cli/main.py",
                "if isinstance(error, OSError | MemoryError):",
                "if isinstance(error, MemoryError):",
            ),
        ),
        (f"{_INPUT}::test_whatever_the_disk_refuses_is_one_sentence",),
    ),
    Mutant(
        "217",
        "an error shows the path of a file that nobody typed",
        (
            Patch(
                "errors.py",
                "    if not isinstance(path, str):\n        return None\n",
                "    return str(path)\n",
            ),
        ),
        (f"{_INPUT}::test_only_paths_that_were_typed_are_shown",),
    ),
    Mutant(
        "218",
        "a malformed file shows its content in the message",
        (
            Patch(
                "errors.py",
                "cannot be read as that ({type(wrong).__name__}): ",
                "cannot be read as that ({wrong!r}): ",
            ),
        ),
        (f"{_INPUT}::test_a_file_that_cannot_be_read_is_named_by_kind_only",),
    ),
    Mutant(
        "219",
        "an empty argument means this folder",
        (Patch("cli/main.py", "        _refuse_empty_words(sys.argv[1:])\n", ""),),
        (f"{_INPUT}::test_an_empty_argument_does_not_mean_this_folder",),
    ),
    Mutant(
        "240",
        "a copy in another container is paid for again by every run",
        (
            Patch(
                "jobs/_publish.py",
                "                job.manifest.note_content(entry.digest, entry.content)\n",
                "                pass\n",
            ),
        ),
        (
            "tests/jobs/test_folder_jobs.py::test_the_same_recording_in_another_file_is_not_paid_for_again",
        ),
    ),
    Mutant(
        "241",
        "the ledger is spent before a name is found that no card may hold",
        (
            Patch(
                "protect/_release.py",
                "    if character := control_character(target.name):",
                "    if (character := control_character(target.name)) and not source.exists():",
            ),
        ),
        (f"{_RELEASE}::test_nothing_is_spent_on_what_is_known_to_fail",),
    ),
    Mutant(
        "242",
        "the card does not say that copies within a folder show",
        (Patch("protect/_release.py", "(_PUBLIC_COPIES,) if how.of_folder else ()", "()"),),
        (f"{_RELEASE}::test_finished_items_of_a_folder_are_never_drawn_again_under_one_entry",),
    ),
    Mutant(
        "243",
        "a name that leads to the original by a hard link is another file",
        (
            Patch(
                "files.py",
                "    return identity is not None and any(_identity(each) == identity for each in above)",
                "    return identity is not None and False",
            ),
        ),
        ("tests/test_files.py::test_one_file_under_any_of_its_names_is_within_its_folder",),
    ),
    Mutant(
        "171",
        "of two values for one name in a training file the last is taken",
        (Patch("settings.py", "if names.count(name) > 1), None):", "if False), None):"),),
        (f"{_SETTINGS}::test_a_name_with_two_values_is_refused_and_not_the_last_one_taken",),
    ),
    Mutant(
        "172",
        "--epsilon 8 --set epsilon=2 is 2",
        (
            Patch(
                "cli/protect.py",
                "if twice := sorted(found.keys() & typed.keys()):",
                "if twice := sorted(set[str]()):",
            ),
        ),
        (f"{_SETTINGS}::test_a_setting_that_is_said_twice_is_refused",),
    ),
    Mutant(
        "173",
        "a slip in one letter's case finds another budget",
        (Patch("ledger/_ledger.py", "            if alike:\n", "            if False:\n"),),
        ("tests/ledger/test_ledger_budget.py::test_a_slip_in_case_finds_no_second_budget",),
    ),
    Mutant(
        "174",
        "one recording under two names of a list has two coins",
        (Patch("data/_manifests.py", "        if content in seen:\n", "        if False:\n"),),
        ("tests/data/test_manifests.py::test_one_recording_under_two_names_is_refused",),
    ),
    Mutant(
        "175",
        "one person under two spellings of a list has two coins",
        (
            Patch(
                "data/_manifests.py",
                "if spelling.setdefault(folded, name) != name:",
                "if spelling.setdefault(name, name) != name:",
            ),
        ),
        ("tests/data/test_manifests.py::test_one_person_under_two_spellings_is_refused",),
    ),
    Mutant(
        "360",
        "avatar: a mirrored look keeps its left and right",
        (
            Patch(
                "protect/avatar/_sighted.py",
                "points = pose.points[_OTHER_SIDE] * across",
                "points = pose.points * across",
            ),
        ),
        (f"{_AVATARS}::test_a_mirrored_look_finds_what_a_straight_one_does",),
    ),
    Mutant(
        "361",
        "avatar: joints that were guessed inside a box count as seen",
        (
            Patch(
                "protect/avatar/_sighted.py",
                'joints[:, 2] *= seen_now and not _WITHOUT_JOINTS.issuperset(person.evidence.split("+"))',
                "joints[:, 2] *= seen_now",
            ),
        ),
        (f"{_AVATARS}::test_joints_that_were_guessed_inside_a_box_are_not_evidence",),
    ),
    Mutant(
        "362",
        "avatar: a face that was left is covered by itself, blurred",
        (
            Patch(
                "protect/avatar/_replace.py",
                "image[place] = fill_around(image[place], hidden[place], texture=False)",
                "image[place] = cv2.blur(image[place], (9, 9))",
            ),
        ),
        (f"{_AVATARS}::test_a_face_that_is_left_is_covered_by_its_surroundings_alone",),
    ),
)
