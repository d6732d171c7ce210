"""The story of the demo, step by step. Each step checks what it claims and fails loudly otherwise."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import lode
from lode.demo import clients
from lode.demo.events import NAME
from lode.demo.machine import DemoFailed, ServerProcess
from lode.demo.spark_step import LARGE, PURCHASES, SALES, quiet_session, sales_project
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lode.demo.stage import Stage

VISITS: Final = "visits"
_STREAMED, _STAGED, _OFFSETS = (40, 500), (20, 5000), 24_000


class Demo:
    """One run over an empty lake."""

    def __init__(self, stage: Stage, lake: Path) -> None:
        self.stage = stage
        self.lake = lake
        self.server = ServerProcess(lake)
        self.expected = 0
        self._spark: SparkSession | None = None

    def run(self) -> None:
        self.start_server()
        self.stream_rows()
        before = self.events().latest()
        self.commit_history()
        self.survive_a_kill()
        self.run_pipelines()
        self.rebase_writers()
        self.travel_in_time(before)
        self.verify()

    def events(self) -> lode.Dataset:
        """The table's snapshots, as the library sees them: the server is not asked."""
        store = lode.open_store(str(self.lake))
        definition = Catalog(store).table(TableName(*NAME.split(".")))
        return definition.open(store)

    def rows(self) -> int:
        return self.events().plan().row_count

    def check(self, found: int, expected: int, what: str) -> None:
        if found != expected:
            raise DemoFailed(f"{what}: found {found:,}, expected {expected:,}")

    # -- the steps -----------------------------------------------------------------------------

    def start_server(self) -> None:
        with self.stage.step("Start the ingest server: BigQuery's Storage Write API, on this machine"):
            self.server.start()
            clients.create_table(self.server)
            self.stage.say(f"gRPC on {self.server.grpc}, HTTP on {self.server.http}, lake in {self.lake}")
            self.stage.proves(f"table {NAME}, partitioned by day, was created over the REST API")

    def stream_rows(self) -> None:
        appends, per_append = _STREAMED
        with self.stage.step("Stream rows in: Protobuf, default stream, the official client"):
            with self.stage.bar("appends", appends) as tick:
                clients.stream_protobuf(self.server, 0, appends, per_append, tick)
            self.expected += appends * per_append
            self.check(self.rows(), self.expected, "rows")
            snapshots = len(self.events().snapshots())
            self.stage.proves(
                f"{self.expected:,} rows are visible at the answer, in {snapshots} snapshots: "
                f"appends that meet share a commit"
            )

    def commit_history(self) -> None:
        appends, per_append = _STAGED
        with self.stage.step("Load history: Arrow, two pending streams, one atomic commit"):
            with self.stage.bar("appends", 2 * appends) as tick:
                names = clients.stage_arrow(self.server, 1_000_000, appends, per_append, tick)
            self.check(self.rows(), self.expected, "rows before the commit")
            clients.commit(self.server, names)
            self.expected += 2 * appends * per_append
            self.check(self.rows(), self.expected, "rows after the commit")
            self.stage.proves(f"{2 * appends * per_append:,} rows were invisible until one commit showed all")

    def survive_a_kill(self) -> None:
        with self.stage.step("Kill the server with SIGKILL while a client writes with offsets"):
            client = clients.ExactlyOnce(self.server, 2_000_000, 500)
            with self.stage.bar("appends", _OFFSETS // 500) as tick:
                worker = threading.Thread(target=client.run, args=(_OFFSETS, tick))
                worker.start()
                _wait_until(lambda: client.acknowledged >= _OFFSETS // 3)
                self.server.kill()
                acknowledged = client.acknowledged
                self.server.start()
                worker.join()
            self.expected += _OFFSETS
            self.check(self.rows(), self.expected, "rows after the kill")
            self.stage.proves(
                f"killed after {acknowledged:,} acknowledged rows; the client went on by itself "
                f"({client.retries} tries) and all {_OFFSETS:,} are there once"
            )

    def run_pipelines(self) -> None:
        with self.stage.step(
            "Run a graph of pipelines on Spark: events → purchases → sales by day, by country"
        ):
            project = sales_project(self.lake)
            with self.stage.waiting("Spark starts"):
                self._spark = quiet_session(self.lake.parent / "spark.log")
            with self.stage.waiting("Spark works"):
                runs = project.run(self._spark)
            if failed := [run.error for run in runs.values() if run.state != "done"]:
                raise DemoFailed(f"a pipeline failed: {failed[0]}")
            self.check(runs[PURCHASES].rows_in, self.expected, "rows into Spark")
            aside = lode.open_dataset(f"{PURCHASES}_quarantine", self.lake).count()
            self.check(runs[PURCHASES].rows_out + aside, self._purchases(), "purchases in both datasets")
            self._check_sales()
            self.stage.table(("day", "orders", "revenue"), self._sales())
            again = project.run(self._spark)
            self.check(sum(run.rows_in for run in again.values()), 0, "rows of a second run")
            self.stage.proves(
                f"every snapshot was read once, and the result says which; {aside:,} orders of {LARGE} or "
                "more did not meet an expectation and are put aside"
            )
            purchases = lode.open_dataset(PURCHASES, self.lake)
            day = self._sales()[0][0]
            cancelled = -purchases.delete(f"day = '{day}' AND country = 'SE'").rows
            with self.stage.waiting("Spark works"):
                project.run(self._spark)
            self._check_sales()
            self.stage.proves(
                f"{cancelled:,} orders are cancelled: only their day and their country are computed anew"
            )

    def _purchases(self) -> int:
        return self.events().count(where="kind = 'buy'")

    def _sales(self) -> list[tuple[str, str, str]]:
        rows = lode.open_dataset(SALES, self.lake).scan().read_all().sort_by("day").to_pylist()
        return [(row["day"], f"{row['orders']:,}", f"{row['revenue']:,.2f}") for row in rows]

    def _check_sales(self) -> None:
        """Both totals count every purchase once."""
        expected = lode.open_dataset(PURCHASES, self.lake).count()
        for column in ("day", "country"):
            orders = lode.open_dataset(f"sales_by_{column}", self.lake).scan(columns=["orders"]).read_all()
            found = sum(row["orders"] for row in orders.to_pylist())
            self.check(found, expected, f"orders by {column}")

    def rebase_writers(self) -> None:
        with self.stage.step("Two writers commit to one dataset at the same time"):
            schema = {"site": "string!", "visits": "int64!"}
            layout = lode.HiveLayout("site")
            outcomes: list[lode.Snapshot] = []

            def write(site: str) -> None:
                dataset = lode.Dataset(VISITS, str(self.lake), codec=lode.Parquet(schema), layout=layout)
                for visits in range(15):
                    snapshot = dataset.write([{"site": site, "visits": visits}], {"by": site})
                    outcomes.append(snapshot)

            writers = [threading.Thread(target=write, args=(site,)) for site in ("north", "south")]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            visits = lode.Dataset(VISITS, str(self.lake), codec=lode.Parquet(schema), layout=layout)
            self.check(len(visits.snapshots()), 30, "snapshots in one line")
            rebases = sum(outcome.commit.rebases for outcome in outcomes if outcome.commit)
            self.stage.proves(f"30 commits, {rebases} rebases, no error, history is one line")

    def travel_in_time(self, before: lode.Snapshot) -> None:
        with self.stage.step("Travel back in time"):
            events = self.events()
            then, now = events.plan(as_of=before).row_count, events.plan().row_count
            self.check(then, _STREAMED[0] * _STREAMED[1], "rows then")
            moment = before.created_at.strftime("%H:%M:%S")
            self.stage.proves(f"as of {moment}: {then:,} rows; now: {now:,}; both can be read at any time")

    def verify(self) -> None:
        with self.stage.step("Verify every file against its checksum"):
            report = lode.verify(self.events())
            if not report.ok:
                raise DemoFailed(f"verification found {report.problems[0]}")
            self.stage.proves(
                f"{report.snapshots} snapshots, {report.files} files, {report.bytes:,} bytes: sound"
            )

    def close(self) -> None:
        self.server.stop()
        if self._spark is not None:
            self._spark.stop()


def _wait_until(condition: Any) -> None:
    while not condition():
        time.sleep(0.01)
