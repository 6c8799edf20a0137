"""Random numbers that are a function of a seed, a stream and a place, whole arrays at once.

Nothing is drawn in sequence, so the number at a place can be had without those before it. The
mixing is that of the generator known as SplitMix64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def below(bound: int, seed: int, stream: int, places: Ints) -> Ints:
    """For each place a number from 0 up to, and without, `bound`, which is far below 2^63."""
    key = _mixed(np.array([seed % 2**64], np.uint64)) + np.uint64(stream)
    drawn = _mixed(_mixed(places.astype(np.uint64)) ^ _mixed(key))
    return ((drawn >> np.uint64(1)) % np.uint64(bound)).astype(np.int64)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
