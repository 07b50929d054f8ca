"""Which run has a window: two runs of one pipeline never write the same window into two outputs (DESIGN, Position).

::

    windows/<cluster_id>/<checkpoint_id>/<place>/window.<n>.json      a run wants the window: run, claim, ticket
    windows/<cluster_id>/<checkpoint_id>/<place>/settled.<n>.json     held, or void: in the ticket's own place only
    windows/<cluster_id>/<checkpoint_id>/<place>/released.<n>.json    held before; its run was planned anew without it

A place is a UTC day, or ``offsets``. A run registers in the first place of its window, looks at who was there before
it, then goes on to the next place; at the end its registration (the ticket) is settled as held, and only then is its
plan stored. What must stay true:

- Of two that overlap, the later one in their first common place sees the earlier one, because each registers before it
  looks. So the lower number wins; the other's ticket is void. As nobody registers further once it is refused, the
  refused one's winner was refused only later or lower, and so on: one always gets through.
- A ticket is settled once (the object is created exclusively). Who passes over a ticket because its run is dead voids
  it first, so that a run that was only slow finds it void when it wants to hold it, and has to register anew: behind.
- Nobody waits: a lower ticket that is neither settled nor dead refuses at once, and Airflow's retries do the waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from airflow_kafka_offsets.errors import StoreUnavailable, WindowRepeated
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.windows import Claim, TimeClaim, claim_from_dict
from airflow_kafka_offsets.stores.objects import WorkStore, safe_name
from airflow_kafka_offsets.stores.turns import IsAlive


@dataclass(frozen=True, slots=True)
class _Ticket:
    """A registration, by its place and number in the first place of its window."""

    place: str
    number: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """What one object ``window.<number>.json`` says."""

    number: int
    run: RunKey
    claim: Claim
    ticket: _Ticket


@dataclass
class WindowRegister:
    """The windows of one pipeline on one cluster, as ``run`` sees them.

    :ivar is_alive: whether that run is queued or running. A wrong answer costs a refusal or another registration,
        never a window that two runs hold.
    """

    store: WorkStore
    cluster_id: str
    checkpoint_id: str
    run: RunKey
    is_alive: IsAlive
    _read: dict[str, _Entry] = field(default_factory=dict)  # written once, so read once
    _unusable: set[_Ticket] = field(default_factory=set)

    def hold(self, claim: Claim) -> None:
        """Make ``claim`` this run's, unless it is already.

        :raises WindowRepeated: other runs have some of it, or are about to.
        """
        while not self._try_to_hold(claim):
            pass  # somebody took this run for dead, and has gone past it: the next try is behind that one

    def release(self, claim: Claim, kept: Claim | None) -> None:
        """Give ``claim`` up after this run was planned anew, as far as it is not the window that it has kept."""
        for entry in list(self._entries(claim.places[0])):
            if entry.run == self.run and entry.claim != kept and self._state(entry.ticket) == "held":
                self.store.create(self._name(entry.ticket, "released"), {"version": 1})

    def runs_until(self, moment_ms: int) -> list[RunKey]:
        """The runs that hold a window by time which ends at ``moment_ms``: one, or none."""
        before = TimeClaim(moment_ms - 1, moment_ms)
        found = {
            entry.run: None
            for entry in self._entries(before.places[0])
            if isinstance(entry.claim, TimeClaim)
            and entry.claim.end_ms == moment_ms
            and self._state(entry.ticket) == "held"
        }
        return list(found)

    def _try_to_hold(self, claim: Claim) -> bool:
        ticket: _Ticket | None = None
        for place in claim.places:
            own = self._own(place, claim, ticket) or self._register(place, claim, ticket)
            ticket = own.ticket
            if self._state(ticket) == "held":  # a retry, a clear: it looked at all places then
                return True
            rivals = [line for entry in self._entries(place) if (line := self._in_the_way(entry, own))]
            if rivals:
                self._settle(ticket, held=False)
                raise WindowRepeated(str(self.run), str(claim), self.checkpoint_id, sorted(set(rivals)))
        assert ticket is not None, "a claim has a place"
        if self._settle(ticket, held=True) or self._state(ticket) == "held":  # held: by another try of this run
            return True
        self._unusable.add(ticket)
        return False

    def _in_the_way(self, entry: _Entry, own: _Entry) -> str | None:
        """What speaks against ``own``. Who comes after it sees it, and steps back."""
        if entry.number >= own.number or entry.run == self.run or not entry.claim.overlaps(own.claim):
            return None
        state = self._state(entry.ticket)
        if state == "open" and not self.is_alive(entry.run):
            self._settle(entry.ticket, held=False)
            state = "held" if self._state(entry.ticket) == "held" else "void"  # it may have been faster
        if state == "void":
            return None
        return f"run {entry.run} " + (f"has {entry.claim}" if state == "held" else f"is about to take {entry.claim}")

    def _own(self, place: str, claim: Claim, ticket: _Ticket | None) -> _Entry | None:
        """This run's registration here by an earlier try, or of an earlier place of this one."""
        for entry in self._entries(place):
            if entry.run != self.run or entry.claim != claim or entry.ticket in self._unusable:
                continue
            if entry.ticket == ticket or (ticket is None and self._state(entry.ticket) != "void"):
                return entry
        return None

    def _register(self, place: str, claim: Claim, ticket: _Ticket | None) -> _Entry:
        value: dict[str, Any] = {"version": 1, "run": asdict(self.run), **claim.to_dict()}
        if ticket is not None:
            value["ticket"] = [ticket.place, ticket.number]
        number = self.store.append(self._folder(place), "window", value).number
        return _Entry(number, self.run, claim, ticket or _Ticket(place, number))

    def _entries(self, place: str) -> Iterator[_Entry]:
        """In the order of their numbers, each read when it is asked for; one without a valid digest never was."""
        folder = self._folder(place)
        for number in self.store.numbers(folder, "window"):
            name = f"{folder}/window.{number}.json"
            if name not in self._read:
                value = self.store.read(name)
                if value is None:
                    continue
                self._read[name] = self._entry(name, place, number, value)
            yield self._read[name]

    def _entry(self, name: str, place: str, number: int, value: dict[str, Any]) -> _Entry:
        if value.get("version") != 1:
            raise StoreUnavailable(
                f"Cannot use {name} in the work store {self.store.uri}",
                f"version {value.get('version')!r} is not known to this version of airflow-kafka-offsets",
                "Use the version of airflow-kafka-offsets that wrote it, or another checkpoint_id.",
            )
        ticket = _Ticket(*value["ticket"]) if "ticket" in value else _Ticket(place, number)
        return _Entry(number, RunKey(**value["run"]), claim_from_dict(value), ticket)

    def _state(self, ticket: _Ticket) -> Literal["open", "held", "void"]:
        settled = self.store.read(self._name(ticket, "settled"))
        if settled is None:
            return "open"
        if not settled["held"] or self.store.read(self._name(ticket, "released")) is not None:
            return "void"
        return "held"

    def _settle(self, ticket: _Ticket, *, held: bool) -> bool:
        value = {"version": 1, "held": held, "by": str(self.run)}
        return self.store.create(self._name(ticket, "settled"), value)

    def _name(self, ticket: _Ticket, stem: str) -> str:
        return f"{self._folder(ticket.place)}/{stem}.{ticket.number}.json"

    def _folder(self, place: str) -> str:
        return f"windows/{safe_name(self.cluster_id)}/{safe_name(self.checkpoint_id)}/{place}"
