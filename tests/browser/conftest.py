"""A real API server with the page in it, for each login: people, DAGs with runs, Kafka, and a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.airflow_home import FAB_LOGIN
from testbed.broker import KafkaBroker
from testbed.browser import chromium
from testbed.cache import Say
from testbed.java import Java
from testbed.standalone import StandaloneAirflow

HERE = Path(__file__).parent
DAGS = HERE / "dags"
PEOPLE = {"reader": "viewer", "other": "viewer"}
RUNS: list[Any] = [["orders_to_lake", {}, 120 + 90 * (n * 7 % 5), "success"] for n in range(8)]
NEWEST = len(RUNS)
FAILED = ["orders_that_fail", {"fails": True}, 0, "failed"]


class ApiServer(StandaloneAirflow):
    """Nothing but the API server. With ``path`` it is where a proxy has it that serves other things, too."""

    path = ""

    def parts(self) -> list[str]:
        return ["api-server"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._env['AIRFLOW__API__PORT']}{self.path}"

    def environment_of(self, part: str) -> dict[str, str]:
        return {**self._env, "AIRFLOW__API__BASE_URL": self.url}


@dataclass
class Site:
    """:ivar login: ``fab`` or ``simple``."""

    server: ApiServer
    login: str
    browser: Any
    logged_in: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.url

    def page_of(self, dag_id: str, place: str = "") -> str:
        return f"{self.url}/kafka-offsets/dags/{dag_id}{place}"

    def person(self, name: str, **context: Any) -> Any:
        """A page in a browser in which this person has logged in; the first time by the form of the login."""
        if name not in self.logged_in:
            page = self.browser.new_context().new_page()
            page.goto(f"{self.url}/auth/login/" if self.login == "fab" else f"{self.url}/auth/login", timeout=120_000)
            page.locator("input[name=username]").fill(name)
            page.locator("input[name=password]").fill(name)
            page.locator("input[type=submit], button[type=submit]").first.click()
            page.wait_for_function("!location.pathname.includes('/auth/login')")
            self.logged_in[name] = page.context.storage_state()
            page.context.close()
        size = {"width": 1300, "height": 1000}
        page = self.browser.new_context(viewport=size, storage_state=self.logged_in[name], **context).new_page()
        page.set_default_timeout(60_000)
        return page


@pytest.fixture(scope="session")
def browser(say: Say) -> Iterator[Any]:
    with chromium(say) as running:
        yield running


@pytest.fixture(scope="session", params=["fab", "simple"])
def site(request: pytest.FixtureRequest, browser: Any, java: Java, tmp_path_factory: Any, say: Say) -> Iterator[Site]:
    login, folder = request.param, tmp_path_factory.mktemp("site")
    with KafkaBroker(folder / "kafka", java=java, say=say) as broker:
        broker.create_topic("orders", 3)
        home = folder / "airflow"
        home.mkdir()
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in PEOPLE}))
        environment = {
            **airflow_home.connections(broker.client_config),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(map(":".join, PEOPLE.items())),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            **({"AIRFLOW__CORE__AUTH_MANAGER": FAB_LOGIN} if login == "fab" else {}),
        }
        server = ApiServer(home, [DAGS], f"sqlite:///{home}/airflow.db", environment)
        server.path = "/data/airflow" if login == "fab" else ""
        say(f"The page with the {login} login: runs, then a server …")
        with server:
            lake = {"lake": str(folder / "lake")}
            runs = [*windows(), *RUNS, ["evil", {}, 0, "success"], FAILED, [None, {}, 75, ""]]
            play(server, [[dag_id, {**conf, **lake}, count, state] for dag_id, conf, count, state in runs])
            yield Site(server, login, browser)


def play(server: ApiServer, runs: list[Any]) -> None:
    command = [sys.executable, str(HERE / "play_runs.py"), str(DAGS / "orders.py"), json.dumps(runs)]
    done = subprocess.run(
        command, env={**os.environ, **server.environment_of("runs")}, cwd=server.home, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


def windows() -> list[Any]:
    """Ten days, an hour, and one whose Spark job fails; between the first two an hour is missing."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    done, failed = ({}, "success"), ({"fails": True}, "failed")
    return [
        ["by_hour", {"since": (hour - since).isoformat(), "until": (hour - until).isoformat(), **conf}, 6, state]
        for since, until, (conf, state) in (
            (timedelta(days=10), timedelta(hours=5), done),
            (timedelta(hours=4), timedelta(hours=3), done),
            (timedelta(hours=3), timedelta(hours=2), failed),
        )
    ]


@pytest.fixture
def looked_at(site: Site) -> Iterator[Callable[..., Any]]:
    """``looked_at(person)``: a page in which nothing may go wrong: no error, no dialog, no request to another host."""
    wrong: list[str] = []
    pages: list[Any] = []

    def open_as(name: str, **context: Any) -> Any:
        page = site.person(name, **context)
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" and ours(said) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda asked: wrong.append(asked.url) if foreign(asked.url) else None)
        pages.append(page)
        return page

    def ours(said: Any) -> bool:
        """An answer that is a refusal is an error of the console, too."""
        where = (said.location or {}).get("url", "")
        return "/kafka-offsets/" in where and ("/static/" in where or not said.text.startswith("Failed to load"))

    def foreign(url: str) -> bool:
        return url.startswith("http") and not url.startswith("http://127.0.0.1:")

    yield open_as
    for page in pages:
        page.context.close()
    assert wrong == []
