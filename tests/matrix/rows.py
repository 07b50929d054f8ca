"""The rows of the compatibility table: which versions run together.

Each axis is varied alone, against the newest of the others; and all at their lowest, and all at their highest. In one
row Airflow's Kafka client is built from source, and uses Kerberos. The
versions of what a row does not name are those that the package index had on the row's day (`as_of`).

Airflow's constraints files are not on a package index. What stands for the one of an Airflow version is what the
resolver gives for exactly that version, of all that was published until the day after its release: the constraints file
is made in the same way, on the day of the release.
"""

from __future__ import annotations

from dataclasses import dataclass

LATEST = "2026-11-22"  # the day of the newest that there is; a later one is another row, to be seen to hold first


@dataclass(frozen=True, slots=True)
class Row:
    """:ivar axis: what it varies; a section of the document.
    :ivar airflow: the version; with `resolution` `lowest-direct` and `highest` the resolver finds it.
    :ivar as_of: nothing that was published from this day on is looked at.
    :ivar kerberos: Airflow and Spark are let in by Kerberos alone, and Airflow's client is built by the page's steps.
    """

    name: str
    axis: str
    airflow: str
    as_of: str
    python: str
    kafka: str
    spark: str
    resolution: str = "highest"
    kerberos: bool = False

    @property
    def minor(self) -> str:
        """Of its Spark, such as 4.0."""
        return self.spark.rpartition(".")[0]


KAFKAS = ("3.9.2", "4.0.2", "4.1.1", "4.4.0")
SPARKS = ("3.5.7", "4.0.0", "4.1.1", "4.2.0")
PYTHONS = ("3.11", "3.12", "3.13")
_AIRFLOWS = {"3.0.6": "2025-08-30", "3.1.8": "2026-03-12", "3.2.2": "2026-05-30", "3.3.2": "2026-09-18"}
_NEWEST = {"airflow": "3.3.2", "python": PYTHONS[-1], "kafka": KAFKAS[-1], "spark": SPARKS[-1]}
_PYTHON_OF = {"airflow-3.0.6": "3.12", "spark-3.5.7": "3.11"}  # the newest that these know


def _rows() -> list[Row]:
    rows = []
    for axis, versions in (
        ("airflow", tuple(_AIRFLOWS)),
        ("spark", SPARKS[:-1]),
        ("kafka", KAFKAS[:-1]),
        ("python", PYTHONS[:-1]),
    ):
        for version in versions:
            name = f"{axis}-{version}"
            of_row = {**_NEWEST, **({"python": _PYTHON_OF[name]} if name in _PYTHON_OF else {}), axis: version}
            rows.append(Row(name, axis, as_of=_AIRFLOWS[of_row["airflow"]], **of_row))
    rows.append(Row("kerberos", "client", as_of=_AIRFLOWS[_NEWEST["airflow"]], kerberos=True, **_NEWEST))
    rows.append(Row("lowest", "all", "", _AIRFLOWS["3.0.6"], "3.11", KAFKAS[0], "3.5.0", "lowest-direct"))
    rows.append(Row("highest", "all", "", LATEST, **{k: v for k, v in _NEWEST.items() if k != "airflow"}))
    return rows


ROWS = _rows()


def chosen(names: str) -> list[Row]:
    """The rows of these names, separated by blanks or commas; all of them where none is given.

    :raises ValueError: there is no such row.
    """
    wanted = names.replace(",", " ").split()
    if unknown := set(wanted) - {row.name for row in ROWS}:
        raise ValueError(f"no row {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not wanted or row.name in wanted]
