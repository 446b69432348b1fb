"""Mistakes in the private step, its sampler, its public view and its distribution (1-23, 35-40, 44-47, 70-80)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_STEP = "tests/learn/engine/test_private_step.py"
_NOISE = (f"{_STEP}::test_every_block_gets_the_planned_noise",)
_SENSITIVITY = (f"{_STEP}::test_neighbours_move_the_sum_by_at_most_the_clip_norm",)
_SAMPLER = (f"{_STEP}::test_batches_are_drawn_by_independent_coins",)
_VIEW = ("tests/learn/views/test_public_views.py::test_the_public_gradient_ignores_private_pixels",)
_TWO = ("tests/learn/engine/test_two_processes.py::test_two_processes_give_what_one_gives",)
_RESUME = "tests/learn/test_resume.py"
_PLAN, _TRAINING = "tests/learn/test_plan.py", "tests/learn/test_training.py"
_VALIDATORS, _REAL = (
    "tests/learn/engine/test_model_validators.py",
    "tests/learn/test_real_batches.py",
)
_LOOP = "tests/learn/test_own_loop.py"
_CONTRIBUTION = "tests/learn/test_contribution_bound.py"
_BOUND = (
    f"{_CONTRIBUTION}::test_what_is_added_is_the_clipped_gradient",
    f"{_CONTRIBUTION}::test_values_whose_squares_vanish_still_count",
    f"{_CONTRIBUTION}::test_no_record_adds_more_than_the_clip_norm",
)

_ADD = "gradient = gradient.add_(noise, alpha=plan.noise_deviation)"
_CLIPPED = "sums, norms = clipped_rows(model, self._loss, rows, clip_norm, self._speed)"
_PIXELS = "pixels = prepare(masked(record.x, mask), clips)"
_TOO_LONG = "if not bool(norm.square() <= torch.finfo(gradient[0].dtype).max):"
_COINS = "return np.flatnonzero(self._generator.random(self.count) < self.rate)"


def _step(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("learn/engine/_step.py", old, new),)


def _each_record(formula: str) -> str:
    """Clip every record's gradient ``g`` by ``formula`` instead of by its norm."""
    return f"""singles = [
                    clipped_rows(model, self._loss, rows.some(i, i + 1), math.inf, self._speed)[0]
                    for i in range(rows.records)
                ]
                norms = torch.zeros(rows.records)
                sums = {{
                    name: torch.stack([{formula} for g in (one[name] for one in singles)]).sum(0)
                    for name in singles[0]
                }}"""


MUTANTS = (
    Mutant("1", "no noise", _step(_ADD, _ADD.replace("plan.noise_deviation", "0.0")), _NOISE),
    Mutant(
        "2",
        "noise sigma instead of sigma C",
        (
            Patch(
                "learn/_plan.py",
                "return self.noise_multiplier * self.contribution_bound if self.is_private else 0.0",
                "return self.noise_multiplier if self.is_private else 0.0",
            ),
        ),
        _NOISE,
    ),
    Mutant(
        "3",
        "variance taken for standard deviation",
        _step(_ADD, _ADD.replace("noise_deviation", "noise_deviation**2")),
        _NOISE,
    ),
    Mutant(
        "4",
        "noise divided by B twice",
        _step(_ADD, _ADD.replace("plan.noise_deviation", "plan.noise_deviation / plan.divisor")),
        _NOISE,
    ),
    Mutant(
        "5",
        "noise after the mean",
        _step(_ADD, _ADD.replace("plan.noise_deviation", "plan.noise_deviation * plan.divisor")),
        _NOISE,
    ),
    Mutant(
        "6",
        "same noise every step",
        (
            Patch(
                "learn/engine/_noise.py",
                "drawn = self._stream.bits(12 * min(_PAIRS, pairs - start))",
                "drawn = type(self._stream)(bytes(32)).bits(12 * min(_PAIRS, pairs - start))",
            ),
        ),
        _NOISE,
    ),
    Mutant(
        "7",
        "noise on half of the parameters",
        (
            Patch(
                "learn/engine/_noise.py",
                "        return values.flatten()[:count]",
                "        values[1] = 0\n        return values.flatten()[:count]",
            ),
        ),
        _NOISE,
    ),
    Mutant(
        "8",
        "no clipping",
        _step(
            "clip_norm = plan.clip_norm if plan.is_private else math.inf", "clip_norm = math.inf"
        ),
        _SENSITIVITY,
    ),
    Mutant(
        "9",
        "the batch mean is clipped, not the records",
        _step(
            _CLIPPED,
            """sums, norms = clipped_rows(model, self._loss, rows, math.inf, self._speed)
                length = float(torch.stack([s.norm() for s in sums.values()]).norm())
                factor = min(1.0, clip_norm * rows.records / max(length, 1e-12))
                sums = {name: s * factor for name, s in sums.items()}""",
        ),
        _SENSITIVITY,
    ),
    Mutant(
        "10",
        "clip by value",
        _step(_CLIPPED, _each_record("g.clamp(-clip_norm, clip_norm)")),
        _SENSITIVITY,
    ),
    Mutant(
        "11",
        "every layer clipped at C",
        _step(_CLIPPED, _each_record("g * min(1.0, clip_norm / max(float(g.norm()), 1e-12))")),
        _SENSITIVITY,
    ),
    Mutant(
        "12",
        "inverted clip factor",
        (
            Patch(
                "learn/engine/_contributions.py",
                "factors = (clip_norm / norms).clamp(max=1.0)",
                "factors = (norms / clip_norm).clamp(max=1.0)",
            ),
        ),
        _SENSITIVITY,
    ),
    Mutant(
        "13",
        "four augmentations clipped separately",
        _step(
            _CLIPPED,
            "rows = Rows(rows.x, rows.y, torch.ones(rows.records * rows.clips, 1))\n"
            "                " + _CLIPPED,
        ),
        (f"{_STEP}::test_several_clips_move_the_sum_no_further",),
    ),
    Mutant(
        "14",
        "divided by the realised batch size",
        _step("gradient.div_(plan.divisor)", "gradient.div_(max(1, len(drawn)))"),
        (f"{_STEP}::test_the_divisor_and_the_rate_come_from_the_plan_not_from_the_data", *_NOISE),
    ),
    Mutant(
        "15",
        "empty batches skipped",
        _step("        if plan.epsilon > 0:\n", "        if plan.epsilon > 0 and len(drawn):\n"),
        _NOISE,
    ),
    Mutant(
        "16",
        "shuffled batches, Poisson accounting",
        (
            Patch(
                "learn/engine/_sampling.py",
                _COINS,
                """size = max(1, round(self.rate * self.count))
        if not getattr(self, "_left", None):
            order = self._generator.permutation(self.count)
            self._left = [order[i : i + size] for i in range(0, self.count, size)]
        return self._left.pop()""",
            ),
        ),
        _SAMPLER,
    ),
    Mutant(
        "17",
        "batches of fixed size, Poisson accounting",
        (
            Patch(
                "learn/engine/_sampling.py",
                _COINS,
                "return self._generator.choice("
                "self.count, round(self.rate * self.count), replace=False)",
            ),
        ),
        _SAMPLER,
    ),
    Mutant(
        "18",
        "four times the sampling rate",
        (
            Patch(
                "learn/engine/_sampling.py", _COINS, _COINS.replace("self.rate)", "4 * self.rate)")
            ),
        ),
        _SAMPLER,
    ),
    Mutant(
        "19",
        "one batch for both streams (published MaskDP)",
        _step(
            "        if plan.as_published:\n            drawn = private",
            "        if True:\n            drawn = private",
        ),
        (
            "tests/audit/certify/test_training_audit.py::"
            "test_the_shared_batch_attack_breaks_the_published_form_and_not_ours",
        ),
    ),
    Mutant(
        "20",
        "tokens straddle the border (majority rule)",
        (
            Patch("learn/views/_masked_pixels.py", _PIXELS, "pixels = prepare(record.x, clips)"),
            Patch(
                "models/_video_vit.py",
                "self.tokens, -1).all(2)",
                "self.tokens, -1).float().mean(2) > 0.5",
            ),
        ),
        _VIEW,
        "pixels are masked before tokens are made, so that must be left out too",
    ),
    Mutant(
        "21",
        "attention over all tokens, private ones dropped after it",
        (
            Patch("learn/views/_masked_pixels.py", _PIXELS, "pixels = prepare(record.x, clips)"),
            Patch(
                "models/_video_vit.py",
                "state = self.stem(clips if keep is None else (clips, keep))",
                "state = self.stem(clips)",
            ),
            Patch(
                "models/_video_vit.py",
                "        return self.classify(state)\n\n    def kept",
                "        return self.classify(state if keep is None else (state, keep))\n\n    def kept",
            ),
        ),
        _VIEW,
    ),
    Mutant(
        "22",
        "normalised by statistics of all pixels",
        (
            Patch(
                "learn/views/_masked_pixels.py",
                _PIXELS,
                "pixels = prepare(masked(record.x, mask), clips) / float(1 + record.x.std())",
            ),
        ),
        _VIEW,
    ),
    Mutant(
        "23",
        "resized before it was masked",
        (
            Patch(
                "learn/views/_masked_pixels.py",
                _PIXELS,
                """import torch
        pixels = prepare(record.x, clips)
        seen = torch.from_numpy(mask).float()[None, None]
        near = nn.functional.interpolate(seen, pixels.shape[-3:])[0, 0]
        pixels = pixels * near""",
            ),
        ),
        _VIEW,
    ),
    Mutant(
        "35",
        "projection basis from the private records",
        _step(
            "rows = self._streams.clear(subspace.public)", "rows = self._streams.private(range(12))"
        ),
        ("tests/learn/test_training.py::test_the_basis_ignores_private_records",),
    ),
    Mutant(
        "36a",
        "loss on private records shown with the progress",
        (
            Patch(
                "learn/_trainer.py",
                "    return Progress(spent, plan.steps, epsilon, scores)",
                """    rows = streams.private(range(10))
    assert rows is not None
    with torch.no_grad():
        epsilon = float(cross_entropy(model(rows.x), rows.y).mean())
    return Progress(spent, plan.steps, epsilon, scores)""",
            ),
        ),
        ("tests/learn/test_training.py::test_nothing_shown_depends_on_private_records",),
    ),
    Mutant(
        "36b",
        "clip norm adapted to private norms",
        _step(
            _CLIPPED,
            "_, norms = clipped_rows(model, self._loss, rows, math.inf, self._speed)\n"
            "                clip_norm = float(norms.median())\n"
            "                " + _CLIPPED,
        ),
        _SENSITIVITY,
    ),
    Mutant(
        "38",
        "noise drawn on every rank without scaling",
        _step(
            "gradient = team.add_up(flatten(self._clipped(team.share(drawn))))",
            """gradient = flatten(self._clipped(team.share(drawn)))
            if plan.is_private and not team.is_rank_zero:
                extra = self._noise.draw(gradient.numel())
                gradient = gradient.add_(extra, alpha=plan.noise_deviation)
            gradient = team.add_up(gradient)""",
        ),
        _TWO,
    ),
    Mutant(
        "39",
        "gradients averaged over ranks instead of summed",
        (
            Patch(
                "learn/engine/_ranks.py",
                "dist.all_reduce(flat, dist.ReduceOp.SUM)",
                "dist.all_reduce(flat, dist.ReduceOp.SUM)\n            flat /= self.size",
            ),
        ),
        _TWO,
        "one rank draws the noise, so there is no key that ranks could share",
    ),
    Mutant(
        "40",
        "shards of ranks overlap",
        (
            Patch(
                "learn/engine/_ranks.py",
                "return indices[self.rank :: self.size]",
                "return indices[max(0, self.rank - 1) :: self.size] if self.size > 1 else indices",
            ),
        ),
        _TWO,
    ),
    Mutant(
        "44a",
        "the noise key follows from the plan, so a resumed run repeats it",
        (
            Patch(
                "privacy/_randomness.py",
                "KeyStream(secrets.token_bytes(_CIPHER_KEY_BYTES))",
                "KeyStream(bytes(_CIPHER_KEY_BYTES))",
            ),
        ),
        (f"{_RESUME}::test_a_resumed_run_draws_a_fresh_key",),
    ),
    Mutant(
        "44b",
        "a seeded run repeats its noise when it resumes",
        (
            Patch(
                "learn/_trainer.py",
                "            source.generator()  # a seeded run",
                "            pass  # a seeded run",
            ),
        ),
        (f"{_RESUME}::test_even_a_seeded_run_does_not_repeat_noise_when_it_resumes",),
    ),
    Mutant(
        "45",
        "ours: a person's records clipped one by one",
        (
            Patch(
                "learn/engine/_persons.py",
                "together = Grouped([one.records for one in some])",
                "together = Grouped([1] * rows.records)",
            ),
        ),
        (f"{_STEP}::test_a_whole_person_moves_the_sum_no_further",),
    ),
    Mutant(
        "46",
        "ours: a blanked record still contributes",
        (
            Patch(
                "learn/engine/_streams.py", "            if not blank:\n", "            if True:\n"
            ),
        ),
        (f"{_STEP}::test_a_blanked_record_contributes_exactly_zero",),
    ),
    Mutant(
        "47",
        "ours: a noisy step is counted after it was taken",
        (
            Patch(
                "learn/_trainer.py",
                """            if journal is not None:
                journal.begin(number + 1)
            public_loss, rate = _update(updates, step, number, plan, cache)
""",
                """            public_loss, rate = _update(updates, step, number, plan, cache)
            if journal is not None:
                journal.begin(number + 1)
""",
            ),
        ),
        (f"{_RESUME}::test_sigkill_leaves_a_run_that_resumes",),
    ),
)

# -- training jobs: starting weights, seeds, runs in the ledger, what is held out (70-80) --------------
_START = "tests/learn/test_starting_weights.py"
_HELD_OUT = "tests/learn/test_held_out.py"
_VERBS = "tests/cli/test_ledger_in_verbs.py"
_BUDGET = "tests/ledger/test_ledger_budget.py"

MUTANTS = (
    *MUTANTS,
    Mutant(
        "70",
        "ours: the ledger knows a run by its plan",
        (
            Patch(
                "learn/_trainer.py",
                "with_past(start, model).identity, not source.private)",
                "with_past(start, model).identity, not source.private, plan.digest[:32])",
            ),
        ),
        (
            f"{_VERBS}::test_every_fresh_start_is_counted_and_every_resume_once",
            f"{_VERBS}::test_two_machines_with_the_same_path_are_two_runs",
        ),
    ),
    Mutant(
        "71",
        "ours: a key finds the reservation of another run",
        (Patch("ledger/_state.py", "if request.run != held.run:", "if False:"),),
        (f"{_BUDGET}::test_a_named_key_belongs_to_the_run_that_took_it",),
    ),
    Mutant(
        "72",
        "ours: a resume without the seed washes it off",
        (
            Patch(
                "learn/_trainer.py",
                "held.seeded = held.seeded or facts.seeded",
                "held.seeded = facts.seeded",
            ),
        ),
        (f"{_RESUME}::test_a_run_that_was_seeded_stays_not_private",),
    ),
    Mutant(
        "73",
        "ours: what starting weights learned is not counted",
        (
            Patch(
                "learn/_starting_weights.py",
                "total = self._composed(total, record)",
                "pass",
            ),
        ),
        (
            f"{_START}::test_weights_without_a_guarantee_refuse_a_private_plan",
            f"{_START}::test_guarantees_about_the_same_records_are_composed",
        ),
    ),
    Mutant(
        "74",
        "ours: weights copied without their card are innocent",
        (
            Patch(
                "learn/_starting_weights.py", "trainings = _in_header(file) or ()", "trainings = ()"
            ),
        ),
        (f"{_START}::test_a_copy_without_its_card_remembers",),
    ),
    Mutant(
        "75",
        "ours: a training on other records forgets those before it",
        (
            Patch(
                "learn/_trainer.py",
                "trainings = (*start.trainings, made(own))",
                "trainings = (*start.counted, made(own))",
            ),
        ),
        (f"{_START}::test_a_detour_over_other_records_launders_nothing",),
    ),
    Mutant(
        "76",
        "ours: fine-tuning on other records washes a seed off",
        (
            Patch(
                "learn/_starting_weights.py",
                "randomness=seeded[0].randomness) if seeded else total",
                "randomness=total.randomness)",
            ),
        ),
        (f"{_START}::test_seeded_weights_stay_not_private_for_ever",),
    ),
    Mutant(
        "77",
        "ours: everybody may read a checkpoint",
        (Patch("learn/_checkpoint.py", "force=True, private=True)", "force=True)"),),
        (f"{_RESUME}::test_only_the_owner_can_ever_read_checkpoint_and_journal",),
    ),
    Mutant(
        "78",
        "ours: a single private record among those held out goes unnoticed",
        (Patch("learn/_held_out.py", "    if count:\n", "    if count > 1:\n"),),
        (f"{_HELD_OUT}::test_one_shared_record_is_enough",),
    ),
    Mutant(
        "79",
        "ours: a ledger without a data set is ignored",
        (
            Patch(
                "ledger/_spending.py",
                "    if ledger is None and dataset is None:\n",
                "    if dataset is None:\n",
            ),
        ),
        (f"{_VERBS}::test_a_ledger_without_a_data_set_is_refused_and_not_ignored",),
    ),
    Mutant(
        "80",
        "ours: a committed reservation is drawn under again",
        (Patch("ledger/_state.py", "if held.committed and request.draws:", "if False:"),),
        (f"{_BUDGET}::test_a_committed_run_is_found_only_to_write_what_it_drew",),
    ),
    Mutant(
        "90",
        "ours: rounding of the short forms is never looked at",
        (
            Patch(
                "learn/engine/_contributions.py", "loose = ~(slack <= known)", "loose = slack < 0"
            ),
        ),
        _BOUND,
    ),
    Mutant(
        "91",
        "ours: a bad row stays in the sum with weight zero",
        (
            Patch(
                "learn/engine/_contributions.py",
                "kept = None if bool(fine.all()) else fine.nonzero().flatten()",
                "kept = None",
            ),
        ),
        (f"{_CONTRIBUTION}::test_bad_records_leave_the_sum_of_the_others_alone",),
    ),
    Mutant(
        "92",
        "ours: the norm of a single row squared in float32",
        (
            Patch(
                "learn/engine/_contributions.py",
                "[t.double().square().sum((1, 2)) for t in (self.a, self.g)]",
                "[t.square().sum((1, 2)) for t in (self.a, self.g)]",
            ),
        ),
        _BOUND,
    ),
    Mutant(
        "93",
        "ours: a table's sum in float32, its norm in float64",
        (
            Patch(
                "learn/engine/_contributions.py",
                "share = _sum_share(self.g.shape[1], _roundoff(self.g))",
                "share = 0.0",
            ),
        ),
        (f"{_CONTRIBUTION}::test_what_a_table_adds_is_the_clipped_gradient",),
    ),
    Mutant(
        "94",
        "ours: the loop clips by a factor that float32 cannot hold",
        (Patch("learn/engine/_routes.py", _TOO_LONG, "if not bool(torch.isfinite(norm)):"),),
        _BOUND,
    ),
    Mutant(
        "95",
        "ours: products may round to bfloat16 unnoticed",
        (
            Patch(
                "learn/engine/_contributions.py",
                'torch.get_float32_matmul_precision() != "highest"',
                "False",
            ),
        ),
        (f"{_CONTRIBUTION}::test_coarser_products_are_charged_for",),
    ),
    Mutant(
        "96",
        "ours: a person who is not a number is not left out, one by one",
        (Patch("learn/engine/_routes.py", _TOO_LONG, "if False:"),),
        (f"{_STEP}::test_a_person_who_is_not_a_number_adds_nothing",),
    ),
    Mutant(
        "96b",
        "ours: a person who is not a number is not left out, in one pass",
        (
            Patch(
                "learn/engine/_contributions.py",
                "fine = weights > 0",
                "fine = weights >= 0",
            ),
        ),
        (f"{_STEP}::test_a_person_who_is_not_a_number_adds_nothing",),
    ),
    Mutant(
        "97",
        "ours: mixed records looked for with two probes",
        (Patch("learn/engine/_independence.py", "PROBES = 5", "PROBES = 2"),),
        (f"{_VALIDATORS}::test_mixing_above_three_records_is_found_before_the_first_step",),
    ),
    Mutant(
        "98",
        "ours: one fixed seed for layers that shuffle records",
        (
            Patch("learn/engine/_independence.py", "_SEEDS = 3", "_SEEDS = 1"),
            Patch(
                "learn/engine/_independence.py",
                "others_than(rows, real, classes), secrets.randbits(63)",
                "others_than(rows, real, classes), 111",
            ),
        ),
        (f"{_VALIDATORS}::test_mixup_is_found_whatever_the_seed",),
        "torch.randperm(5) is the identity at seed 111, as randperm(2) was at seed 0",
    ),
    Mutant(
        "99",
        "ours: probes keep their labels",
        (
            Patch(
                "learn/engine/_independence.py",
                "tree.tree_map(put, rows.y, others.y), rows.weights",
                "rows.y, rows.weights",
            ),
        ),
        (f"{_VALIDATORS}::test_a_loss_that_reads_other_labels_is_found",),
    ),
    Mutant(
        "100",
        "ours: a loss is remembered by its code",
        (
            Patch(
                "learn/engine/_probe.py",
                "(id(owner), id(function)),",
                'getattr(loss, "__code__", type(loss)),',
            ),
            Patch(
                "learn/engine/_probe.py",
                "key in known and known[key].loss() is owner",
                "key in known",
            ),
        ),
        (f"{_VALIDATORS}::test_each_loss_is_looked_at_for_itself",),
    ),
    Mutant(
        "101",
        "ours: real batches are not compared with the loop",
        _step("                self._check(rows)\n", ""),
        (f"{_REAL}::test_mixing_of_larger_batches_stops_the_first_step",),
    ),
    Mutant(
        "102",
        "ours: dropout excuses a batch from the comparison",
        (
            Patch(
                "learn/engine/_independence.py",
                "if torch.equal(end, other_end) and not torch.allclose(",
                "if False and not torch.allclose(",
            ),
        ),
        (f"{_REAL}::test_mixing_of_larger_batches_stops_the_first_step",),
    ),
    Mutant(
        "103",
        "ours: only the first batch is compared",
        _step("self._next_check = self._taken + 1 + int(pause)", "self._next_check = math.inf"),
        (f"{_REAL}::test_mixing_that_begins_later_is_found",),
    ),
    Mutant(
        "114",
        "ours: a batch larger than all before is not compared",
        _step("larger = rows.records > _LARGER * self._largest_checked", "larger = False"),
        (f"{_REAL}::test_mixing_above_any_number_is_found_when_it_first_comes",),
    ),
    Mutant(
        "115",
        "ours: rounding may mix what a layer does not",
        (
            Patch(
                "learn/engine/_clipped.py",
                "    take_the_loop(model, loss, rows, parameters, speed.route, why)\n    return True\n",
                "    return True\n",
            ),
        ),
        (f"{_REAL}::test_what_rounds_otherwise_in_a_batch_goes_one_record_at_a_time",),
    ),
    Mutant(
        "104",
        "ours: any clip norm above zero",
        (Patch("learn/engine/_validate.py", "CLIP_NORM = 1e-9, 1e9", "CLIP_NORM = 0.0, 1e99"),),
        (
            f"{_PLAN}::test_a_clip_norm_that_float32_cannot_hold_is_refused",
            f"{_VALIDATORS}::test_a_clip_norm_that_float32_cannot_hold_is_refused",
        ),
    ),
    Mutant(
        "105",
        "ours: a subclass of the plan sets the noise",
        (
            Patch("learn/_plan.py", "if type(plan) is not Plan:", "if not isinstance(plan, Plan):"),
            Patch("learn/_plan.py", "    return anew\n", "    return plan\n"),
        ),
        (f"{_PLAN}::test_a_subclass_of_a_plan_trains_nothing",),
    ),
    Mutant(
        "106",
        "ours: a changed plan is believed",
        (
            Patch(
                "learn/_plan.py",
                "if not hasattr(Plan, name) or kept[name] != getattr(anew, name):",
                "if False:",
            ),
            Patch("learn/_plan.py", "    return anew\n", "    return plan\n"),
        ),
        (f"{_PLAN}::test_a_plan_that_was_changed_trains_nothing",),
    ),
    Mutant(
        "107",
        "ours: ranks with different records work together",
        (
            Patch(
                "learn/engine/_ranks.py",
                "if any(not torch.equal(other, own) for other in all_ranks):",
                "if False:",
            ),
        ),
        (
            "tests/learn/engine/test_two_processes.py::test_ranks_that_hold_different_records_are_stopped",
        ),
    ),
    Mutant(
        "108",
        "ours: a private record in another type is public",
        (
            Patch(
                "learn/_projector.py",
                "        if clear.holds(record):\n",
                "        same = (content_hash(public[i]) for i in range(len(public)))\n"
                "        if content_hash(record) in same:\n",
            ),
        ),
        (f"{_TRAINING}::test_a_private_record_in_another_type_is_still_private",),
    ),
    Mutant(
        "109",
        "ours: a private person's other records are public",
        (Patch("learn/_projector.py", "if by_person and clear", "if False and clear"),),
        (f"{_TRAINING}::test_with_unit_person_the_public_set_is_of_other_people",),
    ),
    Mutant(
        "110",
        "ours: sums of clipped gradients in bfloat16",
        (
            Patch(
                "learn/engine/_validate.py",
                "if parameter.dtype not in {torch.float32, torch.float64}:",
                "if False:",
            ),
        ),
        (f"{_VALIDATORS}::test_coarse_parameters_are_refused_in_one_sentence",),
    ),
    Mutant(
        "111",
        "ours: noise repeats every 2^19 parameters",
        (
            Patch(
                "learn/engine/_noise.py",
                "drawn = self._stream.bits(12 * min(_PAIRS, pairs - start))",
                "size = 12 * min(_PAIRS, pairs - start)\n"
                "            drawn = drawn[:size] if start else self._stream.bits(size)",
            ),
        ),
        (f"{_STEP}::test_noise_never_repeats_within_a_step",),
    ),
    Mutant(
        "112",
        "ours: coins with keys of 16 bits",
        (Patch("privacy/_randomness.py", "secrets.randbits(_KEY_BITS)", "secrets.randbits(16)"),),
        (f"{_STEP}::test_coins_have_keys_of_128_bits_from_the_operating_system",),
    ),
    Mutant(
        "113",
        "ours: noise with keys of 16 bits",
        (
            Patch(
                "privacy/_randomness.py",
                "KeyStream(secrets.token_bytes(_CIPHER_KEY_BYTES))",
                "KeyStream(secrets.token_bytes(2) * (_CIPHER_KEY_BYTES // 2))",
            ),
        ),
        (f"{_STEP}::test_noise_has_keys_of_256_bits_from_the_operating_system",),
    ),
    Mutant(
        "231",
        "ours: what a pass writes into buffers and frozen parameters leaves",
        (Patch("learn/_trainer.py", "fixed.check()", "pass"),),
        ("tests/learn/test_real_batches.py::test_what_a_forward_pass_writes_never_leaves",),
    ),
    Mutant(
        "232",
        "ours: what a pass writes into trained parameters leaves",
        (
            Patch(
                "learn/engine/_step.py",
                "with unwritten(self._model, trainable_only=True):",
                "if True:",
            ),
        ),
        ("tests/learn/test_real_batches.py::test_what_a_forward_pass_writes_never_leaves",),
    ),
    Mutant(
        "400",
        "ours: a loop of one's own may take any batch twice",
        (Patch("learn/_own_loop.py", "        self._issued.discard(batch)\n", ""),),
        (f"{_LOOP}::test_3_a_batch_is_good_for_one_step",),
    ),
    Mutant(
        "421",
        "ours: a step of one's own loop counts when it is done",
        (
            Patch(
                "learn/_own_loop.py", "        self._tally.taken += 1  # before", "        # before"
            ),
            Patch(
                "learn/_own_loop.py",
                "        rate = None\n",
                "        self._tally.taken += 1\n        rate = None\n",
            ),
        ),
        (f"{_LOOP}::test_9_a_step_that_fails_half_way_counts",),
    ),
    Mutant(
        "422",
        "ours: a second private step forgets the first",
        (
            Patch(
                "learn/_own_loop.py",
                "with_past(self._start, self._model, without=self._tally.run)",
                "self._start",
            ),
        ),
        (f"{_LOOP}::test_7_a_new_private_step_for_every_epoch_is_composed",),
    ),
    Mutant(
        "426",
        "ours: a second training of one model forgets the first",
        (
            Patch(
                "learn/_trainer.py",
                "start = with_past(start, model, without=state.run)",
                "start = with_past(start, nn.Module(), without=state.run)",
            ),
        ),
        (f"{_LOOP}::test_7c_a_second_training_of_the_same_object_is_composed",),
    ),
    Mutant(
        "427",
        "ours: a training that stopped half-way is forgotten",
        (
            Patch(
                "learn/_trainer.py",
                "remember(model, lambda: made(own) if state.spent else None)",
                "remember(model, lambda: made(own) if state.spent == plan.steps else None)",
            ),
        ),
        (f"{_LOOP}::test_7d_a_training_that_stopped_half_way_is_composed",),
    ),
    Mutant(
        "429",
        "ours: a deep copy of a model forgets what it has been through",
        (
            Patch(
                "learn/_past_of_models.py",
                "return _Past(map(_fixed, self.told()))",
                "return _Past()",
            ),
        ),
        (f"{_LOOP}::test_7e_copies_and_layers_of_a_trained_model_carry_what_it_has_been_through",),
    ),
    Mutant(
        "428",
        "choice: the time of all trials stands beside the model",
        (
            Patch(
                "learn/config/_tune_job.py",
                "write_run(job, final, None, counted | more)",
                "write_run(job, final, 1.0, counted | more)",
            ),
        ),
        (
            "tests/learn/config/test_tune.py::test_the_best_trial_is_written_with_a_promise_about_the_choice",
        ),
    ),
    Mutant(
        "423",
        "ours: one's own loop goes on after the plan's steps",
        (
            Patch(
                "learn/_own_loop.py",
                "        if self.steps_left == 0:\n            raise self._all_taken()\n        assert",
                "        assert",
            ),
        ),
        (f"{_LOOP}::test_1_more_steps_than_planned_are_refused_through_any_number_of_iterators",),
    ),
    Mutant(
        "424",
        "ours: records are counted where persons are meant",
        (
            Patch(
                "learn/_sampled_units.py",
                "    if far or plan.records == records != persons:",
                "    if False:",
            ),
        ),
        ("tests/learn/test_own_data.py::test_records_counted_where_persons_are_meant_are_refused",),
    ),
    Mutant(
        "425",
        "ours: gradients that the program left are followed too",
        (
            Patch(
                "learn/_updates.py",
                "            parameter.grad = gradient[name].to(parameter.dtype)\n",
                "            parameter.grad = gradient[name].to(parameter.dtype)"
                " if parameter.grad is None else parameter.grad\n",
            ),
            Patch(
                "learn/_updates.py",
                "            parameter.grad = None  # whatever was left",
                "            pass  # whatever was left",
            ),
        ),
        (
            "tests/learn/test_own_data.py::"
            "test_torch_sees_the_released_gradient_and_nothing_that_was_left_in_grad",
        ),
    ),
    Mutant(
        "233",
        "ours: ranks compare some of their records",
        (
            Patch(
                "learn/_overlap.py",
                "range(len(records)):\n        record = records[place]\n        for part",
                "range(0, len(records), 1 + len(records) // 64):\n"
                "        record = records[place]\n        for part",
            ),
        ),
        (
            "tests/learn/engine/test_two_processes.py::test_ranks_that_hold_different_records_are_stopped",
        ),
    ),
    Mutant(
        "234",
        "ours: two copies of one run are counted once and both let go (R20)",
        (Patch("ledger/_ledger.py", "if held.committed and only_once:", "if False:"),),
        ("tests/ledger/test_ledger_budget.py::test_two_copies_of_one_run_cannot_both_be_let_go",),
    ),
    Mutant(
        "235",
        "ours: noise measured against C, rounding left out (R19)",
        (
            Patch(
                "learn/_plan.py",
                "return self.clip_norm * (1 + ROUNDING_OF_CLIPPED)",
                "return self.clip_norm",
            ),
        ),
        (f"{_STEP}::test_noise_is_measured_against_what_rounding_lets_a_record_add",),
    ),
    Mutant(
        "236",
        "ours: noise in torch's default type",
        (Patch("learn/engine/_noise.py", "pairs, dtype=torch.float32)", "pairs)"),),
        (f"{_STEP}::test_noise_has_the_same_digits_whatever_the_default_type",),
    ),
    Mutant(
        "721",
        "ours: the blocks of a Gram matrix above its diagonal are counted once",
        (
            Patch(
                "learn/engine/_contributions.py",
                "diagonal.add_(block, alpha=2)",
                "diagonal.add_(block, alpha=1)",
            ),
        ),
        ("tests/learn/test_contribution_bound.py::test_the_bound_on_rounding_holds",),
    ),
    Mutant(
        "722",
        "ours: under mixed precision norms and sums are in bfloat16 too (R19)",
        (
            Patch(
                "learn/engine/_routes.py",
                "    with torch.no_grad():\n        contributions = recorder.contributions()",
                '    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):\n'
                "        contributions = recorder.contributions()",
            ),
        ),
        ("tests/learn/test_mixed_precision.py::test_norms_and_sums_see_nothing_but_float32",),
    ),
    Mutant(
        "724",
        "ours: random numbers that a layer draws on its device are not seen",
        (
            Patch(
                "learn/engine/_random_state.py",
                "return torch.cat([own, torch.cuda.get_rng_state(device)])",
                "return own",
            ),
            Patch(
                "learn/engine/_random_state.py",
                "torch.cuda.set_rng_state(state[own:], device)",
                "pass",
            ),
        ),
        ("tests/learn/test_devices.py::test_random_numbers_of_the_device_are_watched",),
    ),
)
