"""What the tests use of Airflow and is otherwise before Airflow 3.2."""

try:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:
    from functools import cache

    from airflow.models.dagbag import DagBag
    from airflow.sdk.execution_time import supervisor
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

    # `dag.test()` built its API anew for each task, which takes seconds; later it is kept, as here.
    supervisor.in_process_api_server = cache(supervisor.in_process_api_server)

__all__ = ["DagBag", "DagSerialization"]
