"""An S3 server that checks who asks, and for what: moto does, once it has been told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import boto3
import httpx

from testbed.s3_server import KEY, SECRET, S3Server

BUCKET = "guarded"
FOLDER = f"{BUCKET}/kafka_offsets"
NEEDED = ("s3:GetObject", "s3:PutObject", "s3:ListBucket")  # as docs/stores.md tells


class Guarded:
    """:ivar endpoint: its URL."""

    def __init__(self, server: S3Server) -> None:
        server.create_bucket(BUCKET)
        self.endpoint = server.endpoint
        self._numbers = count()

    def new_user(self, *rights: str) -> tuple[str, str]:
        """Key and secret of somebody who has these rights on the bucket's folder and no others."""
        self._check(False)
        where = {"endpoint_url": self.endpoint, "region_name": "us-east-1"}
        iam = boto3.client("iam", aws_access_key_id=KEY, aws_secret_access_key=SECRET, **where)
        name = f"user-{next(self._numbers)}"
        iam.create_user(UserName=name)
        places = {right: BUCKET if right == "s3:ListBucket" else f"{FOLDER}/*" for right in rights}
        statements = [
            {"Effect": "Allow", "Action": right, "Resource": f"arn:aws:s3:::{place}"} for right, place in places.items()
        ]
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        iam.put_user_policy(UserName=name, PolicyName="store", PolicyDocument=document)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        self._check(True)
        return made["AccessKeyId"], made["SecretAccessKey"]

    def _check(self, checks: bool) -> None:
        """moto takes how many requests pass unchecked."""
        passing = b"0" if checks else b"1000"
        httpx.post(f"{self.endpoint}/moto-api/reset-auth", content=passing).raise_for_status()


@contextmanager
def guarded_server() -> Iterator[Guarded]:
    with S3Server() as server:
        yield Guarded(server)
