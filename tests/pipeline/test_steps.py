"""Steps: what they may read of several inputs, and when they count as changed."""

from __future__ import annotations

from typing import Any

import pytest

import lode
from lode.pipeline.step import compiled_steps, digest_of


def digest(*steps: Any) -> str:
    return digest_of(compiled_steps(steps, ["input"], ["pages"], linear=True))


def scaled(factor: int) -> Any:
    return lambda frame: frame.selectExpr(f"n * {factor}")


def test_a_digest_changes_with_sql_with_source_and_with_what_a_function_closes_over() -> None:
    assert digest("SELECT 1 FROM {input}") == digest("SELECT 1 FROM {input}")
    assert digest("SELECT 1 FROM {input}") != digest("SELECT 2 FROM {input}")
    assert digest(scaled(2)) == digest(scaled(2))
    assert digest(scaled(2)) != digest(scaled(3))
    assert digest(lambda frame: frame.limit(1)) != digest(lambda frame: frame.limit(2))
    typed: dict[str, Any] = {}
    exec("one = lambda frame: frame.limit(1)\ntwo = lambda frame: frame.limit(2)", typed)
    assert digest(typed["one"]) != digest(typed["two"])
    assert digest(typed["one"]) == digest(typed["one"])


@pytest.mark.parametrize(
    ("sql", "fits"),
    [
        ("SELECT * FROM {a} UNION ALL SELECT * FROM {b}", True),
        ("SELECT * FROM {a} union SELECT * FROM {b} UNION ALL SELECT * FROM {b}", True),
        ("(SELECT * FROM {a}) UNION ALL (SELECT * FROM {b} JOIN {pages} USING (page))", True),
        ("SELECT day, sum(n) FROM (SELECT * FROM {a} UNION ALL SELECT * FROM {b}) GROUP BY day", True),
        ("SELECT * FROM {a} -- and {b}, UNION", True),
        ("SELECT * FROM {a} JOIN {b} USING (day)", False),
        ("SELECT * FROM {a} EXCEPT SELECT * FROM {b}", False),
        ("SELECT * FROM {a} WHERE id IN (SELECT 1 UNION ALL SELECT id FROM {b})", False),
        ("SELECT * FROM {a}, (SELECT 1 UNION ALL SELECT n FROM {b})", False),
        ("SELECT * FROM {a} JOIN {b} ON a.x = ' UNION ALL '", False),
        ("SELECT * FROM (SELECT * FROM {a} JOIN {b} USING (day)) UNION ALL SELECT * FROM {b}", False),
        ("WITH u AS (SELECT * FROM {a} UNION ALL SELECT * FROM {b}) SELECT * FROM u JOIN u", False),
    ],
)
def test_new_rows_of_several_inputs_are_put_together_only_by_a_union(sql: str, fits: bool) -> None:
    if fits:
        compiled_steps([sql], ["a", "b"], ["pages"], linear=True)
    else:
        with pytest.raises(lode.InvalidOptionError, match="gets only the new rows of a, b"):
            compiled_steps([sql], ["a", "b"], ["pages"], linear=True)
    compiled_steps([sql], ["a", "b"], ["pages"], linear=False)


def test_a_later_step_may_not_join_what_was_made_with_an_input() -> None:
    union = "SELECT * FROM {a} UNION ALL SELECT * FROM {b}"
    with pytest.raises(lode.InvalidOptionError, match="gets only the new rows of a, input"):
        compiled_steps([union, "SELECT * FROM {input} JOIN {a} USING (day)"], ["a", "b"], [], linear=True)


def test_a_function_that_takes_what_there_is_not_is_refused() -> None:
    def joined(frame: Any, page: Any) -> Any:
        return frame.join(page)

    with pytest.raises(lode.InvalidOptionError, match="step joined takes 'page': there are input, pages"):
        compiled_steps([joined], ["input"], ["pages"], linear=True)
