"""DynamoDB on loopback: moto, which takes a boolean in `AttributeUpdates` for a text; that is put right here."""

import sys

from testbed.s3_server import S3Server

_PROGRAM = """
import sys
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.server import main

plain = Item.update_with_attribute_updates

def update(item, updates):
    plain(item, updates)
    for name, update in updates.items():
        if "BOOL" in update.get("Value", ()):
            item.attrs[name] = DynamoType(update["Value"])

Item.update_with_attribute_updates = update
main(sys.argv[1:])
"""


class DynamoDBServer(S3Server):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the DynamoDB server"

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-c", _PROGRAM, "-H", "127.0.0.1", "-p", str(port)]
