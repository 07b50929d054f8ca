"""Rights on a broker with an authorizer, in force when the call returns."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from testbed.topics import DEADLINE_S, Topics, wait_for


def allow(topics: Topics, principal: str, kind: ResourceType, name: str, operation: AclOperation) -> None:
    """Returns when the broker's authorizer lists it: the controller answers earlier."""
    acl = kind, name, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW
    admin = topics.admin()
    for future in admin.create_acls([AclBinding(*acl)]).values():
        future.result(DEADLINE_S)
    wait_for(
        f"{principal} may {operation.name} {name}",
        lambda: bool(admin.describe_acls(AclBindingFilter(*acl)).result(DEADLINE_S)),
    )
