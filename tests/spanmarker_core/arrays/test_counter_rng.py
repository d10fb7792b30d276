"""Draws by a hash: the published numbers of splitmix64, and that they depend on every number and on nothing else."""

import numpy as np

from spanmarker_core.arrays.counter_rng import mixed, uniform


def test_one_number_is_a_step_of_splitmix64():
    """The first outputs of the generator with seed 0: its state rises by the golden ratio before each."""
    golden = 0x9E3779B97F4A7C15
    states = np.array([0, golden, 2 * golden % 2**64], np.uint64)
    assert [hex(value) for value in mixed(states)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_every_number_counts_and_shapes_are_common():
    numbers = np.arange(1000)
    draws = uniform(3, numbers[:, None], np.arange(2))
    assert draws.shape == (1000, 2)
    assert len(np.unique(draws)) == 2000
    assert ((draws >= 0) & (draws < 1)).all()
    assert np.array_equal(draws[::-1], uniform(3, numbers[::-1, None], np.arange(2)))
    assert not np.isin(uniform(4, numbers[:, None], np.arange(2)), draws).any()
