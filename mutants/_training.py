"""Mistakes in the private step, its sampler, its public view and its distribution (1-23, 35-40, 44)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_STEP = "tests/learn/test_private_step.py"
_NOISE = (f"{_STEP}::test_every_block_gets_the_planned_noise",)
_SENSITIVITY = (f"{_STEP}::test_neighbours_move_the_sum_by_at_most_the_clip_norm",)
_SAMPLER = (f"{_STEP}::test_batches_are_drawn_by_independent_coins",)
_VIEW = ("tests/learn/test_public_views.py::test_the_public_gradient_ignores_private_pixels",)
_TWO = ("tests/learn/test_two_processes.py::test_two_processes_give_what_one_gives",)
_RESUME = "tests/learn/test_resume.py"

_ADD = "gradient = gradient.add_(noise, alpha=plan.noise_deviation)"
_CLIPPED = "sums, norms = clipped_rows(model, self._loss, rows, clip_norm, self._speed)"
_PIXELS = "pixels = prepare(_masked(record.x, mask), clips)"
_COINS = "return np.flatnonzero(self._generator.random(self.count) < self.rate)"


def _step(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("learn/_step.py", old, new),)


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
                "return self.noise_multiplier * self.clip_norm if self.is_private else 0.0",
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
                "learn/_noise.py",
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
                "learn/_noise.py",
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
                "learn/_contributions.py",
                "return (clip_norm / norms).clamp(max=1.0)",
                "return (norms / clip_norm).clamp(max=1.0)",
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
                "learn/_sampling.py",
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
                "learn/_sampling.py",
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
        (Patch("learn/_sampling.py", _COINS, _COINS.replace("self.rate)", "4 * self.rate)")),),
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
            "tests/audit/test_training_audit.py::"
            "test_the_shared_batch_attack_breaks_the_published_form_and_not_ours",
        ),
    ),
    Mutant(
        "20",
        "tokens straddle the border (majority rule)",
        (
            Patch("learn/_views.py", _PIXELS, "pixels = prepare(record.x, clips)"),
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
            Patch("learn/_views.py", _PIXELS, "pixels = prepare(record.x, clips)"),
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
                "learn/_views.py",
                _PIXELS,
                "pixels = prepare(_masked(record.x, mask), clips) / float(1 + record.x.std())",
            ),
        ),
        _VIEW,
    ),
    Mutant(
        "23",
        "resized before it was masked",
        (
            Patch(
                "learn/_views.py",
                _PIXELS,
                """pixels = prepare(record.x, clips)
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
            if plan.is_private and not team.leads:
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
                "learn/_team.py",
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
                "learn/_team.py",
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
                "learn/_persons.py",
                "own = mean_gradient(model, loss, rows, speed)\n",
                "own = clipped_rows(model, loss, rows, clip_norm, speed)[0]\n",
            ),
            Patch("learn/_persons.py", "factor = clip_factors(norm, clip_norm)", "factor = 1.0"),
            Patch(
                "learn/_persons.py",
                "from sfumato.learn._clipped import micro_batch",
                "from sfumato.learn._clipped import clipped_rows, micro_batch",
            ),
        ),
        (f"{_STEP}::test_a_whole_person_moves_the_sum_no_further",),
    ),
    Mutant(
        "46",
        "ours: a blanked record still contributes",
        (Patch("learn/_streams.py", "            if not blank:\n", "            if True:\n"),),
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
            public_loss, rate = _update(model, optimizer, step, memory, number, plan, cache)
""",
                """            public_loss, rate = _update(model, optimizer, step, memory, number, plan, cache)
            if journal is not None:
                journal.begin(number + 1)
""",
            ),
        ),
        (f"{_RESUME}::test_sigkill_leaves_a_run_that_resumes",),
    ),
)
