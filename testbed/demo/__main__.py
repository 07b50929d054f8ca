"""The demo from its start to its end, or to a signal: everything that was started is stopped."""

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from subprocess import CalledProcessError

from confluent_kafka import KafkaException

from testbed import airflow_home, jars
from testbed.broker import BrokerFailed, KafkaBroker
from testbed.demo.airflow import DemoAirflow, show_pages
from testbed.demo.batches import Batches
from testbed.demo.customers import Customers
from testbed.demo.hours import Hours
from testbed.demo.orders import Orders
from testbed.demo.shown import DemoFailed, Part, show, step
from testbed.java import Java, JavaMissing, find_java
from testbed.postgres import PostgresFailed
from testbed.spark import SHORT_JOBS, SMALL_QUERIES, spark_conf, spark_env, write_class_archive
from testbed.spark_connect import SparkConnectServer
from testbed.spark_killer import end_children
from testbed.standalone import AirflowFailed
from testbed.topics import Topics

ROOT = Path(__file__).resolve().parents[2]
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
TOPICS = ("orders", "json-orders", "customers", "hours")


def main(folder: Path = ROOT / ".demo") -> int:
    """Run it in `folder`, which is emptied first; the exit status says whether everything was as promised."""
    started, run_id = time.monotonic(), uuid.uuid4().hex[:8]
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    failures = (DemoFailed, JavaMissing, jars.JarsMissing, BrokerFailed, AirflowFailed, PostgresFailed, TimeoutError)
    try:
        with ExitStack() as stack:
            _stop_on_signals(stack)
            stack.callback(end_children)
            java = find_java(step)
            step(f"Java {java.major} at {java.home}")
            names = {of: f"kafka-offsets-demo-{run_id}-{of}" for of in TOPICS}
            kafka = stack.enter_context(_cluster(java, folder, names.values()))
            environment = _environment(kafka, java, folder, names, stack)
            airflow = DemoAirflow(folder, java, environment, stack)
            _play(Batches(kafka, names["orders"], folder / "orders", airflow))
            _play(Orders(kafka, names["json-orders"], folder / "typed_orders", airflow))
            _play(Customers(kafka, names["customers"], folder / "customers", airflow))
            _stop_on_signals(stack)  # Airflow has put handlers of its own in their place, in the runs above
            scheduler = airflow.with_scheduler()
            _play(Hours(kafka, names["hours"], folder / "by_hour", scheduler))
            print(f"Done in {time.monotonic() - started:.0f} s. Outputs, plans and logs: {os.path.relpath(folder)}/")
            if os.environ.get("UI") == "1":
                _stop_on_signals(stack, status=0)
                show_pages(scheduler)
    except failures as error:
        print(f"\nThe demo FAILED: {error}", file=sys.stderr)
        return 1
    return 0


def _play(part: Part) -> None:
    part.run()
    show(part)


def _environment(kafka: Topics, java: Java, folder: Path, names: dict[str, str], stack: ExitStack) -> dict[str, str]:
    """Connections, variables of the DAGs, and Spark's settings. Part 1 submits its jobs, the others have a server."""
    variables = {
        "topics": names["orders"],
        "group": names["orders"],
        "output": folder / "orders",
        "json_topic": names["json-orders"],
        "json_group": names["json-orders"],
        "table": folder / "typed_orders",
        "customers_topic": names["customers"],
        "customers_group": names["customers"],
        "customers": folder / "customers",
        "backfill_topics": names["hours"],
        "backfill_output": folder / "by_hour",
        "spark_connect": "spark_connect_default",
    }
    step("An archive of Spark's classes, as a worker's image has it")
    with suppress(CalledProcessError):  # without it drivers take longer
        write_class_archive(spark_env(java))
    connectors = [*jars.spark_jars(java, step), *jars.delta_jars(java, step)]
    spark = spark_conf(connectors)
    step("Spark Connect: a server")
    server = stack.enter_context(SparkConnectServer(java, connectors, {**SMALL_QUERIES, **DELTA}))
    return {
        **airflow_home.connections(kafka.client_config),
        "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": json.dumps({"conn_type": "spark_connect", "host": server.remote}),
        **airflow_home.variables({f"kafka_offsets_{name}": str(value) for name, value in variables.items()}),
        **spark_env(java),
        **SHORT_JOBS,
        **airflow_home.spark_defaults(folder / "spark", spark),
    }


@contextmanager
def _cluster(java: Java, folder: Path, topics: Collection[str]) -> Iterator[Topics]:
    """The user's cluster, from which the topics are deleted afterwards; else a broker of the demo's own."""
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if servers:
        step(f"Kafka: yours, at {servers}")
        theirs = Topics(servers)
        try:
            theirs.admin().list_topics(timeout=10)
        except KafkaException as error:
            raise DemoFailed(f"no broker answers at KAFKA_BOOTSTRAP_SERVERS={servers}: {error.args[0].str()}") from None
        try:
            yield theirs
        finally:
            _delete_topics(theirs, topics)
        return
    step("Kafka: one KRaft broker on free ports")
    with KafkaBroker(folder / "kafka", java=java, say=step) as broker:
        yield broker


def _delete_topics(kafka: Topics, topics: Collection[str]) -> None:
    step("Deleting the demo's topics from your cluster; its consumer groups expire by themselves")
    for topic in topics:
        if kafka.offset_bounds(topic):
            kafka.delete_topic(topic)


def _stop_on_signals(stack: ExitStack, status: int | None = None) -> None:
    """End everything and leave, right in the handler: Airflow takes a KeyboardInterrupt for a task's failure.

    :param status: of this process then; by default the one that says which signal it was.
    """
    terminal = os.dup(2)  # standard error itself goes to the log while a DAG runs

    def stop(number: int, _: object) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_IGN)
        stack.close()
        os.write(terminal, b"\nStopped; nothing is left running.\n")
        os._exit(128 + number if status is None else status)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


if __name__ == "__main__":
    sys.exit(main(*(Path(folder).resolve() for folder in sys.argv[1:])))
