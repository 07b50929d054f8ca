"""Many answers of S3 for little of the processor: requests that are only signed, through the client's HTTP session.

aiobotocore computes a millisecond for each request, and thirty for a page of a thousand names, most of it for what
nobody asks here: rules of endpoints, hooks, headers, times. Where the bucket is, it is asked once. What is not answered
as it should be has no answer here: whoever asks then asks as always, so tries, deadlines and errors are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode, urlsplit
from xml.etree import ElementTree

from airflow_kafka_offsets.stores.file_systems import MOST_PAGES


@dataclass(frozen=True, slots=True)
class ManyOfS3:
    """:ivar file_system: s3fs'. Its client limits how many requests are under way."""

    file_system: Any

    def read(self, paths: Sequence[str], end: int, timeout: float) -> list[bytes | None]:
        """The objects up to ``end``; ``None`` in the place of one that was not read."""
        bucket = paths[0].partition("/")[0] if paths else ""
        keys = [quote(path.partition("/")[2], safe="/~") for path in paths]
        return self._ask(bucket, keys, {"Range": f"bytes=0-{end - 1}"}, timeout)

    def list_below(self, path: str, timeout: float) -> list[str] | None:
        """All names below a folder, with the bucket, ascending; ``None``: there was no answer."""
        bucket, _, folder = path.partition("/")
        asked, names = {"list-type": "2", "encoding-type": "url", "prefix": f"{folder}/"}, list[str]()
        for _ in range(MOST_PAGES):
            [answer] = self._ask(bucket, [f"?{urlencode(asked)}"], {}, timeout)
            try:
                page = ElementTree.fromstring(answer or b"")
            except ElementTree.ParseError:
                return None
            read = unquote_plus if page.findtext("{*}EncodingType") == "url" else str
            names += [f"{bucket}/{read(key.text or '')}" for key in page.iterfind("{*}Contents/{*}Key")]
            more, token = (page.findtext(f"{{*}}{name}") for name in ("IsTruncated", "NextContinuationToken"))
            if more == "false":
                return names
            if more != "true" or not token:
                return None
            asked["continuation-token"] = token
        return None

    def _ask(
        self, bucket: str, questions: Sequence[str], headers: Mapping[str, str], timeout: float
    ) -> list[bytes | None]:
        """:param questions: what follows the bucket's own address."""
        from botocore.awsrequest import AWSRequest
        from fsspec.asyn import sync

        async def every() -> list[bytes | None]:
            await self.file_system.set_session()
            client = await self.file_system.get_s3(bucket)
            signer = await client._request_signer.get_auth_instance("s3", client.meta.region_name, "s3v4-query")
            of_an_object = await client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "-"})
            address = of_an_object.partition("-?")[0]
            sent = {**headers, "host": urlsplit(address).netloc}  # else the signer finds it out for each request

            async def one(question: str) -> bytes | None:
                with suppress(Exception):
                    request = AWSRequest("GET", f"{address}{question}", sent)
                    signer.add_auth(request)
                    response = await client._endpoint.http_session.send(request.prepare())
                    found: bytes = await response.content
                    return found if response.status_code in (200, 206) else None
                return None

            return await asyncio.gather(*map(one, questions))

        with suppress(Exception):
            answers: list[bytes | None] = sync(self.file_system.loop, every, timeout=timeout)
            return answers
        return [None] * len(questions)
