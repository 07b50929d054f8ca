"""All rows of the rule table."""

from __future__ import annotations

from tests.conformance import cases_ranges, cases_starts
from tests.conformance.situations import Case

CASES: tuple[Case, ...] = (*cases_starts.CASES, *cases_ranges.CASES)
