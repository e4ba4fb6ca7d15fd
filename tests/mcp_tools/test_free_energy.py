"""The free-energy loop: golden values, worked out by hand where that is short, and what it must never do."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.errors import UsageError
from mcp_tools.free_energy import LIKELY, run
from mcp_tools.index import Index
from tests.mcp_tools.conftest import in_memory, text_of


@pytest.mark.parametrize(
    ("observation", "converged", "steps", "energy", "action"),
    [
        ({"sensor": 0}, True, 5, 0.155974, "stay"),
        ({"sensor": 1}, True, 5, 1.039101, "switch"),
        ({"sensor": 0.5}, False, 50, 1.523513, "stay"),  # says nothing: the first of two equal actions, no convergence
        ({"a": 0, "b": 1}, False, 50, 3.047026, "stay"),  # contradict each other
        ({"sensor": 0.3}, True, 5, 1.038302, "stay"),
        ({"sensor": 0.7}, True, 5, 1.44709, "switch"),
        ({"a": 0.2, "b": 0.1}, True, 5, 1.091076, "stay"),
    ],
)
def test_golden(observation: dict[str, float], converged: bool, steps: int, energy: float, action: str) -> None:
    answer = run(observation)
    assert (answer.status, answer.converged, answer.steps) == ("success", converged, steps)
    assert answer.final_free_energy == energy
    assert answer.action_history == [action] * steps


def test_the_first_step_is_surprise_under_a_uniform_prior() -> None:
    # F = -ln sum p(s) A(o|s) = -ln (.5 * .95 + .5 * .05), and for 1/2 it is -(ln .95 + ln .05) / 2
    assert run({"x": 0}, max_steps=1).final_free_energy == round(math.log(2), 6)
    assert run({"x": 1}, max_steps=1).final_free_energy == round(math.log(2), 6)
    half = -(math.log(LIKELY) + math.log(1 - LIKELY)) / 2
    assert run({"x": 0.5}, max_steps=1).final_free_energy == round(half, 6)


def test_free_energy_has_a_floor_and_the_default_threshold_is_reached() -> None:
    floor = -math.log(0.9 * 0.95 + 0.1 * 0.05)
    long = run({"x": 0}, threshold=1e-12, max_steps=1_000)
    assert long.converged and long.final_free_energy >= floor
    assert not run({"x": 0}, max_steps=3).converged  # the window is not full
    assert run({"x": 0}, max_steps=3, convergence_window=1).converged


@settings(deadline=None)  # a loaded machine is no fault
@given(
    st.dictionaries(st.text(max_size=5), st.floats(0, 1), min_size=1, max_size=20),
    st.integers(1, 30),
    st.floats(1e-6, 10),
    st.integers(1, 5),
)
def test_equal_input_gives_equal_answers_of_finite_numbers(
    observation: dict[str, float], max_steps: int, threshold: float, window: int
) -> None:
    answer = run(observation, max_steps=max_steps, threshold=threshold, convergence_window=window)
    turned = dict(reversed(observation.items()))
    assert answer == run(turned, max_steps=max_steps, threshold=threshold, convergence_window=window)
    assert 1 <= answer.steps <= max_steps and len(answer.action_history) == answer.steps
    assert math.isfinite(answer.final_free_energy) and answer.final_free_energy > 0.15
    assert answer.converged or answer.steps == max_steps


def test_a_thousand_signals_do_not_underflow() -> None:
    assert run({str(i): 1 for i in range(1_000)}).action_history[-1] == "switch"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation": {}}, "observation has 0 keys: give 1 to 1000"),
        ({"observation": {"x": 1.5}}, r"observation\['x'\] is 1.5: use 0"),
        ({"observation": {"x": -0.1}}, "is -0.1: use 0"),
        ({"observation": {"x": math.nan}}, "is nan: use 0"),
        ({"observation": {"x": 0}, "max_steps": 0}, "max_steps is 0: use 1 to 1000"),
        ({"observation": {"x": 0}, "max_steps": 1_001}, "max_steps is 1001"),
        ({"observation": {"x": 0}, "threshold": 0}, "threshold is 0.*: use a number above 0"),
        ({"observation": {"x": 0}, "threshold": math.inf}, "threshold is inf"),
        ({"observation": {"x": 0}, "convergence_window": 0}, "convergence_window is 0: use 1"),
    ],
)
def test_errors(library: Index, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(**arguments)  # type: ignore[arg-type]


def test_the_tool_keeps_the_form_of_the_seed(library: Index) -> None:
    with in_memory(library, "cerebrum") as client:
        good = client.call("cerebrum_run_free_energy_loop", observation={"sensor": 0})
        assert good.structured_content == {
            "status": "success",
            "converged": True,
            "steps": 5,
            "final_free_energy": 0.155974,
            "action_history": ["stay"] * 5,
        }
        assert text_of(good) == (
            "success: converged after 5 steps, final_free_energy 0.155974; action_history: stay 5 times"
        )
        for observation in ({"sensor": 2}, {"sensor": "loud"}, [], 5, None):
            bad = client.call("cerebrum_run_free_energy_loop", observation=observation)
            assert bad.is_error and json.loads(text_of(bad)) == bad.structured_content
            assert set(bad.structured_content) == {"status", "message"}
