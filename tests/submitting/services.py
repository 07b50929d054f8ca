"""The APIs of the services that cannot be had here, as far as Airflow's operators ask for them.

Paths, fields and states are those of the services' public API references: EMR's and EMR Serverless' (AWS), Dataproc's
`v1` (REST; `dataproc.py` puts gRPC in front of it), Databricks' Jobs 2.2, and Kubernetes' with the Spark operator's
`v1beta2`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from testbed.spark_service import Job, Request, SparkService

Json = dict[str, Any]


class Emr(SparkService):
    """JSON 1.1 with the operation in a header. A step's command is run as `command-runner.jar` does."""

    def answer(self, request: Request) -> Json:
        operation = request.headers["X-Amz-Target"].removeprefix("ElasticMapReduce.")
        match operation:
            case "DescribeCluster":
                return {"Cluster": {"Id": request.body["ClusterId"], "Status": {"State": "WAITING"}}}
            case "AddJobFlowSteps":
                return {"StepIds": [self._add(step).id for step in request.body["Steps"]]}
            case "ListSteps":
                return {"Steps": [self._step(self.job(step)) for step in request.body["StepIds"]]}
        raise KeyError(operation)

    def _add(self, step: Json) -> Job:
        jar = step["HadoopJarStep"]
        assert jar["Jar"] == "command-runner.jar"
        assert jar["Args"][:3] == ["spark-submit", "--deploy-mode", "cluster"]
        return self.submit(jar["Args"][3], jar["Args"][4:])

    @staticmethod
    def _step(job: Job) -> Json:
        return {"Id": job.id, "Name": "orders", "Status": {"State": job.state("RUNNING", "COMPLETED", "FAILED")}}


class EmrServerless(SparkService):
    def answer(self, request: Request) -> Json | None:
        match request.path.strip("/").split("/"):
            case ["applications", application]:
                return {"application": {"applicationId": application, "state": "STARTED"}}
            case ["applications", application, "jobruns"]:
                job = request.body["jobDriver"]["sparkSubmit"]
                submitted = self.submit(job["entryPoint"], job["entryPointArguments"])
                return {"applicationId": application, "jobRunId": submitted.id, "arn": f"arn:aws:{submitted.id}"}
            case ["applications", application, "jobruns", id_]:
                state = self.job(id_).state("RUNNING", "SUCCESS", "FAILED")
                return {"jobRun": {"applicationId": application, "jobRunId": id_, "state": state, "stateDetails": ""}}
        return None


class Dataproc(SparkService):
    def answer(self, request: Request) -> Json | None:
        match request.path.strip("/").split("/"):
            case ["v1", "projects", "my-project", "regions", "europe-west1", "jobs:submit"]:
                job = request.body["job"]["pysparkJob"]
                return self._job(self.submit(job["mainPythonFileUri"], job["args"]))
            case ["v1", "projects", "my-project", "regions", "europe-west1", "jobs", id_]:
                return self._job(self.job(id_))
        return None

    @staticmethod
    def _job(job: Job) -> Json:
        reference = {"projectId": "my-project", "jobId": job.id}
        return {"reference": reference, "status": {"state": job.state("RUNNING", "DONE", "ERROR")}}


class Databricks(SparkService):
    def answer(self, request: Request) -> Json | None:
        match request.path:
            case "/api/2.2/jobs/runs/submit":
                task = request.body["spark_python_task"]
                self.submit(task["python_file"], task["parameters"])
                return {"run_id": len(self.jobs)}
            case "/api/2.2/jobs/runs/get":
                number = int(request.query.get("run_id") or request.body["run_id"])
                state = self.jobs[number - 1].state("RUNNING", "SUCCESS", "FAILED")
                over = {"life_cycle_state": "TERMINATED", "result_state": state}
                now = {"life_cycle_state": "RUNNING"} if state == "RUNNING" else over
                page = f"{self.endpoint}/#job/1/run/{number}"
                return {"job_id": 1, "run_id": number, "run_page_url": page, "state": {**now, "state_message": ""}}
        return None


class Kubernetes(SparkService):
    """An API server, and the Spark operator behind it: the driver's pod is a process of this machine."""

    status_of: ClassVar = {"POST": 201}  # its client takes an answer of another status for none

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.applications: dict[str, tuple[Json, Job]] = {}
        self.deleted: list[str] = []

    @property
    def config(self) -> Json:
        """A kube config that leads here."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": self.endpoint}}],
            "users": [{"name": "test", "user": {}}],
        }

    def answer(self, request: Request) -> Json | str | None:
        match request.method, request.path.strip("/").split("/"):
            case "POST", ["apis", "sparkoperator.k8s.io", "v1beta2", "namespaces", "spark", "sparkapplications"]:
                spec = request.body["spec"]
                job = self.submit(spec["mainApplicationFile"].removeprefix("local://"), spec["arguments"])
                self.applications[request.body["metadata"]["name"]] = request.body, job
                return dict(request.body)
            case "GET", ["apis", "sparkoperator.k8s.io", "v1beta2", "namespaces", "spark", _, name, "status"]:
                body, job = self.applications[name]
                state = job.state("RUNNING", "COMPLETED", "FAILED")
                return {**body, "status": {"applicationState": {"state": state}}}
            case "DELETE", ["apis", "sparkoperator.k8s.io", "v1beta2", "namespaces", "spark", _, name]:
                del self.applications[name]
                self.deleted.append(name)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "GET", ["api", "v1", "namespaces", "spark", "pods"]:
                pods = [self._pod(name) for name in self.applications]
                found = [pod for pod in pods if _selected(pod, request.query.get("labelSelector", ""))]
                return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": found}
            case "GET", ["api", "v1", "namespaces", "spark", "pods", name]:
                return self._pod(name.removesuffix("-driver"))
            case "PATCH", ["api", "v1", "namespaces", "spark", "pods", name]:
                return self._pod(name.removesuffix("-driver"))
            case "GET", ["api", "v1", "namespaces", "spark", "pods", _, "log"]:
                return "2026-11-22T00:00:00.000000000Z the driver's log\n"
            case "GET", ["api", "v1", "namespaces", "spark", "events"]:
                return {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []}
        raise KeyError(request.path)

    def _pod(self, name: str) -> Json:
        body, job = self.applications[name]
        labels = {**body["spec"]["driver"].get("labels", {}), "spark-role": "driver"}
        now = datetime.now(UTC).isoformat()
        over = {"terminated": {"exitCode": 0 if job.state("", "0", "1") == "0" else 1, "finishedAt": now}}
        state = {"running": {"startedAt": now}} if job.state("running", "", "") else over
        container = {"name": "spark-kubernetes-driver", "image": "spark", "imageID": "spark"}
        status = {**container, "ready": True, "restartCount": 0, "state": state}
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": f"{name}-driver", "namespace": "spark", "labels": labels, "creationTimestamp": now},
            "spec": {"containers": [{"name": container["name"], "image": "spark"}]},
            "status": {"phase": job.state("Running", "Succeeded", "Failed"), "containerStatuses": [status]},
        }


def _selected(pod: Json, selector: str) -> bool:
    """Whether a pod has the labels of a selector: ``a=b,c!=d,!e``."""
    labels = pod["metadata"]["labels"]
    for term in filter(None, selector.split(",")):
        if term.startswith("!"):
            holds = term[1:] not in labels
        elif "!=" in term:
            name, value = term.split("!=")
            holds = labels.get(name) != value
        else:
            name, value = term.split("=", 1)
            holds = labels.get(name) == value
        if not holds:
            return False
    return True
