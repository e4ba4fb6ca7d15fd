"""cerebrum_run_free_energy_loop: active inference over two states, deterministic.

The world is *nominal* or *deviant*. Each key of the observation is soft evidence (1 - v, v) for the outcomes *as usual*
and *unusual*. One step, after Da Costa et al., Active inference on discrete state-spaces: a synthesis, Journal of
Mathematical Psychology 99 (2020) 102447, section 4, and Friston, The free-energy principle: a unified brain theory?,
Nature Reviews Neuroscience 11 (2010) 127-138:

    prior   p = B[action] q          the last posterior, moved by the last action; (1/2, 1/2) at the start
    evidence  l(s) = sum over keys, outcomes o of evidence(o) ln A(o|s)
    posterior q(s) ~ p(s) exp l(s)   which minimises F
    free energy F = KL(q || p) - E_q[l]
    expected free energy G(a) = KL(B[a] q || C) + E over B[a] q of the entropy of A(.|s)
    action    argmin G, the first of equals

A is .95/.05; B keeps the state with .9 under *stay* and with .3 under *switch*; C, the preference, is (.9, .1).
F cannot fall below -ln(.9 * .95 + .1 * .05) = .151, so that convergence is |change of F| < threshold over the window,
while no action is tied with another. Evidence of .5 says nothing: the actions are tied, and it never
converges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from flows.errors import UsageError
from mcp_tools.results import LoopResult

ACTIONS = ("stay", "switch")
KEEP = {"stay": 0.9, "switch": 0.3}  # probability that the state stays as it is
LIKELY = 0.95  # of the outcome that belongs to a state
PREFERRED = 0.9  # probability that the nominal state should have
TIE = 1e-9
MAX_STEPS = 1_000
MAX_KEYS = 1_000


def run(
    observation: Mapping[str, float], *, max_steps: int = 50, threshold: float = 0.1, convergence_window: int = 3
) -> LoopResult:
    """Return the actions taken on a constant observation until free energy settles, or ``max_steps`` are done.

    Raises:
        UsageError: an argument is out of its range.
    """
    _check(observation, max_steps, threshold, convergence_window)
    evidence = _evidence(observation)
    prior, before, calm = 0.5, math.inf, 0
    history: list[str] = []
    energy = 0.0
    for _ in range(max_steps):
        posterior, energy = _perceive(prior, evidence)
        action, tied = _choose(posterior)
        history.append(action)
        calm = calm + 1 if abs(energy - before) < threshold and not tied else 0
        if calm == convergence_window:
            break
        prior, before = _moved(posterior, action), energy
    return LoopResult(
        status="success",
        converged=calm == convergence_window,
        steps=len(history),
        final_free_energy=round(energy, 6),
        action_history=history,
    )


def _check(observation: Mapping[str, float], max_steps: int, threshold: float, window: int) -> None:
    if not 1 <= len(observation) <= MAX_KEYS:
        raise UsageError(f"observation has {len(observation)} keys: give 1 to {MAX_KEYS}, each with a value of 0 to 1")
    for key, value in observation.items():
        if not 0 <= value <= 1:  # nor is it NaN
            raise UsageError(f"observation[{key[:80]!r}] is {value}: use 0 (as usual) to 1 (unusual)")
    if not 1 <= max_steps <= MAX_STEPS:
        raise UsageError(f"max_steps is {max_steps}: use 1 to {MAX_STEPS}")
    if not 0 < threshold < math.inf:
        raise UsageError(f"threshold is {threshold}: use a number above 0, e.g. 0.1")
    if not 1 <= window <= MAX_STEPS:
        raise UsageError(f"convergence_window is {window}: use 1 to {MAX_STEPS}")


def _evidence(observation: Mapping[str, float]) -> tuple[float, float]:
    """Return the log likelihood of the observation in the nominal and in the deviant state."""
    unusual = math.fsum(observation.values())
    usual = len(observation) - unusual
    good, bad = math.log(LIKELY), math.log(1 - LIKELY)
    return usual * good + unusual * bad, usual * bad + unusual * good


def _perceive(prior: float, evidence: tuple[float, float]) -> tuple[float, float]:
    """Return (probability of the nominal state, F). With the exact posterior, F is -ln sum p(s) exp l(s)."""
    nominal, deviant = math.log(prior) + evidence[0], math.log1p(-prior) + evidence[1]
    top = max(nominal, deviant)
    total = top + math.log(math.exp(nominal - top) + math.exp(deviant - top))
    return math.exp(nominal - total), -total


def _choose(posterior: float) -> tuple[str, bool]:
    """Return the action of least expected free energy, and whether another one is as good."""
    expected = [_expected(_moved(posterior, action)) for action in ACTIONS]
    least = min(expected)
    best = [action for action, value in zip(ACTIONS, expected, strict=True) if value - least < TIE]
    return best[0], len(best) > 1


def _moved(nominal: float, action: str) -> float:
    return KEEP[action] * nominal + (1 - KEEP[action]) * (1 - nominal)


def _expected(nominal: float) -> float:
    """Return risk + ambiguity of a predicted state; the ambiguity is the same in both states."""
    risk = nominal * math.log(nominal / PREFERRED) + (1 - nominal) * math.log((1 - nominal) / (1 - PREFERRED))
    return risk - LIKELY * math.log(LIKELY) - (1 - LIKELY) * math.log(1 - LIKELY)


def as_text(answer: LoopResult) -> str:
    """Return the text form of the tool's answer."""
    end = "converged" if answer.converged else "not converged"
    runs = ", ".join(f"{action} {len(list(group))} times" for action, group in itertools.groupby(answer.action_history))
    return (
        f"{answer.status}: {end} after {answer.steps} steps, final_free_energy {answer.final_free_energy}; "
        f"action_history: {runs}"
    )
