"""The API server of this process's Airflow with the page in it, and people who are logged in there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient

from testbed.airflow_home import FAB_LOGIN

SIMPLE_ROLES = {"reader": "viewer"}  # the simple login knows no rights of a DAG
FAB_RIGHTS = {
    "reader": [("can_read", f"DAG:{dag}") for dag in ("alpha", "batch", "batch_retried", "batch_elsewhere")],
    "other": [("can_read", "DAG:beta"), ("can_edit", "DAG:beta")],
}


class PageServer:
    """:ivar people: the names of who can log in."""

    def __init__(self, app: Any, users: dict[str, Any]) -> None:
        from airflow.api_fastapi.app import get_auth_manager

        self.people = list(users)
        self._app = app
        self._tokens = {name: get_auth_manager().generate_jwt(user) for name, user in users.items()}

    def client(self, person: str | None, root_path: str = "") -> TestClient:
        """A browser in which this person is logged in; ``None``: nobody is."""
        client = TestClient(self._app, root_path=root_path, follow_redirects=False)
        if person is not None:
            client.cookies.set("_token", self._tokens[person])
        return client


@contextmanager
def page_server(login: str) -> Iterator[PageServer]:
    """:param login: ``simple`` or ``fab``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(map(":".join, SIMPLE_ROLES.items())))
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        if login == "fab":
            patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", FAB_LOGIN)
        from airflow.api_fastapi.app import create_app, purge_cached_app

        purge_cached_app()
        try:
            app = create_app(apps="core")
            yield from _with_users(app, login)
        finally:
            purge_cached_app()


def _with_users(app: Any, login: str) -> Iterator[PageServer]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.providers.fab.www.app import create_app

    if login == "simple":
        users = {name: SimpleAuthManagerUser(username=name, role=role.upper()) for name, role in SIMPLE_ROLES.items()}
        yield PageServer(app, users)
        return
    manager: Any = get_auth_manager()
    app_of_users = getattr(manager, "flask_app", None) or create_app(enable_plugins=False)  # an older one keeps none
    with app_of_users.app_context():
        yield PageServer(app, {name: _fab_user(manager.security_manager, name) for name in FAB_RIGHTS})


def _fab_user(security: Any, name: str) -> Any:
    role = security.find_role(name) or security.add_role(name)
    for right in FAB_RIGHTS[name]:
        security.add_permission_to_role(role, security.create_permission(*right))
    return security.find_user(name) or security.add_user(name, name, name, f"{name}@example.org", role, name)
