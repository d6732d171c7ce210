"""Routines: SQL functions and procedures, by SQL and by the methods of the official client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.api_core.exceptions import BadRequest, Conflict, GoogleAPICallError, NotFound, PreconditionFailed
from google.cloud.bigquery import Routine, RoutineArgument, StandardSqlDataType

if TYPE_CHECKING:
    from google.cloud import bigquery

INT64 = StandardSqlDataType.from_api_repr({"typeKind": "INT64"})
TEXTS = StandardSqlDataType.from_api_repr({"typeKind": "ARRAY", "arrayElementType": {"typeKind": "STRING"}})


def answer(client: bigquery.Client, query: str) -> list[dict[str, Any]]:
    found = client.query(query, job_retry=None).result(job_retry=None)
    return [dict(row) for row in found]


def function(name: str, body: str = "x + y") -> Routine:
    return Routine(
        f"p.d.{name}",
        type_="SCALAR_FUNCTION",
        language="SQL",
        body=body,
        arguments=[RoutineArgument(name=each, data_type=INT64) for each in "xy"],
        return_type=INT64,
        description="of two numbers",
    )


def test_a_function_of_the_client_is_called_listed_changed_and_deleted(client: bigquery.Client) -> None:
    made = client.create_routine(function("addBoth"))
    assert answer(client, "SELECT d.addBoth(2, 3) AS r") == [{"r": 5}]
    assert "addBoth" in [each.routine_id for each in client.list_routines("d")]
    found = client.get_routine("p.d.addboth")
    assert (found.body, found.description, found.return_type) == ("x + y", "of two numbers", INT64)
    assert [(each.name, each.data_type) for each in found.arguments] == [("x", INT64), ("y", INT64)]

    found.body = "x - y"
    changed = client.update_routine(found, ["body"])
    assert changed.created == made.created
    assert answer(client, "SELECT d.addBoth(2, 3) AS r") == [{"r": -1}]

    client.delete_routine("p.d.addBoth")
    with pytest.raises(NotFound, match=r"Not found: Routine p:d\.addBoth"):
        client.get_routine("p.d.addBoth")
    with pytest.raises(NotFound):
        client.delete_routine("p.d.addBoth")


def test_a_function_that_exists_is_only_replaced_by_who_has_seen_it(client: bigquery.Client) -> None:
    first = client.create_routine(function("seen"))
    with pytest.raises(Conflict, match=r"Already Exists: Routine p:d\.seen"):
        client.create_routine(function("seen", "1"))
    assert client.create_routine(function("seen", "1"), exists_ok=True).body == "x + y"
    client.update_routine(first, ["body"])
    with pytest.raises(PreconditionFailed, match="the etag of routine seen"):
        client.update_routine(first, ["body"])
    client.delete_routine("d.seen")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"definitionBody": "x) ; DROP TABLE d.t; SELECT (1"}, "must be one CREATE FUNCTION"),
        ({"definitionBody": "x +"}, "Syntax error"),
        ({"definitionBody": ""}, "definitionBody"),
        ({"language": "JAVASCRIPT"}, "Routines in 'JAVASCRIPT' are not supported"),
        ({"routineType": "TABLE_VALUED_FUNCTION"}, "are not supported"),
        (
            {"arguments": [{"name": "x INT64, y", "dataType": {"typeKind": "INT64"}}]},
            "Invalid name of an argument",
        ),
        ({"arguments": [{"name": "x", "dataType": {"typeKind": "INT64> x, STRUCT<"}}]}, "is no type of SQL"),
        ({"arguments": "x"}, "it must be a list"),
        ({"returnType": {"typeKind": "STRUCT"}}, "it needs fields"),
        (
            {"routineReference": {"projectId": "p", "datasetId": "d", "routineId": "a`b"}},
            "Invalid routine ID",
        ),
    ],
)
def test_a_routine_that_cannot_be_is_refused_and_not_stored(
    client: bigquery.Client, changes: dict[str, Any], message: str
) -> None:
    body = function("wrong").to_api_repr() | changes
    with pytest.raises(GoogleAPICallError, match=message):
        client.create_routine(Routine.from_api_repr(body))
    assert "wrong" not in [each.routine_id for each in client.list_routines("d")]


def test_a_procedure_has_arguments_that_go_in_and_out(client: bigquery.Client) -> None:
    answer(
        client,
        "CREATE PROCEDURE d.split(IN words ARRAY<STRING>, INOUT n INT64, OUT first STRING) "
        "BEGIN DECLARE own INT64 DEFAULT 1; SET n = n + ARRAY_LENGTH(words) + own; SET first = words[0]; END",
    )
    declared = "DECLARE n INT64 DEFAULT 40; DECLARE first STRING; "
    assert answer(client, declared + "CALL d.split(['a', 'b'], n, first); SELECT n, first") == [
        {"n": 43, "first": "a"}
    ]
    found = client.get_routine("d.split")
    assert (found.type_, [each.mode for each in found.arguments]) == ("PROCEDURE", ["IN", "INOUT", "OUT"])
    assert found.arguments[0].data_type == TEXTS
    assert (found.body[:17], found.body[-4:]) == ("BEGIN DECLARE own", " END")
    answer(client, "DROP PROCEDURE d.split")
    with pytest.raises(NotFound, match=r"Procedure is not found: d\.split"):
        answer(client, "DECLARE x STRING; CALL d.split([], 1, x)")


def test_a_procedure_of_the_client_changes_tables_and_answers(client: bigquery.Client, table: str) -> None:
    answer(client, f"CREATE TABLE `{table}` (id INT64)")
    body = (
        f"INSERT INTO `{table}` VALUES (id); IF id > 1 THEN CALL d.fill(id - 1); END IF; SELECT id AS last;"
    )
    arguments = [RoutineArgument(name="id", mode="IN", data_type=INT64)]
    client.create_routine(
        Routine("p.d.fill", type_="PROCEDURE", language="SQL", body=body, arguments=arguments)
    )
    assert answer(client, "CALL d.fill(3)") == [{"last": 3}]
    assert answer(client, f"SELECT ARRAY_AGG(id ORDER BY id) AS ids FROM `{table}`") == [{"ids": [1, 2, 3]}]
    client.delete_routine("d.fill")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE PROCEDURE d.ends() BEGIN CALL d.ends(); END; CALL d.ends()", "more than 50 levels deep"),
        (
            "CREATE OR REPLACE PROCEDURE d.w(OUT x INT64) BEGIN END; CALL d.w(1)",
            "is OUT: give the name of a variable",
        ),
        ("CREATE OR REPLACE PROCEDURE d.w(x INT64) BEGIN END; CALL d.w()", "it has 1, 0 were given"),
        ("CREATE OR REPLACE PROCEDURE d.w(x INT64) BEGIN END; CALL d.w('a')", "a"),
        ("CREATE PROCEDURE d.same(x INT64, X INT64) BEGIN END", "the same name"),
        ("CREATE PROCEDURE d.none(x) BEGIN END", "needs a name and a type"),
        ("CREATE PROCEDURE d.none(x INT64) SELECT 1", r"must be BEGIN … END"),
        ("CREATE PROCEDURE d.none(x INT64) BEGIN SELECT 1", "a block has no END"),
        ("CALL d.nothing", "CALL is written"),
    ],
)
def test_a_procedure_that_cannot_run_says_why(client: bigquery.Client, script: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        answer(client, script)
    assert "none" not in [each.routine_id for each in client.list_routines("d")]


def test_a_variable_of_a_script_keeps_its_name_and_can_be_given_to_another(client: bigquery.Client) -> None:
    assert answer(client, "DECLARE a, b INT64 DEFAULT 4; SET b = a; SELECT b") == [{"b": 4}]


def test_a_script_that_ends_with_a_definition_has_no_rows(client: bigquery.Client, table: str) -> None:
    assert answer(client, f"SELECT 1 AS a; CREATE TABLE `{table}` (id INT64)") == []
