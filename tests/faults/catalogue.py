"""Deliberate faults of the library, each with the cheapest tests that notice it.

A fault is a snippet of the library's text and what a careless hand might leave in its place: a
missing root, the greatest instead of the sum, a term left out. The snippet says where it belongs by
being unique, so that files may be moved and merged; whoever changes the snippet itself changes it
here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One faulty change.

    Attributes:
        name: As the command takes it.
        area: A key of ``LEAST``.
        was: Text that occurs once in all files of the library.
        becomes: What stands there instead.
        tests: Files or node ids, of which at least one must fail.
    """

    name: str
    area: str
    was: str
    becomes: str
    tests: tuple[str, ...]


#: How many faults each area has at least.
LEAST = {
    "bounds": 10,
    "noise": 6,
    "sampler": 6,
    "accounting": 8,
    "ledger": 6,
    "certificates": 6,
}


def places_of(snippet: str, library: Path) -> list[Path]:
    """The files that hold a text, each as often as it does."""
    return list(_places_of(snippet, library))


def _places_of(snippet: str, library: Path) -> Iterator[Path]:
    for path in sorted(library.rglob("*.py")):
        yield from [path] * path.read_text(encoding="utf-8").count(snippet)


BOUNDS = (
    Fault(
        "bias-of-a-plain-layer-counts-at-one-position",
        "bounds",
        "bounds = [times(self.reach, x, inner), times(math.sqrt(self.positions), inner)]",
        "bounds = [times(self.reach, x, inner), inner]",
        ("tests/bounds/test_free_weights.py::test_a_bias_counts_at_each_position",),
    ),
    Fault(
        "norm-of-a-bias-that-is-repeated",
        "bounds",
        "return x + math.sqrt(self._positions) * self._set_norm()",
        "return x + self._set_norm()",
        ("tests/layers/test_bounded_bias.py::test_bounds_are_attained",),
    ),
    Fault(
        "equal-ids-of-an-embedding",
        "bounds",
        "return [times(math.sqrt(self._tokens), g) for _ in self.trainable_variables]",
        "return [g for _ in self.trainable_variables]",
        ("tests/layers/test_bounded_embedding.py::test_gradient_is_the_sum_over_equal_ids",),
    ),
    Fault(
        "uses-of-a-shared-variable",
        "bounds",
        "totals[id(variable)] += bound",
        "totals[id(variable)] = max(totals[id(variable)], bound)",
        ("tests/bounds/test_graph.py::TestSharing::test_a_layer_that_is_used_twice_in_a_row",),
    ),
    Fault(
        "readers-of-a-tensor",
        "bounds",
        "cotangents[key] = cotangents[key] + given",
        "cotangents[key] = given",
        ("tests/bounds/test_merging.py::test_attained_constants",),
    ),
    Fault(
        "rounding-of-a-sum-of-gradients",
        "bounds",
        "return 1.0 + gamma(count, unit) if count > 1 else 1.0",
        "return 1.0 + gamma(count, unit) if count > 3 else 1.0",
        ("tests/bounds/test_engine.py::TestSums::test_a_sum_of_floats_is_at_most_so_much_larger",),
    ),
    Fault(
        "cotangent-that-a-concatenation-shares-out",
        "bounds",
        "*(math.hypot(*shares) for shares in joins.values())",
        "*(max(shares) for shares in joins.values())",
        ("tests/bounds/test_cotangent.py::test_no_split_of_a_cotangent_is_above_its_bound",),
    ),
    Fault(
        "entries-that-underflow",
        "bounds",
        "return _LOST * entries**1.5 * max([1.0, ",
        "return _LOST * max([1.0, ",
        ("tests/bounds/test_underflow.py::test_each_of_many_entries_may_lose_as_many_products",),
    ),
    Fault(
        "gains-of-what-underflows",
        "bounds",
        " * max([1.0, *(gain for gain in gains if math.isfinite(gain))])",
        "",
        ("tests/bounds/test_underflow.py::test_the_error_of_short_vectors_is_covered",),
    ),
    Fault(
        "underflow-of-a-loss's-gradient",
        "bounds",
        "    g += lost(last.call.shapes.size, MULTIPLIED)\n",
        "",
        ("tests/bounds/test_underflow.py::test_what_a_loss_loses_is_in_the_bounds",),
    ),
    Fault(
        "rounding-in-front-of-an-activation",
        "bounds",
        "return times(exact, 1.0 + self.slack)",
        "return exact",
        ("tests/bounds/rules/test_affine.py::test_the_activation_sees_what_is_computed",),
    ),
    Fault(
        "weight-outside-its-set",
        "bounds",
        "max(present, projection.spectral_bound(variable.shape))",
        "projection.spectral_bound(variable.shape)",
        ("tests/bounds/test_present_weights.py::test_a_weight_outside_its_set_is_counted",),
    ),
    Fault(
        "slopes-outside-their-set",
        "bounds",
        "return projection.reach(present, trained=variable.trainable)",
        "return projection.norm_bound",
        ("tests/bounds/test_present_weights.py::test_a_weight_outside_its_set_is_counted",),
    ),
    Fault(
        "present-weight-instead-of-its-set",
        "bounds",
        "return max(present, self.norm_bound) if trained else present",
        "return present",
        ("tests/layers/test_bounded_scale.py::test_starts_inside_and_states_the_present_factors",),
    ),
    Fault(
        "balls-of-all-positions",
        "bounds",
        "return min(x, math.sqrt(self._balls) * self.radius)",
        "return min(x, self.radius)",
        ("tests/layers/test_per_position.py::test_bounds",),
    ),
    Fault(
        "reference-of-an-adaptive-clip",
        "bounds",
        "        if self.trainable_variables:\n            return self.reference\n",
        "        if self.trainable_variables:\n            return min(g, self.reference)\n",
        ("tests/layers/test_adaptive_cotangent_clip.py::test_bounds",),
    ),
    Fault(
        "coverage-of-a-grid-of-windows",
        "bounds",
        "return math.prod(axis.coverage for axis in windows)",
        "return max(axis.coverage for axis in windows)",
        (
            "tests/layers/test_windows.py"
            "::test_coverage_of_a_grid_is_the_greatest_norm_of_all_patches",
        ),
    ),
    Fault(
        "windows-that-overlap-in-a-pooling-of-norms",
        "bounds",
        "return math.sqrt(coverage(self._windows))",
        "return 1.0",
        ("tests/layers/test_pooling.py::test_l2_norms_and_their_derivative",),
    ),
    Fault(
        "hinge-beside-the-linear-term",
        "bounds",
        "return 1.0 + self.alpha\n",
        "return max(1.0, self.alpha)\n",
        ("tests/losses/test_constants.py::test_constants",),
    ),
    Fault(
        "one-against-all-terms",
        "bounds",
        "return self.steepest() / math.sqrt(num_outputs)",
        "return self.steepest() / num_outputs",
        ("tests/losses/test_constants.py::test_constants",),
    ),
    Fault(
        "squared-error-at-the-opposite-target",
        "bounds",
        "return 2.0 * (logit_bound + self.target_bound) / num_outputs",
        "return 2.0 * max(logit_bound, self.target_bound) / num_outputs",
        ("tests/losses/test_constants.py::test_constants",),
    ),
    Fault(
        "mean-of-a-loss-over-positions",
        "bounds",
        'return inner * root if self.over_positions == "sum" else inner / root',
        'return inner * root if self.over_positions == "sum" else inner / self.positions',
        ("tests/losses/test_constants.py::test_constants",),
    ),
    Fault(
        "mean-of-the-class-weights",
        "bounds",
        "times(max(self.class_weights), ",
        "times(sum(self.class_weights) / len(self.class_weights), ",
        ("tests/losses/test_constants.py::test_constants",),
    ),
    Fault(
        "temperature-that-divides",
        "bounds",
        "radius = math.nextafter(self.inverse_temperature * logit_bound, math.inf)",
        "radius = math.nextafter(logit_bound / self.inverse_temperature, math.inf)",
        ("tests/losses/test_constants.py::test_constants",),
    ),
    Fault(
        "other-classes-in-a-softmax",
        "bounds",
        "squares = away**2 + (e_other / total) ** 2 + others * (e_common / total) ** 2",
        "squares = away**2 + (e_other / total) ** 2 + (e_common / total) ** 2",
        ("tests/losses/test_softmax_gradient.py::test_published_values_for_ten_classes",),
    ),
    Fault(
        "eigenvalue-as-computed-instead-of-a-proved-norm",
        "bounds",
        "return trial * (1.0 + 2.0 * _UNIT) + gamma(inner, _UNIT) * square + error + _UNDERFLOW",
        "return estimate",
        ("tests/projections/test_norms.py::test_small_entries_that_vanish_in_a_sum_count",),
    ),
    Fault(
        "rounding-of-a-Gram-iteration",
        "bounds",
        "return at_least_one(ops.sqrt(bound) * (1.0 + slack))",
        "return at_least_one(ops.sqrt(bound))",
        ("tests/projections/test_gram.py::test_it_is_above_the_norm_and_overshoots_as_proved",),
    ),
    Fault(
        "rounding-of-Fourier-blocks",
        "bounds",
        "return scaled_up(math.sqrt(square) + error, exponent)",
        "return scaled_up(math.sqrt(square), exponent)",
        ("tests/projections/test_fourier.py::test_small_taps_that_vanish_in_a_sum_count",),
    ),
    Fault(
        "projection-without-its-margin",
        "bounds",
        "limit = self.radius * (1.0 - rounding - self._certificate(w))",
        "limit = self.radius",
        ("tests/projections/test_projections.py::test_result_is_inside_as_computed",),
    ),
    Fault(
        "orthogonal-step-without-its-margin",
        "bounds",
        "factor = scale * (1.0 - from_gram - from_product - from_entries - certificate)",
        "factor = scale",
        ("tests/projections/test_bjorck_projection.py::test_rounding_takes_at_most_one_per_cent",),
    ),
    Fault(
        "spectral-norm-of-a-set-of-slices",
        "bounds",
        "return scaled_up(self.radius * math.sqrt(shape[self._axis]))",
        "return scaled_up(self.radius)",
        (
            "tests/projections/test_slice_balls.py"
            "::test_each_slice_is_inside_and_the_set_has_its_spectral_bound",
        ),
    ),
)

NOISE = (
    Fault(
        "greatest-share-instead-of-their-sum",
        "noise",
        """    total = math.hypot(*(bounds / scale / weights))
    deviations = noise_multiplier * weights * total * scale
    while math.fsum((bounds / deviations) ** 2) > 1.0 / noise_multiplier**2:
        deviations = deviations * (1.0 + 2.0**-51)
    return deviations
""",
        """    total = max(bounds / scale / weights)
    return noise_multiplier * weights * total * scale
""",
        ("tests/privacy/test_allocation.py::test_global",),
    ),
    Fault(
        "rounding-of-the-shares",
        "noise",
        """    while math.fsum((bounds / deviations) ** 2) > 1.0 / noise_multiplier**2:
        deviations = deviations * (1.0 + 2.0**-51)
""",
        "",
        ("tests/privacy/test_allocation.py::test_no_allocation_costs_more_than_the_multiplier",),
    ),
    Fault(
        "noise-of-the-first-variable-for-all",
        "noise",
        "noisy[i] = total + mechanism.stddevs[i] * factor * draw",
        "noisy[i] = total + mechanism.stddevs[0] * factor * draw",
        ("tests/training/test_noise_state.py::test_each_variable_gets_its_own_part",),
    ),
    Fault(
        "no-noise-on-vectors",
        "noise",
        "present = [i for i, g in enumerate(sums) if g is not None]",
        "present = [i for i, g in enumerate(sums) if g is not None and len(g.shape) > 1]",
        ("tests/training/test_noise_state.py::test_each_variable_gets_its_own_part",),
    ),
    Fault(
        "noise-from-the-host-again-and-again",
        "noise",
        """        draws = self._next.result()
        self._next = self._thread.submit(self._tensor)
        return draws
""",
        "        return self._next.result()\n",
        ("tests/training/test_mechanism.py::test_no_two_steps_share_their_noise",),
    ),
    Fault(
        "noise-inside-the-step-again-and-again",
        "noise",
        "keras.random.normal((sum(sizes),), dtype=dtype, seed=g) for g in self._generators",
        "keras.random.normal((sum(sizes),), dtype=dtype, seed=5) for g in self._generators",
        ("tests/training/test_faults.py::test_noise_from_both_places_has_no_fault",),
    ),
    Fault(
        "halves-of-the-noise",
        "noise",
        "ops.divide(sum(draws[1:], draws[0]), math.sqrt(_GENERATORS))",
        "ops.divide(sum(draws[1:], draws[0]), _GENERATORS)",
        ("tests/training/test_faults.py::test_noise_from_both_places_has_no_fault",),
    ),
    Fault(
        "the-same-noise-in-every-run",
        "noise",
        "np.random.SFC64(None if seed is None else [seed, 2])",
        "np.random.SFC64([seed or 0, 2])",
        ("tests/training/test_mechanism.py::test_unseeded_runs_differ_and_seeded_runs_agree",),
    ),
    Fault(
        "noise-that-is-rounded-down-in-the-step",
        "noise",
        "up = 1.0 + 5.0 * unit_roundoff(_dtype(model))",
        "up = 1.0",
        ("tests/training/test_plan.py::test_noise_is_large_enough_as_a_float32_step_scales_it",),
    ),
    Fault(
        "factor-of-a-schedule-that-is-rounded-down",
        "noise",
        "        if rounded < factor:\n",
        "        if rounded > factor:\n",
        ("tests/training/test_noise_state.py::test_the_factor_of_a_schedule_is_rounded_up",),
    ),
    Fault(
        "half-of-what-rounding-to-a-grid-moves",
        "noise",
        "added = _width(grid) * math.sqrt(count_of(size, least=1))",
        "added = _width(grid) * math.sqrt(count_of(size, least=1)) / 2.0",
        ("tests/privacy/test_noise_grid.py::test_the_rounded_sensitivity_is_rounded_up",),
    ),
    Fault(
        "grid-outside-the-sensitivity-of-a-step",
        "noise",
        "wider = _plain(model, raised, z, budget.allocation)",
        "wider = _plain(model, shares.sensitivities, z, budget.allocation)",
        ("tests/training/test_secure_noise.py::test_the_grid_is_inside_the_sensitivity",),
    ),
    Fault(
        "schedule-of-exact-noise",
        "noise",
        "else self._source.draw(stddev * factor, grid.width, math.prod(shape))",
        "else self._source.draw(stddev, grid.width, math.prod(shape))",
        ("tests/training/test_secure_noise.py::test_a_schedule_scales_exact_noise_too",),
    ),
    Fault(
        "undecided-draw-of-exact-noise",
        "noise",
        "low[i] = self._decide(int(tails[i]), ratio)",
        "low[i] = high[i]",
        ("tests/privacy/test_rounded_gaussian.py::test_every_cell_ends_where_the_normal_law_says",),
    ),
    Fault(
        "counts-of-adaptive-clips-are-free",
        "noise",
        "left = 1.0 / noise_multiplier**2 * (1.0 - 1e-12) - spent",
        "left = 1.0 / noise_multiplier**2 * (1.0 - 1e-12) - 0.0 * spent",
        (
            "tests/training/test_adaptive_clipping.py"
            "::test_all_coordinates_together_are_one_mechanism",
        ),
    ),
    Fault(
        "counts-of-adaptive-clips-without-noise",
        "noise",
        "        (0.0 if silent else count_noise[i]) if i in counts else s\n",
        "        0.0 if i in counts else s\n",
        (
            "tests/training/test_adaptive_clipping.py"
            "::test_all_coordinates_together_are_one_mechanism",
        ),
    ),
    Fault(
        "noise-behind-the-lower-of-two-thresholds",
        "noise",
        "largest = ops.where(ratio > largest, ratio, largest)",
        "largest = ops.where(ratio < largest, ratio, largest)",
        (
            "tests/training/test_thresholds.py"
            "::test_noise_follows_the_threshold_that_is_farthest_above_its_minimum",
        ),
    ),
    Fault(
        "noise-at-the-least-threshold",
        "noise",
        "ratios = [clip.radius() / clip.minimum for clip in self.clips] if mechanism.clips else []",
        "ratios = [1.0 for clip in self.clips] if mechanism.clips else []",
        ("tests/training/test_adaptive_clipping.py::test_noise_follows_the_threshold",),
    ),
    Fault(
        "gradient-of-a-part-of-a-batch",
        "noise",
        "return self.divisor / self.micro_batches",
        "return float(self.divisor)",
        ("tests/training/test_micro_batches.py::test_weights_are_those_of_the_whole_batch",),
    ),
    Fault(
        "sum-that-stays-for-the-next-batch",
        "noise",
        "        self._update(noisy, mechanism)\n        self._forget()\n",
        "        self._update(noisy, mechanism)\n",
        ("tests/training/test_micro_batches.py::test_weights_are_those_of_the_whole_batch",),
    ),
    Fault(
        "divisor-of-users",
        "noise",
        "divisor=self.request.batch_size * self.request.rows_per_unit,",
        "divisor=self.request.batch_size,",
        (
            "tests/training/test_units.py"
            "::test_sensitivity_and_divisor_grow_with_the_rows_of_a_user",
        ),
    ),
    Fault(
        "sensitivity-of-users",
        "noise",
        "tuple(d * (shape.rows_per_unit + slack) for d in bounds.parameters)",
        "tuple(d * (1.0 + slack) for d in bounds.parameters)",
        (
            "tests/training/test_units.py"
            "::test_sensitivity_and_divisor_grow_with_the_rows_of_a_user",
        ),
    ),
    Fault(
        "rounding-of-a-sum-over-rows",
        "noise",
        "slack = 2.0 * shape.rows * gamma(shape.rows * bounds.entries, bounds.unit)",
        "slack = 2.0 * shape.rows * gamma(shape.rows, bounds.unit)",
        ("tests/training/test_plan.py::test_a_float64_sum_runs_over_rows_and_positions",),
    ),
    Fault(
        "queries-that-each-cost-the-whole",
        "noise",
        'multipliers = allocate(ones, ones, noise_multiplier, "per-layer")',
        "multipliers = [float(noise_multiplier) for _ in ones]",
        ("tests/statistics/test_release.py::test_all_queries_together_cost_one_mechanism",),
    ),
    Fault(
        "sensitivity-of-second-moments",
        "noise",
        "sensitivity_of_sum(units.num_units, units.size, radius**power)",
        "sensitivity_of_sum(units.num_units, units.size, radius)",
        (
            "tests/statistics/test_mechanism.py"
            "::test_no_neighbour_changes_a_query_by_more_than_its_sensitivity",
        ),
    ),
    Fault(
        "columns-that-are-counted-together",
        "noise",
        "sensitivity = most * math.nextafter(math.sqrt(len(sizes)), math.inf)",
        "sensitivity = most * 1.0",
        (
            "tests/statistics/test_counts.py"
            "::test_no_neighbour_changes_a_count_by_more_than_its_sensitivity",
        ),
    ),
    Fault(
        "entries-off-the-diagonal",
        "noise",
        "return np.where(i == j, 1.0, math.sqrt(2.0))",
        "return np.where(i == j, 1.0, 2.0)",
        (
            "tests/statistics/test_mechanism.py"
            "::test_no_neighbour_changes_a_query_by_more_than_its_sensitivity",
        ),
    ),
)

SAMPLER = (
    Fault(
        "Poisson-draws-of-a-fixed-size",
        "sampler",
        "self._generator.choice(self._num_examples, self._number(), replace=False)",
        "self._generator.choice(self._num_examples, self._expected_batch_size, replace=False)",
        ("tests/privacy/test_sampler.py::test_batch_sizes_are_binomial",),
    ),
    Fault(
        "rows-that-are-drawn-twice",
        "sampler",
        "self._generator.choice(self._num_examples, self._number(), replace=False)",
        "self._generator.choice(self._num_examples, self._number(), replace=True)",
        ("tests/privacy/test_sampler.py::test_draws_are_distinct_valid_indices_in_random_order",),
    ),
    Fault(
        "probability-of-a-row",
        "sampler",
        "return self._expected_batch_size / self._num_examples",
        "return self._expected_batch_size / (self._num_examples + 1)",
        ("tests/privacy/test_sampler.py::test_the_full_batch_holds_every_row",),
    ),
    Fault(
        "weights-of-the-binomial-law",
        "sampler",
        "lambda d: ((n - b - d) * b, (b + d + 1) * (n - b))",
        "lambda d: ((n - b - d) * b, (b + d) * (n - b))",
        ("tests/privacy/test_exact_binomial.py::test_sums_are_within_their_error",),
    ),
    Fault(
        "half-of-all-uniform-numbers",
        "sampler",
        "known = self._bits(digits)",
        "known = self._bits(digits) >> 1",
        ("tests/privacy/test_exact_binomial.py::test_more_digits_decide_what_few_do_not",),
    ),
    Fault(
        "the-row-that-a-neighbour-has-more",
        "sampler",
        "    if rows > num_examples:\n        return 0.0\n",
        "    if rows >= num_examples:\n        return 0.0\n",
        (
            "tests/privacy/test_capacity.py"
            "::test_the_overflow_of_all_steps_is_a_thousandth_of_delta",
        ),
    ),
    Fault(
        "first-value-of-a-tail",
        "sampler",
        "stats.binom.sf(rows - 1, num_examples, sampling_rate)",
        "stats.binom.sf(rows, num_examples, sampling_rate)",
        (
            "tests/privacy/test_capacity.py"
            "::test_the_overflow_of_all_steps_is_a_thousandth_of_delta",
        ),
    ),
    Fault(
        "overflow-of-a-single-step",
        "sampler",
        "allowed = _SHARE * delta / max(1, steps)",
        "allowed = _SHARE * delta",
        (
            "tests/privacy/test_capacity.py"
            "::test_the_overflow_of_all_steps_is_a_thousandth_of_delta",
        ),
    ),
    Fault(
        "a-second-order-within-an-epoch",
        "sampler",
        "if index == 0 and self._over:",
        "if index == 0:",
        (
            "tests/privacy/test_samplers.py"
            "::TestShuffled::test_a_batch_stays_the_same_until_the_next_epoch_begins",
        ),
    ),
    Fault(
        "one-order-for-all-epochs",
        "sampler",
        "self._over = self._over or index == self.steps_per_epoch - 1",
        "self._over = self._over or index == self.steps_per_epoch",
        ("tests/privacy/test_samplers.py::test_the_order_of_a_draw_is_random",),
    ),
    Fault(
        "shuffled-rows-that-are-added-or-removed",
        "sampler",
        'assumption = "each {unit} is in at most one batch of an epoch"\n'
        '    adjacencies = ("zero-out", "replace-one")',
        'assumption = "each {unit} is in at most one batch of an epoch"',
        (
            "tests/privacy/test_samplers.py"
            "::test_shuffled_and_fixed_size_are_refused_for_rows_added_or_removed",
        ),
    ),
    Fault(
        "first-rows-of-a-draw-that-is-too-large",
        "sampler",
        "return super().draw()[: self._kind.most_rows]",
        "return np.sort(super().draw())[: self._kind.most_rows]",
        ("tests/privacy/test_samplers.py::TestTruncated::test_what_is_kept_of_a_draw_is_uniform",),
    ),
    Fault(
        "first-units-of-a-draw-that-overflows",
        "sampler",
        "kept = drawn[: self._slots.units]",
        "kept = np.sort(drawn)[: self._slots.units]",
        ("tests/training/test_batches.py::test_an_overflowing_draw_keeps_a_random_part",),
    ),
    Fault(
        "slots-that-are-given-twice",
        "sampler",
        "block = self._rng.choice(blocks, size=len(kept), replace=False)",
        "block = self._rng.choice(blocks, size=len(kept), replace=True)",
        ("tests/training/test_batches.py::test_slots_are_uniform_over_the_whole_capacity",),
    ),
    Fault(
        "one-row-too-many-of-a-user",
        "sampler",
        "return Units(rows[within < most_rows], starts, int(most_rows), ",
        "return Units(rows[within <= most_rows], starts, int(most_rows), ",
        ("tests/training/test_units.py::test_a_unit_holds_the_rows_of_one_group_and_at_most_m",),
    ),
    Fault(
        "rows-of-all-users-that-are-large",
        "sampler",
        "starts = np.concatenate([[0], np.cumsum(np.minimum(counts, most_rows))])",
        "starts = np.concatenate([[0], np.cumsum(counts)])",
        ("tests/training/test_units.py::test_a_unit_holds_the_rows_of_one_group_and_at_most_m",),
    ),
)

ACCOUNTING = (
    Fault(
        "replacement-that-moves-the-sum-once",
        "accounting",
        '{"add-remove": 1.0, "zero-out": 1.0, "replace-one": 2.0}',
        '{"add-remove": 1.0, "zero-out": 1.0, "replace-one": 1.0}',
        ("tests/privacy/test_gaussian.py::test_a_neighbour_changes_the_sum_by_one_bound_or_two",),
    ),
    Fault(
        "replacement-in-a-full-batch-beside-others",
        "accounting",
        "change = 2.0 if relation.replaced else 1.0",
        "change = 1.0",
        ("tests/privacy/test_neighbours.py::test_mixed_phases_under_replace_one",),
    ),
    Fault(
        "replacement-in-a-set-of-a-fixed-size",
        "accounting",
        "replaced = library.GaussianDpEvent(z / 2.0)",
        "replaced = library.GaussianDpEvent(z)",
        ("tests/privacy/test_samplers.py::TestFixedSize::test_event",),
    ),
    Fault(
        "rows-that-a-replacement-moves-from-where-they-are",
        "accounting",
        "return np.logaddexp(math.log1p(-rate) + kept, math.log(rate) + drawn)",
        "return np.minimum(kept, drawn)",
        (
            "tests/privacy/test_replaced.py"
            "::test_poisson_bound_holds_at_its_worst_pair_and_is_close",
        ),
    ),
    Fault(
        "rounding-of-a-replacement's-losses",
        "accounting",
        "return np.maximum(0.0, first - second) + error + _UNDERFLOW",
        "return np.maximum(0.0, first - second) + _UNDERFLOW",
        ("tests/privacy/test_replaced_losses.py::test_the_divergences_are_rounded_up",),
    ),
    Fault(
        "rounding-of-small-divergences",
        "accounting",
        "return _frozen(np.maximum(found, 0.0) * (1.0 + 1e-11) + rounding)",
        "return _frozen(np.maximum(found, 0.0) * (1.0 + 1e-11))",
        ("tests/privacy/test_rdp.py::test_divergences_are_rounded_up",),
    ),
    Fault(
        "Renyi-order-off-by-one",
        "accounting",
        "float(np.logaddexp(0.0, special.logsumexp(terms))) / (order - 1)",
        "float(np.logaddexp(0.0, special.logsumexp(terms))) / order",
        (
            "tests/privacy/test_replaced.py"
            "::test_poisson_bound_holds_at_its_worst_pair_and_is_close",
        ),
    ),
    Fault(
        "sum-of-mu",
        "accounting",
        "return math.hypot(*terms) * (1.0 + _ROUNDING) if terms else 0.0",
        "return max(terms) * (1.0 + _ROUNDING) if terms else 0.0",
        ("tests/privacy/test_gaussian.py::test_total_mu",),
    ),
    Fault(
        "full-batches-that-count-once",
        "accounting",
        "Phase(1.0, phase.noise_multiplier / math.sqrt(phase.steps), 1, phase.draw)",
        "Phase(1.0, phase.noise_multiplier, 1, phase.draw)",
        ("tests/privacy/test_pld.py::test_full_batches_beside_sampled_ones_count_each",),
    ),
    Fault(
        "steps-of-equal-phases",
        "accounting",
        "total[key] = total.get(key, 0) + phase.steps",
        "total[key] = max(total.get(key, 0), phase.steps)",
        ("tests/privacy/test_phase.py::test_equal_phases_are_added_up_and_other_draws_kept_apart",),
    ),
    Fault(
        "truncated-draws-of-the-larger-neighbour",
        "accounting",
        'added = (0, 1) if truncated and adjacency == "add-remove" else (0,)',
        "added = (0,)",
        (
            "tests/privacy/test_pld.py"
            "::test_the_costlier_of_two_neighbours_of_truncated_draws_counts",
        ),
    ),
    Fault(
        "the-cheaper-one-of-two-neighbours",
        "accounting",
        "return max(values) * (1.0 + 1e-12) + drift if min(values) >= 0.0 else math.inf",
        "return min(values) * (1.0 + 1e-12) + drift if min(values) >= 0.0 else math.inf",
        (
            "tests/privacy/test_pld.py"
            "::test_the_costlier_of_two_neighbours_of_truncated_draws_counts",
        ),
    ),
    Fault(
        "rounding-of-composed-losses",
        "accounting",
        "left = delta * math.exp(-drift) - _rounding(phases, size, replaced)",
        "left = delta * math.exp(-drift)",
        ("tests/privacy/test_pld.py::test_a_delta_within_the_rounding_has_no_value",),
    ),
    Fault(
        "draws-that-are-taken-for-Poisson",
        "accounting",
        "return Phase(self.sampling_rate, noise_multiplier, accesses, self.kind)",
        "return Phase(self.sampling_rate, noise_multiplier, accesses)",
        ("tests/privacy/test_samplers.py::test_the_price_names_the_draw",),
    ),
    Fault(
        "calibration-to-the-end-that-costs-too-much",
        "accounting",
        "        slowness = _slowness(low, high) or slowness\n    return high.noise\n",
        "        slowness = _slowness(low, high) or slowness\n    return low.noise\n",
        ("tests/privacy/test_calibration.py::test_noise_is_found_on_top_of_what_was_spent",),
    ),
    Fault(
        "calibration-that-forgets-what-was-spent",
        "accounting",
        "[*spent, *ahead(noise_multiplier)],",
        "[*ahead(noise_multiplier)],",
        ("tests/privacy/test_calibration.py::test_noise_is_found_on_top_of_what_was_spent",),
    ),
    Fault(
        "one-step-more-than-affordable",
        "accounting",
        "        attempt += 1\n    return low\n",
        "        attempt += 1\n    return high\n",
        ("tests/privacy/test_calibration.py::test_a_budget_for_500_steps_stops_at_500",),
    ),
    Fault(
        "composition-without-plain-phases",
        "accounting",
        "return account([*whole.phases, *others], left, accountant=accountant, adjacency=relation)",
        "return account(whole.phases or others, left, accountant=accountant, adjacency=relation)",
        ("tests/privacy/test_selection.py::TestComposed::test_ledgers_and_phases_are_the_same",),
    ),
    Fault(
        "composition-at-the-whole-delta",
        "accounting",
        "left = delta - whole.overflow_delta",
        "left = delta",
        ("tests/privacy/test_selection.py::TestComposed::test_overflows_are_added_up",),
    ),
    Fault(
        "selection-of-the-cheaper-settings",
        "accounting",
        "one_run = np.max([_divergences(_phases(run), relation) for run in found], axis=0)",
        "one_run = np.mean([_divergences(_phases(run), relation) for run in found], axis=0)",
        (
            "tests/privacy/test_selection.py"
            "::TestRepeatAndSelect::test_the_costliest_setting_counts",
        ),
    ),
    Fault(
        "overflow-of-one-run-of-many",
        "accounting",
        "price = mean * max(map(_overflow, found))",
        "price = max(map(_overflow, found))",
        (
            "tests/privacy/test_selection.py"
            "::TestRepeatAndSelect::test_what_overflow_takes_from_delta_grows_with_the_mean",
        ),
    ),
    Fault(
        "overflow-of-earlier-trainings",
        "accounting",
        "left = left_of(delta - ledger.overflow_delta, wanted * overflow)",
        "left = left_of(delta, wanted * overflow)",
        ("tests/training/test_remaining_budget.py::test_overflow_that_takes_all_of_delta",),
    ),
)

LEDGER = (
    Fault(
        "file-that-is-written-after-the-step",
        "ledger",
        """        record()
        is_last = self._is_last(micro_batch)
        self._optimizer.set_mode(updates=is_last)
        try:
            return self._steps[is_last](*args)
""",
        """        is_last = self._is_last(micro_batch)
        self._optimizer.set_mode(updates=is_last)
        try:
            done = self._steps[is_last](*args)
            record()
            return done
""",
        (
            "tests/training/test_ledger_file.py"
            "::TestFit::test_a_step_that_cannot_be_written_does_not_run",
        ),
    ),
    Fault(
        "file-that-is-not-durable",
        "ledger",
        "                file.flush()\n                os.fsync(file.fileno())\n",
        "                file.flush()\n",
        (
            "tests/training/test_ledger_file.py"
            "::TestWriting::test_each_write_survives_the_death_of_the_machine",
        ),
    ),
    Fault(
        "file-that-forgets-another-process",
        "ledger",
        "            if known is not None:\n                ledger.merge(known)\n",
        "",
        ("tests/training/test_history.py::test_two_trainings_that_write_one_file_add_up",),
    ),
    Fault(
        "merge-with-an-older-record",
        "ledger",
        "self._counts[entry] = max(steps, self._counts.get(entry, 0))",
        "self._counts[entry] = steps",
        ("tests/privacy/test_ledger.py::test_an_older_checkpoint_never_rolls_back",),
    ),
    Fault(
        "copies-that-share-a-session",
        "ledger",
        "        self.remarks.merge(shared)\n        self.begin_session()\n",
        "        self.remarks.merge(shared)\n",
        ("tests/privacy/test_forks.py::TestCopies::test_ten_on_each_side_of_ten_are_thirty",),
    ),
    Fault(
        "copies-that-share-their-counts",
        "ledger",
        "        self._counts = dict(self._counts)\n",
        "",
        ("tests/privacy/test_forks.py::TestCopies::test_ten_on_each_side_of_ten_are_thirty",),
    ),
    Fault(
        "forked-workers-of-one-name",
        "ledger",
        "os.register_at_fork(after_in_child=_process.cache_clear)",
        "",
        ("tests/privacy/test_forks.py",),
    ),
    Fault(
        "unknown-history-that-is-not-read",
        "ledger",
        "        if content.unknown_history:\n            ledger.mark_unknown()\n",
        "",
        ("tests/privacy/test_ledger.py::test_unknown_history_is_infinite_for_good",),
    ),
    Fault(
        "unknown-history-that-both-must-have",
        "ledger",
        "self._unknown_history |= other._unknown_history",
        "self._unknown_history &= other._unknown_history",
        ("tests/privacy/test_ledger.py::test_unknown_history_is_infinite_for_good",),
    ),
    Fault(
        "overflow-that-costs-no-delta",
        "ledger",
        "left = delta - self.overflow_delta",
        "left = delta",
        ("tests/privacy/test_ledger.py::test_overflow_is_paid_from_delta_and_grows",),
    ),
    Fault(
        "overflow-that-is-not-recorded",
        "ledger",
        "            accesses,\n"
        "            overflow_probability=self.capacity.overflow_probability_per_step,\n",
        "            accesses,\n",
        ("tests/training/test_ledger.py::test_overflow_of_every_step_is_recorded",),
    ),
    Fault(
        "kind-of-draws-that-is-not-recorded",
        "ledger",
        "            draw=phase.draw,\n            terms=self.terms if terms is None else terms,\n",
        "            terms=self.terms if terms is None else terms,\n",
        ("tests/training/test_sampling.py::test_fixed_sizes_are_recorded_as_such",),
    ),
    Fault(
        "factor-of-a-schedule-that-is-not-recorded",
        "ledger",
        "phase = self.phases[place]",
        "phase = self.phases[0]",
        ("tests/training/test_schedule.py::test_each_epoch_gets_its_noise",),
    ),
    Fault(
        "lost-ledger-that-counts-as-new",
        "ledger",
        '    if known is None:\n        return "is missing"\n',
        "    if known is None:\n        return None\n",
        ("tests/training/test_ledger_file.py::TestBackup::test_a_missing_ledger_is_refused",),
    ),
    Fault(
        "run-without-its-ledger",
        "ledger",
        'if ledger_is_missing(output):\n            return "is missing"\n',
        "if ledger_is_missing(output):\n            return None\n",
        ("tests/run/test_lost_ledger.py::test_it_is_refused_and_nothing_is_written",),
    ),
    Fault(
        "older-copy-of-a-ledger",
        "ledger",
        "and all(self._counts.get(entry, 0) >= steps for entry, steps in other._counts.items())",
        "and all(entry in self._counts for entry in other._counts)",
        (
            "tests/training/test_ledger_file.py"
            "::TestBackup::test_an_older_copy_of_the_ledger_is_refused",
        ),
    ),
    Fault(
        "texts-of-any-version",
        "ledger",
        "version not in tuple(_TERMS)",
        "not version",
        (
            "tests/privacy/test_ledger_text.py"
            "::TestEarlierVersion::test_other_versions_are_refused_whatever_their_fields",
        ),
    ),
    Fault(
        "checksum-that-nobody-compares",
        "ledger",
        "if checksum != _checksum(content):",
        "if len(str(checksum)) != len(_checksum(content)):",
        ("tests/privacy/test_ledger_text.py::TestEarlierVersion::test_an_edited_text_is_refused",),
    ),
    Fault(
        "secure-noise-of-one-access",
        "ledger",
        "return all(entry.terms.secure for entry in self._counts)",
        "return any(entry.terms.secure for entry in self._counts)",
        (
            "tests/training/test_history.py"
            "::TestStatements::test_secure_noise_of_the_last_training_alone_is_not_claimed",
        ),
    ),
    Fault(
        "seed-of-every-access",
        "ledger",
        "return any(entry.terms.seeded for entry in self._counts)",
        "return all(entry.terms.seeded for entry in self._counts)",
        (
            "tests/training/test_history.py"
            "::TestStatements::test_one_seeded_training_makes_all_of_it_not_private",
        ),
    ),
)

CERTIFICATES = (
    Fault(
        "constant-of-each-logit",
        "certificates",
        'slope = 2.0 * slope if kind == "per-logit" else _up(_ROOT_TWO * slope)',
        "slope = _up(_ROOT_TWO * slope)",
        ("tests/certificates/test_radii.py::test_two_logits",),
    ),
    Fault(
        "constant-of-all-logits",
        "certificates",
        'slope = 2.0 * slope if kind == "per-logit" else _up(_ROOT_TWO * slope)',
        'slope = 2.0 * slope if kind == "per-logit" else slope',
        ("tests/certificates/test_radii.py::test_two_logits",),
    ),
    Fault(
        "rounding-error-of-a-margin",
        "certificates",
        "        noise = _up(_ROOT_TWO * noise)\n",
        "",
        ("tests/certificates/test_radii.py::test_two_logits",),
    ),
    Fault(
        "quotient-that-is-rounded-up",
        "certificates",
        "quotient = np.nextafter(positive / slopes, -np.inf)",
        "quotient = np.nextafter(positive / slopes, np.inf)",
        (
            "tests/certificates/test_radii.py"
            "::test_per_logit_radius_is_never_above_the_exact_one_and_close",
        ),
    ),
    Fault(
        "columns-instead-of-their-distances",
        "certificates",
        "np.stack([_norms(kernel - kernel[:, [k]]) for k in range(classes)])",
        "np.stack([_norms(kernel) for k in range(classes)])",
        ("tests/certificates/test_radii.py::test_pairwise_radius_is_never_above_the_exact_one",),
    ),
    Fault(
        "rounding-error-of-a-label",
        "certificates",
        '    noise = 2.0 * non_negative("error", error)\n    slopes = ',
        '    noise = non_negative("error", error)\n    slopes = ',
        ("tests/certificates/test_decision.py::test_radii_of_labels",),
    ),
    Fault(
        "labels-at-the-constant-of-all",
        "certificates",
        "return _up(rest * _norms(kernel))",
        "return _up(rest * np.abs(kernel).max(axis=0))",
        ("tests/certificates/test_decision.py::test_radii_of_labels",),
    ),
    Fault(
        "labels-that-are-told-by-one-alone",
        "certificates",
        "margins = np.where(label_matrix(labels, z) == 1, z, -z)",
        "margins = np.abs(z)",
        ("tests/certificates/test_decision.py::test_radii_of_labels",),
    ),
    Fault(
        "mean-over-samples-of-all-labels",
        "certificates",
        "return int(above.sum()) / above.size",
        "return int(above.sum()) / len(above)",
        (
            "tests/certificates/test_decision.py"
            "::test_certified_accuracy_of_labels_and_all_together",
        ),
    ),
    Fault(
        "radius-that-is-reached",
        "certificates",
        'return values > non_negative("radius", radius)',
        'return values >= non_negative("radius", radius)',
        ("tests/certificates/test_accuracy.py::test_equality_is_not_certified",),
    ),
    Fault(
        "certificates-without-rounding-errors",
        "certificates",
        "e, rest = bounds.error if error is None else error, bounds.lipschitz_rest",
        "e, rest = error or 0.0, bounds.lipschitz_rest",
        ("tests/certificates/test_certify.py::test_takes_the_greater_of_both_radii",),
    ),
    Fault(
        "radius-beyond-the-ball-of-its-bounds",
        "certificates",
        "found[rows] = np.minimum(margins.of(rows).radii(bounds), inside)",
        "found[rows] = margins.of(rows).radii(bounds)",
        ("tests/certificates/test_free_weights.py",),
    ),
    Fault(
        "rounding-error-of-products",
        "certificates",
        "return inherited + self.activation.inference_error(seen, unit)",
        "return self.activation.inference_error(seen, unit)",
        (
            "tests/certificates/test_free_weights.py"
            "::test_linear_models_are_never_above_the_exact_distance",
        ),
    ),
    Fault(
        "relative-error-behind-a-ball",
        "certificates",
        "return 2.0 * (2.0 * times(radius, given.relative) + given.absolute)",
        "return 2.0 * given.absolute",
        ("tests/bounds/test_rounding_error.py",),
    ),
    Fault(
        "error-that-a-layer-passes-on",
        "certificates",
        "return _Error(step.push([error.absolute for error in given]) + _own_error(step))",
        "return _Error(max([_own_error(step), *(error.absolute for error in given)]))",
        ("tests/bounds/test_rounding_error.py",),
    ),
    Fault(
        "pairs-whose-scores-become-equal",
        "certificates",
        'np.searchsorted(np.sort(negative), positive - gap, side="left")',
        'np.searchsorted(np.sort(negative), positive - gap, side="right")',
        ("tests/certificates/test_auroc.py::test_certified_auroc_counts_pairs_with_a_gap",),
    ),
    Fault(
        "one-of-two-scores-that-move",
        "certificates",
        "moved = 0.0 if still else math.nextafter(2.0 * lipschitz * radius, math.inf)",
        "moved = 0.0 if still else math.nextafter(lipschitz * radius, math.inf)",
        ("tests/certificates/test_auroc.py::test_certified_auroc_counts_pairs_with_a_gap",),
    ),
    Fault(
        "rounding-error-of-one-of-two-scores",
        "certificates",
        "math.nextafter(moved + 4.0 * error, math.inf)",
        "math.nextafter(moved + 2.0 * error, math.inf)",
        ("tests/certificates/test_auroc.py::test_equality_of_gap_and_movement_is_not_certified",),
    ),
    Fault(
        "ties-that-count-as-wins",
        "certificates",
        "ranks = rankdata(np.concatenate([positive, negative]))",
        'ranks = rankdata(np.concatenate([positive, negative]), method="max")',
        ("tests/certificates/test_auroc.py::test_auroc_is_the_fraction_of_pairs_with_ties_half",),
    ),
    Fault(
        "margin-of-a-metric-while-training",
        "certificates",
        "exact = (moved + 2.0 * error) * (1.0 if single else math.sqrt(2.0))",
        "exact = moved + 2.0 * error",
        ("tests/certificates/test_metric.py::test_agrees_with_radii",),
    ),
)

FAULTS = BOUNDS + NOISE + SAMPLER + ACCOUNTING + LEDGER + CERTIFICATES
