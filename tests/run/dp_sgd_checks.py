"""Checks of clipping and noise against NumPy, in a process where tensorflow-privacy is imported.

Of a linear model without bias and the squared error: the gradient of a row is known in closed form.
"""

import numpy as np
import tensorflow as tf

from lipdp.run import dp_sgd_process as process

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(50, 3)), RNG.normal(size=50)
START = np.array([[0.5], [-1.0], [2.0]])
HUGE = 1e12


def gradients(x, y):
    """Of each row."""
    return (x @ START - y[:, None]) * x


def sums(rows, capacity, size, clip_norm, stddev=0.0, x=X):
    weight = tf.Variable(START)

    def losses_of(x, y):
        return tf.reshape(0.5 * (x @ weight - y[:, None]) ** 2, (-1,))

    step = process.noisy_sums([weight], losses_of, clip_norm)
    batch = process.padded(x, Y, np.asarray(rows, int), capacity, size)
    return np.array(step(batch, tf.constant(stddev))[0])[:, 0]


def without_clip_and_noise_it_is_the_plain_sum_over_drawn_rows():
    rows = [3, 7, 7 + 1, 40]
    for capacity, size in ((4, 4), (10, 10), (10, 3), (50, 1)):
        expected = gradients(X[rows], Y[rows]).sum(axis=0)
        np.testing.assert_allclose(sums(rows, capacity, size, HUGE), expected, rtol=1e-12)


def each_row_is_clipped_by_itself():
    rows, clip = np.arange(50), 0.7
    each = gradients(X, Y)
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    assert (norms > clip).sum() > 10 and (norms < clip).sum() > 3
    expected = (each * np.minimum(1.0, clip / norms)).sum(axis=0)
    np.testing.assert_allclose(sums(rows, 64, 8, clip), expected, rtol=1e-12)


def one_row_moves_the_sum_by_the_clip_norm_at_most():
    with_it, without = np.arange(50), np.arange(49)
    worst = X.copy()
    for scale in (1e3, 1e100, 1e200):
        worst[49] = scale
        moved = sums(with_it, 64, 8, 0.1, x=worst) - sums(without, 64, 8, 0.1, x=worst)
        assert np.linalg.norm(moved) <= 0.1 * (1 + 1e-9), (scale, moved)


def a_row_whose_gradient_is_not_finite_counts_as_nothing():
    for value in (np.nan, np.inf, 1e300):
        odd = X.copy()
        odd[49] = value
        both = [sums(np.arange(n), 64, 8, 0.1, x=odd) for n in (49, 50)]
        np.testing.assert_array_equal(*both)


def rows_beyond_the_capacity_are_dropped():
    expected = gradients(X[:4], Y[:4]).sum(axis=0)
    np.testing.assert_allclose(sums(np.arange(9), 4, 2, HUGE), expected, rtol=1e-12)


def an_empty_draw_has_noise_alone_of_the_right_size():
    size, stddev, clip = 200_000, 0.37, 0.1
    weight = tf.Variable(np.zeros(size))
    other = tf.Variable(np.zeros(size))

    def losses_of(x, y):
        return tf.reduce_sum(x) * (tf.reduce_sum(weight) + tf.reduce_sum(other))[None]

    step = process.noisy_sums([weight, other], losses_of, clip)
    batch = process.padded(X, Y, np.array([], int), 2, 1)
    draws = [np.array(g) for _ in range(2) for g in step(batch, tf.constant(stddev))]
    for draw in draws:
        # The standard deviation of a sample's is sigma / sqrt(2 n).
        assert abs(draw.std() - stddev) < 5 * stddev / np.sqrt(2 * size)
        assert abs(draw.mean()) < 5 * stddev / np.sqrt(size)
    correlations = np.corrcoef(draws) - np.eye(4)
    assert np.abs(correlations).max() < 5 / np.sqrt(size)


def the_seed_is_not_that_of_an_earlier_call():
    """What ``keras.utils.set_random_seed`` left must not give the noise away."""
    found = []
    for seed in (None, None, 7, 7):
        tf.random.set_seed(0)
        process.seed_noise(seed)
        found.append(sums([], 2, 1, 1.0, stddev=1.0))
    assert np.abs(found[0] - found[1]).min() > 0
    np.testing.assert_array_equal(found[2], found[3])


def parts_bound_the_memory():
    assert process.part_size(10, None) == 1024
    assert process.part_size(10, 64) == 64
    assert process.part_size(2**16, None) == 64
    assert process.part_size(2**30, None) == 1


if __name__ == "__main__":
    for name, check in list(globals().items()):
        if callable(check) and getattr(check, "__module__", "") == "__main__" and "_" in name:
            check()
            print(name)
