import math

import numpy as np
import pytest
from scipy import optimize, stats

from lipdp.errors import InvalidData, InvalidValue, UnknownName
from lipdp.privacy import (
    Draw,
    Phase,
    PrivacyLedger,
    account,
    composed,
    draw_number_of_runs,
    epsilon_of,
    repeat_and_select,
)

RUN = [Phase(0.01, 1.0, 1000)]
SHAPES = [math.inf, 3.0, 1.0, 0.5, 0.0]


def _ledger(adjacency="add-remove", steps=1000, overflow=0.0):
    ledger = PrivacyLedger(adjacency)
    ledger.record(0.01, 1.0, steps, overflow_probability=overflow)
    return ledger


class TestComposed:
    def test_ten_runs_cost_what_their_composition_costs(self):
        assert composed([RUN] * 10, 1e-5).epsilon == pytest.approx(6.1877, abs=5e-4)
        assert composed([RUN], 1e-5) == account(RUN, 1e-5)
        assert composed([RUN], 1e-5).epsilon == pytest.approx(1.8282, abs=5e-4)

    def test_ledgers_and_phases_are_the_same(self):
        ten = [_ledger() for _ in range(10)]
        assert composed(ten, 1e-5) == composed([RUN] * 10, 1e-5)
        mixed = composed([_ledger(), [Phase(1.0, 9.0, 1)], RUN], 1e-5)
        assert mixed.epsilon == epsilon_of([*RUN, *RUN, Phase(1.0, 9.0, 1)], 1e-5)

    def test_overflows_are_added_up(self):
        runs = [_ledger(overflow=1e-10), _ledger(overflow=3e-10), RUN]
        assert composed(runs, 1e-5).epsilon == pytest.approx(epsilon_of([*RUN] * 3, 1e-5 - 4e-7))
        many = [_ledger(overflow=4e-10) for _ in range(25)]
        assert composed(many, 1e-5).epsilon == math.inf

    def test_sessions_that_ledgers_share_count_once(self):
        first = _ledger(steps=200)
        forks = [PrivacyLedger.from_json(first.to_json()) for _ in range(2)]
        for fork in forks:
            fork.record(0.01, 1.0, 300, overflow_probability=1e-10)
        whole = epsilon_of([Phase(0.01, 1.0, 800)], 1e-5 - 6e-8)
        assert composed(forks, 1e-5).epsilon == pytest.approx(whole, rel=1e-9)
        assert composed([first, *forks, *forks], 1e-5) == composed(forks, 1e-5)
        assert composed([first] * 3, 1e-5) == composed([first], 1e-5)
        # Sequences of phases have no sessions: they are other accesses each time.
        assert composed([*forks, RUN, RUN], 1e-5).epsilon > composed([*forks, RUN], 1e-5).epsilon
        # They stay as they are.
        assert first.steps == 200 and [fork.steps for fork in forks] == [500, 500]

    def test_unknown_history_is_infinite(self):
        unknown = _ledger()
        unknown.mark_unknown()
        assert composed([RUN, unknown], 1e-5).epsilon == math.inf
        assert repeat_and_select([unknown], 1e-5, mean=2, shape=1).epsilon == math.inf

    def test_nothing_costs_nothing(self):
        assert composed([], 1e-5).epsilon == 0.0
        assert composed([[], PrivacyLedger()], 1e-5).epsilon == 0.0

    def test_adjacencies_do_not_mix(self):
        with pytest.raises(InvalidData, match="adjacenc"):
            composed([_ledger(), _ledger("zero-out")], 1e-5)
        with pytest.raises(InvalidData, match="adjacenc"):
            composed([_ledger()], 1e-5, adjacency="replace-one")
        with pytest.raises(UnknownName):
            composed([RUN], 1e-5, adjacency="swap")
        found = composed([_ledger("replace-one"), RUN], 1e-5)
        assert found == account([*RUN, *RUN], 1e-5, adjacency="replace-one")

    def test_options_are_checked_and_passed_on(self):
        assert composed([RUN], 1e-5, accountant="rdp").method == "Renyi divergences"
        with pytest.raises(InvalidValue, match="delta"):
            composed([RUN], 0.0)
        with pytest.raises(InvalidValue, match="replace-one"):
            composed([[Phase(0.1, 1.0, 1, Draw("fixed-size", 10, 1))]], 1e-5)


def _generating(shape, mean):
    """``s -> E s^K``, its derivative, and the halting probability, by the paper's definition."""
    if math.isinf(shape):
        return (lambda s: np.exp(mean * (s - 1))), (lambda s: mean * np.exp(mean * (s - 1))), None
    gamma = optimize.brentq(lambda g: _mean(shape, g) - mean, 1e-9, 1 - 1e-9, xtol=1e-14)
    if shape == 0.0:
        whole = math.log(gamma)
        return (
            lambda s: np.log(1 - (1 - gamma) * s) / whole,
            lambda s: -(1 - gamma) / (1 - (1 - gamma) * s) / whole,
            gamma,
        )
    whole = gamma**-shape - 1
    return (
        lambda s: ((1 - (1 - gamma) * s) ** -shape - 1) / whole,
        lambda s: shape * (1 - gamma) * (1 - (1 - gamma) * s) ** (-shape - 1) / whole,
        gamma,
    )


def _mean(shape, gamma):
    if shape == 0.0:
        return (1 - 1 / gamma) / math.log(gamma)
    return shape * (1 - gamma) / (gamma * (1 - gamma**shape))


def _closed_formula(shape, mean, rho, order, gamma):
    """Papernot & Steinke 2022, Theorems 2 and 6, for a Gaussian run: divergence rho * order."""
    common = rho * order + math.log(mean) / (order - 1)
    if math.isinf(shape):
        bound = math.log1p(1 / (order - 1))
        mu = math.sqrt(2 * rho)
        delta = stats.norm.cdf(mu / 2 - bound / mu) - math.exp(bound) * stats.norm.cdf(
            -mu / 2 - bound / mu
        )
        return common + mean * delta
    # min over b > 1 of (1 - 1/b) b rho + log(1/gamma) / b, at b = sqrt(log(1/gamma) / rho).
    b = max(math.sqrt(math.log(1 / gamma) / rho), 1.0)
    return common + (1 + shape) * ((b - 1) * rho + math.log(1 / gamma) / b)


def _best_epsilon(divergence, delta):
    """The least of ``d + log(1 - 1/a) - log(a delta) / (a - 1)`` over real orders."""
    orders = np.exp(np.linspace(0.02, 7, 4000))
    return min(divergence(a) + math.log1p(-1 / a) - math.log(a * delta) / (a - 1) for a in orders)


class TestRepeatAndSelect:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize(("mean", "noise"), [(2.0, 3.0), (10.0, 5.0), (100.0, 20.0)])
    def test_is_the_closed_formula(self, shape, mean, noise):
        rho, gamma = 0.5 / noise**2, _generating(shape, mean)[2]
        exact = _best_epsilon(lambda order: _closed_formula(shape, mean, rho, order, gamma), 1e-5)
        found = repeat_and_select([[Phase(1.0, noise, 1)]], 1e-5, mean=mean, shape=shape).epsilon
        # Poisson: the library knows the delta of one run from its divergences alone.
        assert exact * (1 - 1e-6) <= found <= exact * (1.3 if math.isinf(shape) else 1.01)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_is_never_below_one_run(self, shape):
        for run in (RUN, [Phase(1.0, 3.0, 2)], [Phase(0.3, 5.0, 20), Phase(1.0, 8.0, 1)]):
            one = account(run, 1e-5, accountant="rdp").epsilon
            for mean in (1.0, 1.5, 30.0):
                assert repeat_and_select([run], 1e-5, mean=mean, shape=shape).epsilon >= one

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("mean", [3.0, 30.0])
    def test_holds_for_the_largest_of_gaussian_outputs(self, shape, mean):
        """Each run publishes a noisy sum and the largest is chosen: its law is known exactly."""
        noise, delta, x = 1.5, 1e-4, np.linspace(-14, 20, 200_001)
        _, slope, _ = _generating(shape, mean)

        def density(centre):
            below = stats.norm.cdf(x, centre, noise)
            return slope(below) * stats.norm.pdf(x, centre, noise)

        def excess(epsilon):
            p, q = density(0.0), density(1.0)
            step = x[1] - x[0]
            return max(
                np.maximum(0, p - math.exp(epsilon) * q).sum() * step,
                np.maximum(0, q - math.exp(epsilon) * p).sum() * step,
            )

        claimed = repeat_and_select([[Phase(1.0, noise, 1)]], delta, mean=mean, shape=shape).epsilon
        assert excess(claimed) <= delta
        # The cost of one run alone would be a false claim here: the test can fail.
        if mean == 30.0 and shape <= 1.0:
            assert excess(epsilon_of([Phase(1.0, noise, 1)], delta)) > delta

    def test_more_runs_cost_more_and_less_than_composition(self):
        found = [
            repeat_and_select([RUN], 1e-5, mean=mean, shape=1).epsilon for mean in (1.0, 3.0, 100.0)
        ]
        assert found[0] < found[1] < found[2] < composed([RUN] * 100, 1e-5).epsilon

    def test_the_event_of_the_library_says_the_same(self):
        import dp_accounting as library
        from dp_accounting.rdp import RdpAccountant

        from lipdp.privacy.rdp import orders

        run = library.PoissonSampledDpEvent(0.02, library.GaussianDpEvent(2.0))
        for shape in SHAPES:
            event = library.dp_event.RepeatAndSelectDpEvent(
                library.SelfComposedDpEvent(run, 100), 10, shape
            )
            theirs = RdpAccountant(orders()).compose(event).get_epsilon(1e-6)
            ours = repeat_and_select([[Phase(0.02, 2.0, 100)]], 1e-6, mean=10, shape=shape).epsilon
            assert theirs <= ours <= theirs * (1 + 1e-6)

    def test_the_costliest_setting_counts(self):
        cheap, dear = [Phase(0.01, 2.0, 100)], [Phase(0.02, 1.0, 500)]
        alone = repeat_and_select([dear], 1e-5, mean=5, shape=1)
        assert repeat_and_select([cheap, dear], 1e-5, mean=5, shape=1) == alone
        crossing = [[Phase(0.001, 0.7, 100)], [Phase(0.2, 9.0, 300)]]
        both = repeat_and_select(crossing, 1e-5, mean=5, shape=1).epsilon
        each = [repeat_and_select([one], 1e-5, mean=5, shape=1).epsilon for one in crossing]
        assert both >= max(each)

    def test_overflow_is_paid_for_every_run(self):
        plain = repeat_and_select([_ledger()], 1e-5, mean=10, shape=1).epsilon
        some = repeat_and_select([_ledger(overflow=1e-12)], 1e-5, mean=10, shape=1).epsilon
        assert plain < some < plain + 0.05
        much = repeat_and_select([_ledger(overflow=1e-9)], 1e-5, mean=10, shape=1).epsilon
        assert much == math.inf

    def test_what_overflow_takes_from_delta_grows_with_the_mean(self):
        ledger, mean, delta = _ledger(overflow=1e-12), 10, 1e-5
        some = repeat_and_select([ledger], delta, mean=mean, shape=1).epsilon
        left = delta - mean * ledger.overflow_delta * (1.0 + math.exp(some))
        assert repeat_and_select([_ledger()], left, mean=mean, shape=1).epsilon <= some

    def test_ends(self):
        nothing = repeat_and_select([[]], 1e-5, mean=10, shape=1)
        assert nothing.epsilon == 0.0
        assert repeat_and_select([[Phase(0.1, 0.0, 1)]], 1e-5, mean=2, shape=1).epsilon == math.inf
        for noise in (1e-300, 1e-3, 1e300):
            assert repeat_and_select([[Phase(0.1, noise, 5)]], 1e-5, mean=2, shape=0).epsilon >= 0.0
        fixed = [Phase(0.1, 4.0, 10, Draw("fixed-size", 100, 10))]
        how = {"mean": 2, "shape": 1, "adjacency": "replace-one"}
        one = epsilon_of(fixed, 1e-5, adjacency="replace-one")
        assert one < repeat_and_select([fixed], 1e-5, **how).epsilon < math.inf
        with pytest.raises(InvalidValue, match="replace-one"):
            repeat_and_select([fixed], 1e-5, mean=2, shape=1)

    @pytest.mark.parametrize(
        ("change", "word"),
        [
            ({"mean": 0.5}, "mean"),
            ({"mean": math.inf}, "mean"),
            ({"mean": math.nan}, "mean"),
            ({"shape": -0.1}, "shape"),
            ({"shape": math.nan}, "shape"),
            ({"delta": 1.0}, "delta"),
            ({"settings": []}, "setting"),
        ],
    )
    def test_bad_input_is_refused_by_name(self, change, word):
        arguments = {"settings": [RUN], "delta": 1e-5, "mean": 2.0, "shape": 1.0, **change}
        settings, delta = arguments.pop("settings"), arguments.pop("delta")
        with pytest.raises(InvalidValue, match=word):
            repeat_and_select(settings, delta, **arguments)


class TestNumberOfRuns:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_has_the_distribution_that_is_accounted(self, shape):
        """Frequencies of each small number, and the mean, at 5 standard errors."""
        draws, generate = 4000, _generating(shape, 4.0)[0]
        numbers = np.array([draw_number_of_runs(4.0, shape, seed) for seed in range(draws)])
        assert abs(numbers.mean() - 4.0) < 5 * numbers.std() / math.sqrt(draws)
        # Coefficients of the generating function by its values on a circle.
        circle = np.exp(2j * np.pi * np.arange(256) / 256)
        chances = np.fft.fft(generate(0.5 * circle)).real / 256 / 0.5 ** np.arange(256)
        for number in range(8):
            chance = min(max(chances[number], 0.0), 1.0)
            error = math.sqrt(chance * (1 - chance) * draws)
            assert abs(np.sum(numbers == number) - chance * draws) <= 5 * error + 1e-6

    def test_is_secret_without_a_seed(self):
        assert len({draw_number_of_runs(1000.0, 1.0) for _ in range(20)}) > 5
        assert draw_number_of_runs(1000.0, 1.0, 3) == draw_number_of_runs(1000.0, 1.0, 3)

    def test_one_run_and_bad_input(self):
        assert draw_number_of_runs(1.0, 0.5) == 1
        for mean, shape in [(0.5, 1.0), (2.0, -1.0), (2.0, 1e-9)]:
            with pytest.raises(InvalidValue):
                draw_number_of_runs(mean, shape)
