"""Who may see the page of a DAG, and who may change something from it.

Airflow protects no route of a plugin, and opens the frame also for a DAG that the user may not read: what is here is
all that protects. Each request asks Airflow's own check about the DAG in the path. A form that writes brings an order
that this server has signed for this person a moment ago: the login's cookie alone, which a foreign page could use, is
not enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException
from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer

from airflow_kafka_offsets.hooks.airflow_versions import conf

ORDER_LASTS_S = 600


def _one_dag(dag_id: str) -> None:
    """Airflow takes ``~`` for "any DAG": whoever may read one would pass its check."""
    if dag_id == "~":
        raise HTTPException(404, "There is no DAG ~.")


TO_READ = [Depends(_one_dag), Depends(requires_access_dag(method="GET"))]
TO_EDIT = [Depends(requires_access_dag(method="PUT"))]
User = GetUserDep


def _may_edit(dag_id: str, user: User) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return bool(get_auth_manager().is_authorized_dag(method="PUT", details=details, user=user))


MayEdit = Annotated[bool, Depends(_may_edit)]


@dataclass(frozen=True, slots=True)
class SignedOrder:
    """What a person has been shown and may now confirm.

    :ivar user: who has seen it; nobody else can confirm it.
    :ivar seen: which entries of the pipeline's log were to come next: what has moved on since is looked at again first.
    """

    user: str
    dag_id: str
    pipeline_id: str
    action: str
    fields: Mapping[str, str]
    seen: Sequence[str]


def sign(order: SignedOrder) -> str:
    return str(_signer().dumps(asdict(order)))


def signed(token: str, user: Any, dag_id: str) -> SignedOrder:
    """The order of a form.

    :raises HTTPException: it is not signed by this Airflow for this person and DAG, or it is too old.
    """
    try:
        order = SignedOrder(**_signer().loads(token, max_age=ORDER_LASTS_S))
    except SignatureExpired:
        raise HTTPException(403, "This form is older than ten minutes. Nothing was done. Look again.") from None
    except BadSignature:
        raise HTTPException(403, "This form was not made by the page. Nothing was done. Begin there.") from None
    if (order.user, order.dag_id) != (str(user.get_id()), dag_id):
        raise HTTPException(403, "This form was made for somebody else. Nothing was done. Log in, and look again.")
    return order


def _signer() -> URLSafeTimedSerializer:
    secret = conf.get("api", "secret_key")
    return URLSafeTimedSerializer(
        secret, salt="airflow-kafka-offsets: page", signer_kwargs={"digest_method": hashlib.sha256}
    )
