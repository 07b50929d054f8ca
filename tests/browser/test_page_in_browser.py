"""The page as people meet it: in a tab of Airflow, logged in, in a real Chromium.

With ``PAGE_PICTURES=1`` the pictures of the documentation are taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import NEWEST, Site

pytestmark = pytest.mark.slow
PICTURES = Path(__file__).parents[2] / "docs/pictures"
LookedAt = Callable[..., Any]


def in_tab(page: Any, site: Site, dag_id: str = "orders_to_lake", route: str = "plugin/kafka-offsets") -> Any:
    """The frame with the page in Airflow's own."""
    page.goto(f"{site.url}/dags/{dag_id}/{route}")
    return page.frame_locator("iframe")


def require_accessible(page: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def picture(shown: Any, name: str, of: Any) -> None:
    """:param shown: the page; a test's own folders say nothing to a reader."""
    if os.environ.get("PAGE_PICTURES"):
        for text in shown.locator(".about b, .todo code").all():
            text.evaluate("said => said.textContent = said.textContent.replace(/file:.*/, 's3://lake/kafka_offsets')")
            text.evaluate("said => said.textContent = said.textContent.replace(/files:.*/, 'files:/lake/orders')")
        of.screenshot(path=PICTURES / f"page-{name}.png")


def unread_of(page: Any, shown: Any) -> str:
    """Once Kafka has answered, which a page that is loaded again shows."""
    for _ in range(20):
        if shown.locator("#figure-unread").count():
            return str(shown.locator("#figure-unread b").inner_text())
        page.reload()
        shown.locator(".say").wait_for()
    raise AssertionError(shown.locator(".say").inner_text())


def test_the_dag_has_a_tab_with_the_page(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("reader")
    page.goto(f"{site.url}/dags/orders_to_lake")
    page.get_by_role("link", name="Kafka offsets").first.click()
    shown = page.frame_locator("iframe")
    shown.locator(".say").wait_for()
    assert "The newest batch is committed." in shown.locator(".say").inner_text()
    assert unread_of(page, shown) == "75"
    assert shown.locator("svg.chart g").count() == NEWEST
    assert shown.locator("#batches tbody tr").count() == NEWEST
    picture(shown, "in-airflow", page)


def test_a_batch_is_a_link_away_and_works_without_a_script(site: Site, looked_at: LookedAt) -> None:
    """The login needs scripts; the page does not."""
    cookies = looked_at("reader").context.cookies()
    context = site.browser.new_context(java_script_enabled=False)
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(site.page_of("orders_to_lake"))
    page.locator("#batches").get_by_role("link", name=str(NEWEST), exact=True).click()
    assert page.locator("#partitions tbody tr").count() == 3
    page.get_by_role("link", name="offsets", exact=True).click()
    assert page.locator("#partitions tbody th").first.inner_text() == "orders-0"
    page.get_by_role("link", name="orders", exact=True).click()
    assert page.locator("#batches tbody tr").count() == NEWEST
    context.close()


def test_a_link_to_a_run_leaves_the_frame_and_the_runs_own_tab_shows_its_batch(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("reader")
    shown = in_tab(page, site)
    shown.locator("#batches tbody tr").nth(4).locator("a[data-airflow]").first.click()
    page.wait_for_url(re.compile(r"/dags/orders_to_lake/runs/[^/]+"))
    run = page.url.partition("/runs/")[2].partition("/")[0]
    for route in ("plugin/kafka-offsets-of-run", "tasks/orders.commit/plugin/kafka-offsets-of-task"):
        of_run = in_tab(page, site, route=f"runs/{run}/{route}")
        of_run.locator("#entries").wait_for()
        assert of_run.locator("h1").inner_text() == "Batch 4 of orders"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way(site: Site, looked_at: LookedAt, scheme: str) -> None:
    page = looked_at("reader", color_scheme=scheme)
    for dag_id, place in (
        ("orders_to_lake", ""),
        ("orders_to_lake", "/batches/3?pipeline=orders"),
        ("by_hour", ""),
        ("orders_to_lake", "?pipeline=nothing"),
    ):
        page.goto(site.page_of(dag_id, place))
        require_accessible(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_calendar_shows_what_is_missing_or_not_committed(site: Site, looked_at: LookedAt, scheme: str) -> None:
    page = looked_at("reader", color_scheme=scheme)
    page.goto(site.page_of("by_hour"))
    assert [text[-11:] for text in page.locator(".calendar li.bad").all_inner_texts()] == ["not planned"]
    assert [text[-7:] for text in page.locator(".calendar li:has(a)").all_inner_texts()] == ["planned"]
    assert page.locator(".calendar li.good").count() >= 11
    assert page.locator(".todo code").inner_text().startswith("kafka-offsets plan orders-by-hour --start timestamp:")
    picture(page, f"windows-{scheme}", page) if (site.login, scheme) == ("simple", "dark") else None
    page.locator(".calendar a").first.click()
    page.locator("#entries").wait_for()


def test_names_of_others_run_no_script(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("reader")
    page.goto(site.page_of("evil"))
    assert page.locator("h1").inner_text() == "<script>alert('pipeline')<"
    assert page.locator("img").count() == 0
    page.locator("#batches a").first.click()
    page.locator("#entries").wait_for()


def test_another_persons_tab_shows_only_their_dags(site: Site, looked_at: LookedAt) -> None:
    """Airflow opens the frame for any DAG: with rights by DAG the page itself refuses."""
    page = looked_at("other")
    page.goto(site.page_of("orders_to_lake"))
    is_refused = "Airflow does not let you read this DAG." in page.locator("main").inner_text()
    assert is_refused == (site.login == "fab")
    page.goto(site.page_of("evil"))
    assert page.locator("#batches").count() == 1


def test_a_run_that_failed_leaves_the_command_to_copy(site: Site, looked_at: LookedAt) -> None:
    for scheme in ("light", "dark"):
        page = looked_at("reader", color_scheme=scheme)
        page.goto(site.page_of("orders_that_fail"))
        assert "No run has worked on it" in page.locator(".say").inner_text()
        command = page.locator(".todo code").inner_text()
        assert command.startswith("kafka-offsets plan orders-that-fail --kafka-config-id ")
        require_accessible(page)
