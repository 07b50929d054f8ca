"""The page as people meet it: in a tab of Airflow, logged in, in a real browser."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import NEWEST, Site

PICTURES = Path(__file__).parents[2] / "docs/pictures"
LookedAt = Callable[..., Any]


def in_tab(page: Any, site: Site, dag_id: str = "orders_to_lake", route: str = "plugin/kafka-offsets") -> Any:
    """The frame with the page in Airflow's own."""
    page.goto(f"{site.url}/dags/{dag_id}/{route}")
    return page.frame_locator("iframe")


def is_ready(shown: Any) -> None:
    """What comes by itself has come."""
    shown.locator("#partition-rows tbody tr").first.wait_for()


def require_accessible(page: Any) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def picture(shown: Any, name: str, of: Any = None) -> None:
    """For the documentation, when it is asked for.

    :param shown: the page, whose folder in a test's own home says nothing to a reader.
    :param of: what is in the picture; by default ``shown``.
    """
    if os.environ.get("PAGE_PICTURES"):
        for text in shown.locator(".about b").all():
            text.evaluate("said => said.textContent = said.textContent.replace(/file:.*/, 'file:///srv/kafka_offsets')")
        (of or shown).screenshot(path=PICTURES / f"{name}.png")


def test_the_dag_has_a_tab_with_the_page(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("editor")
    page.goto(f"{site.url}/dags/orders_to_lake")
    page.get_by_role("link", name="Kafka offsets").first.click()
    shown = page.frame_locator("iframe")
    is_ready(shown)
    assert "Every batch is committed." in shown.locator(".say").inner_text()
    shown.locator("#figure-unread b", has_text="75").wait_for()  # by itself, once Kafka has answered
    for name in ("unread", "oldest", "retention", "next_run", "lost", "set_aside"):
        assert shown.locator(f"#figure-{name} b").inner_text() not in {"", "unknown"}, name
    assert shown.locator("svg.chart g").count() == NEWEST
    assert shown.locator("#batches tbody tr").count() == NEWEST
    assert shown.locator("#partition-rows tbody tr").count() == 3
    picture(shown, "page-in-airflow", page)


def test_lists_are_filtered_sorted_and_paged_by_the_server_without_a_new_page(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("reader")
    page.goto(site.page_of("evil"))
    is_ready(page)
    page.evaluate("window.sameAsBefore = true")
    rows = page.locator("#partition-rows tbody tr")
    assert rows.count() == 50
    page.get_by_role("search", name="Partitions").get_by_label("Order").select_option("by name")
    page.locator("#partition-rows-after[href*='by+name']").click()
    rows.nth(13).wait_for(state="detached")
    assert rows.count() == 13
    page.get_by_role("search", name="Partitions").get_by_label("Find").fill("orders[1]")
    rows.nth(1).wait_for(state="detached")
    assert page.locator("#partition-rows tbody th").inner_text() == "orders[1]"
    assert page.locator("#partitions-count").inner_text() == "1 of 63 partitions"

    page.goto(site.page_of("orders_to_lake"))
    is_ready(page)
    page.evaluate("window.sameAsBefore = true")
    assert page.locator("#batches tbody th").first.inner_text() == str(NEWEST)
    page.get_by_role("search", name="Batches").get_by_label("Order").select_option("oldest first")
    page.locator("#batches tbody tr").first.get_by_role("rowheader", name="1").wait_for()
    page.get_by_label("State").focus()
    page.keyboard.press("s")  # set aside
    rows = page.locator("#batches tbody tr")
    rows.nth(1).wait_for(state="detached")
    assert rows.get_by_role("rowheader").inner_text() == str(NEWEST - 1)
    assert page.locator("#batches-count").inner_text().startswith(f"1 of {NEWEST} batches that were looked at")
    assert page.evaluate("window.sameAsBefore")


def test_it_works_without_a_script(site: Site, looked_at: LookedAt) -> None:
    """The login needs scripts; the page does not."""
    cookies = looked_at("reader").context.cookies()
    context = site.browser.new_context(java_script_enabled=False)
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(site.page_of("orders_to_lake"))
    page.get_by_role("link", name=f"Partitions of batch {NEWEST}").click()
    assert page.locator("#partition-rows tbody tr").count() == 3
    page.get_by_role("search").get_by_label("Find").fill("orders[2]")
    page.get_by_role("button", name="Show").click()
    assert page.locator("#partition-rows tbody th").inner_text() == "orders[2]"
    page.goto(site.page_of("orders_to_lake"))
    page.get_by_role("search").get_by_label("State").select_option("set aside")
    page.get_by_role("button", name="Show").click()
    assert page.locator("#batches tbody th").all_inner_texts() == [str(NEWEST - 1)]
    assert "state=set+aside" in page.url
    context.close()


def test_a_link_to_a_run_leaves_the_frame_and_the_runs_own_tab_shows_its_batch(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("editor")
    shown = in_tab(page, site)
    is_ready(shown)
    shown.locator("#batches tbody tr").nth(4).locator("a[data-airflow]").first.click()
    page.wait_for_url(re.compile(r"/dags/orders_to_lake/runs/[^/]+"))
    run = page.url.partition("/runs/")[2].partition("/")[0]

    of_run = in_tab(page, site, route=f"runs/{run}/plugin/kafka-offsets-of-run")
    is_ready(of_run)
    assert of_run.locator("tr.of-run th").inner_text().startswith("4")
    assert of_run.locator("#partitions-title").inner_text().startswith("Partitions of batch 4")

    of_task = in_tab(page, site, route=f"runs/{run}/tasks/orders.commit/plugin/kafka-offsets-of-task")
    is_ready(of_task)
    assert of_task.locator("tr.of-run th").inner_text().startswith("4")


def test_a_task_has_a_link_to_the_page(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("editor")
    shown = in_tab(page, site)
    href = shown.locator("a[data-airflow]").first.get_attribute("href")
    page.goto(f"{site.url.partition('/data')[0]}{href}/tasks/orders.resolve/details")
    link = page.get_by_role("link", name="Kafka offsets", exact=True).last
    link.wait_for()
    links = [one.get_attribute("href") for one in page.get_by_role("link", name="Kafka offsets").all()]
    assert any("/kafka-offsets/dags/orders_to_lake?run=" in str(one) for one in links), links


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way(site: Site, looked_at: LookedAt, scheme: str) -> None:
    page = looked_at("editor", color_scheme=scheme)
    page.goto(site.page_of("orders_to_lake"))
    is_ready(page)
    require_accessible(page)
    for place in (
        "/act?action=reset&pipeline=" + PIPELINE,
        "/act?action=reset&look=true&where=to_earliest&reason=because&allow_duplicates=yes&pipeline=" + PIPELINE,
        "/act?action=reset&look=true&where=to_earliest&reason=because&pipeline=" + PIPELINE,
        "/act?action=redo&look=true&batch=3&pipeline=" + PIPELINE,
        "?state=damaged",
        "?pipeline=nothing",
    ):
        page.goto(site.page_of("orders_to_lake", place))
        require_accessible(page)


PIPELINE = "orders-to-lake/orders_to_lake/orders.resolve"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_calendar_shows_the_window_that_is_missing(site: Site, looked_at: LookedAt, scheme: str) -> None:
    page = looked_at("reader", color_scheme=scheme)
    page.goto(site.page_of("by_hour"))
    page.locator(".calendar li").first.wait_for()
    assert sorted(text.split()[-1] for text in page.locator(".calendar li").all_inner_texts())[-1] == "missing"
    require_accessible(page)
    picture(page, f"page-windows-{scheme}", page.locator("#windows"))


def test_it_goes_by_the_keyboard(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("reader")
    page.goto(site.page_of("orders_to_lake"))
    is_ready(page)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "2":
            break
    page.keyboard.press("Enter")
    page.locator("#partitions-title", has_text="Partitions of batch 2").wait_for()


def test_it_looks_as_airflow_looks(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("editor", color_scheme="light")
    page.goto(f"{site.url}/dags/orders_to_lake")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    shown = in_tab(page, site)
    is_ready(shown)
    page.wait_for_function("document.documentElement.classList.contains('dark')")
    assert shown.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") == "rgb(20, 24, 29)"


def test_names_that_are_html_stay_names(site: Site, looked_at: LookedAt) -> None:
    page = looked_at("reader")
    shown = in_tab(page, site, "evil")
    is_ready(shown)
    assert "<script>alert" in shown.locator("h1").inner_text()
    assert "<img src=x" in shown.locator(".about").inner_text()


def test_a_user_of_another_dag_is_told_so_although_airflow_opens_the_frame(site: Site, looked_at: LookedAt) -> None:
    if site.login == "simple":
        return  # it knows no rights of a DAG
    page = looked_at("other")
    answer = page.goto(site.page_of("orders_to_lake"))
    assert answer.status == 403
    assert page.locator("[role=alert]").inner_text().startswith("Airflow does not let you")
    assert page.goto(site.page_of("evil")).status == 200
    assert page.goto(site.page_of("evil", f"?pipeline={PIPELINE}")).status == 404


def test_nobody_who_is_not_logged_in_sees_a_page(site: Site) -> None:
    page = site.browser.new_context().new_page()
    assert page.goto(site.page_of("orders_to_lake")).status == 401
    assert "Log in to Airflow" in page.content()
    page.context.close()


def test_what_would_happen_is_shown_then_done_in_the_name_of_who_confirms(site: Site, looked_at: LookedAt) -> None:
    """The last test: afterwards there is one batch more."""
    page = looked_at("editor")
    shown = in_tab(page, site)
    is_ready(shown)
    shown.get_by_role("link", name="Reset the position …").click()
    shown.get_by_label("the oldest record that Kafka has").check()
    shown.get_by_label("Reason").fill("a <b>corrected</b> schema")
    shown.get_by_label("Read records again that are in the output already").check()
    shown.get_by_role("button", name="Show what would happen").click()
    shown.get_by_text("Nothing has been written yet.").wait_for()
    picture(shown, "page-reset", page)
    shown.get_by_role("button", name="Reset the position").click()
    shown.get_by_role("heading", name="Done: Reset the position").wait_for()
    shown.get_by_role("link", name=f"Back to {PIPELINE}").click()
    is_ready(shown)
    newest = shown.locator("#batches tbody tr").first.inner_text()
    assert newest.startswith(str(NEWEST + 1))
    assert "editor" in newest
    assert "a <b>corrected</b> schema" in newest
