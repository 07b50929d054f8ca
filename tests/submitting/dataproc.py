"""Dataproc's gRPC API, in front of the test's server: run where the client library is, which the project does not have.

A message is handed on as its JSON (proto3's own mapping), which is what Dataproc's REST API takes.
"""

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from airflow.providers.google.cloud.hooks.dataproc import DataprocAsyncHook, DataprocHook
from google.cloud.dataproc_v1 import GetJobRequest, Job, JobControllerAsyncClient, JobControllerClient, SubmitJobRequest
from google.cloud.dataproc_v1.services.job_controller.transports import (
    JobControllerGrpcAsyncIOTransport,
    JobControllerGrpcTransport,
)


def lead_to(endpoint: str) -> None:
    """Have the hooks ask the server at ``endpoint``: their own clients ask Google's, which no setting changes."""
    address = _serve(endpoint)

    def client(self: Any, region: str | None = None) -> JobControllerClient:
        return JobControllerClient(transport=JobControllerGrpcTransport(channel=grpc.insecure_channel(address)))

    async def async_client(self: Any, region: str | None = None) -> JobControllerAsyncClient:
        channel = grpc.aio.insecure_channel(address)
        return JobControllerAsyncClient(transport=JobControllerGrpcAsyncIOTransport(channel=channel))

    DataprocHook.get_job_client = client
    DataprocAsyncHook.get_job_client = async_client


def _serve(endpoint: str) -> str:
    """A gRPC server of this process; its address."""

    def submit(request: SubmitJobRequest, context: grpc.ServicerContext) -> Job:
        sent = SubmitJobRequest.to_json(request, use_integers_for_enums=False).encode()
        return asked(f"/v1/projects/{request.project_id}/regions/{request.region}/jobs:submit", sent)

    def get(request: GetJobRequest, context: grpc.ServicerContext) -> Job:
        return asked(f"/v1/projects/{request.project_id}/regions/{request.region}/jobs/{request.job_id}")

    def asked(path: str, sent: bytes | None = None) -> Job:
        with urllib.request.urlopen(endpoint + path, sent, timeout=30) as answer:
            return Job.from_json(answer.read())

    methods = {
        name: grpc.unary_unary_rpc_method_handler(method, message.deserialize, Job.serialize)
        for name, method, message in (("SubmitJob", submit, SubmitJobRequest), ("GetJob", get, GetJobRequest))
    }
    server = grpc.server(ThreadPoolExecutor())
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("google.cloud.dataproc.v1.JobController", methods),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _running.append(server)
    return f"127.0.0.1:{port}"


_running: list[grpc.Server] = []  # one that nobody refers to is stopped
