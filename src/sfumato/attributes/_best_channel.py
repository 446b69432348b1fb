"""The best channel there is for given labels: what no substitution can beat, as a linear programme.

A channel draws its output by P(y | c) for a record that it sees as c. Outputs that make the Bayes
attacker guess the same class of every attribute can be merged without changing anybody's accuracy,
so that as many outputs as there are combinations of guesses suffice. With outputs so named every
accuracy is linear in the channel,

    acc_A = sum_c sum_y P(c, A = guess_A(y)) P(y | c),

and so is the condition that the guess of a private attribute is the Bayes attacker's:
P(y, S = guess_S(y)) >= P(y, S = s) for every s. What should survive is maximised, so that its
guesses turn out best by themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from sfumato.attributes._tasks import AttributesError

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# channel entries the solver can take within seconds
_MOST_VARIABLES = 200_000


@dataclass(frozen=True)
class BestChannel:
    """NAG of every attribute through the best channel, and their mNAG, in per cent."""

    nags: Mapping[str, float]
    mnag: float


def best_channel(
    seen: Codes,
    labels: Mapping[str, Codes],
    *,
    private: Sequence[str],
    unprotected: Mapping[str, float],
    most: float = 100.0,
) -> BestChannel:
    """The highest mNAG of any channel that hides each ``private`` attribute to a NAG of ``most``.

    ``seen`` numbers what the channel knows of each record: its true classes, or a classifier's
    guesses. All other ``labels`` should survive; ``unprotected`` is the accuracy where NAG is 100.
    """
    names = list(labels)
    kept = [name for name in names if name not in private]
    if not kept or not private or not set(private) <= set(names):
        raise AttributesError(
            f"Expected labels of private and of other attributes, got {', '.join(names)} with "
            f"private {', '.join(private)}."
        )
    sizes = [int(labels[name].max()) + 1 for name in names]
    guesses = np.array(list(itertools.product(*map(range, sizes))))
    _, cells = np.unique(seen, return_inverse=True)
    count = int(cells.max()) + 1
    if count * len(guesses) > _MOST_VARIABLES:
        raise AttributesError(
            f"Expected at most {_MOST_VARIABLES} entries of a channel, got {count} inputs by "
            f"{len(guesses)} outputs: bound fewer attributes or classes at a time."
        )
    joints = {name: _joint(cells, labels[name], count, size) for name, size in zip(names, sizes)}
    # (name -> hits[c, y]): what a record seen as c adds to the accuracy if it becomes y
    hits = {name: joints[name][:, guesses[:, column]] for column, name in enumerate(names)}
    guessing = {name: float(joints[name].sum(0).max()) for name in names}
    scale = {name: 100 / (unprotected[name] - guessing[name]) for name in names}
    gain: Floats = sum(
        (hits[name] * scale[name] / len(kept) for name in kept), np.zeros((count, len(guesses)))
    )
    for name in private:
        gain = gain - hits[name] * scale[name] / len(private)
    limits = [hits[name].ravel() * scale[name] for name in private]
    upper = [most + guessing[name] * scale[name] for name in private]
    honest = [
        _honest(joints[name], guesses[:, names.index(name)], other)
        for name in private
        for other in range(joints[name].shape[1])
    ]
    solved = linprog(
        -gain.ravel(),
        A_ub=vstack([coo_array(np.array(limits)), *honest]).tocsr(),
        b_ub=np.concatenate([upper, np.zeros(sum(each.shape[0] for each in honest))]),
        A_eq=_row_sums(count, len(guesses)),
        b_eq=np.ones(count),
        method="highs",
    )
    if solved.x is None:
        raise AttributesError(f"Expected a best channel, got none: {solved.message}")
    channel = solved.x.reshape(count, len(guesses))
    nags = {
        name: float(scale[name] * ((hits[name] * channel).sum() - guessing[name])) for name in names
    }
    found = np.mean([nags[name] for name in kept]) - np.mean([nags[name] for name in private])
    return BestChannel(nags, float(found))


def _joint(cells: Codes, codes: Codes, count: int, size: int) -> Floats:
    """P(c, A = a)."""
    joint = np.zeros((count, size))
    np.add.at(joint, (cells, codes), 1 / len(cells))
    return joint


def _honest(joint: Floats, guess: Codes, other: int) -> coo_array:
    """One line an output: class ``other`` is no likelier there than the class it is named after."""
    count, outputs = len(joint), len(guess)
    excess = joint[:, [other]] - joint[:, guess]
    columns = np.arange(count * outputs)
    return coo_array((excess.ravel(), (columns % outputs, columns)), (outputs, columns.size))


def _row_sums(count: int, outputs: int) -> coo_array:
    columns = np.arange(count * outputs)
    return coo_array((np.ones(columns.size), (columns // outputs, columns)), (count, columns.size))
