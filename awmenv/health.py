"""The check of a task's verifiers: what both forms return on the unmodified database.

Owns the record and its words. `awmenv.server.session.checkup` makes records, `verify` carries them to the control
side, the load report and the dashboard's pages show them. Verifiers of real packs are fallible; a record says how. It
is for people: an agent that knew it could aim for the outcome instead of the task.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

State = Literal["missing", "broken", "fails", "runs"]
STATES: tuple[State, ...] = ("missing", "broken", "fails", "runs")
SAYS = ("", "complete", "others")
MAX_ERROR = 300


@dataclass(frozen=True)
class Form:
    """One form of a verifier on the unmodified database. `says` is empty if it returned only evidence; `judged` is true
    if a judge ruled on that evidence."""

    state: State = "missing"
    says: str = ""
    error: str = ""
    judged: bool = False

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        if not isinstance(data, Mapping) or data.get("state") not in STATES or data.get("says", "") not in SAYS:
            return None
        error, judged = str(data.get("error", ""))[:MAX_ERROR], data.get("judged") is True
        return cls(data["state"], data.get("says", ""), error, judged)

    def in_words(self, name: str) -> str:
        phrase = {
            "missing": "is missing",
            "broken": "does not compile",
            "fails": "does not run",
            "runs": f"returns {'evidence that the judge rated ' if self.judged else ''}{self.says}"
            if self.says
            else "returns evidence for a judge",
        }[self.state]
        return f"The {name} form {phrase}{f': {self.error}' if self.error else ''}".rstrip(".") + "."


@dataclass(frozen=True)
class Health:
    """Both forms of one task's verifier. `expects_no_change` is true where the pack says that doing nothing is right.

    `guessed` names the answers without work that the code form accepts there, None if none was tried. `unchecked` says
    why there is nothing to tell; then the rest is empty.
    """

    code: Form = Form()
    sql: Form = Form()
    expects_no_change: bool = False
    unchecked: str = ""
    guessed: tuple[str, ...] | None = None

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        """Read a record from the wire; None for what is no record."""
        if not isinstance(data, Mapping):
            return None
        code, sql = Form.from_wire(data.get("code")), Form.from_wire(data.get("sql"))
        if code is None or sql is None:
            return None
        tried = data.get("guessed")
        guessed = tuple(str(name)[:MAX_ERROR] for name in tried) if isinstance(tried, list | tuple) else None
        return cls(
            code, sql, data.get("expects_no_change") is True, str(data.get("unchecked", ""))[:MAX_ERROR], guessed
        )

    def wire(self) -> dict[str, Any]:
        fields = asdict(self)
        if self.guessed is None:
            del fields["guessed"]
        return fields

    @property
    def passes_unchanged(self) -> bool:
        """Whether a form returns complete on the unmodified database, or the pack says that doing nothing is right."""
        return self.expects_no_change or "complete" in {self.code.says, self.sql.says}

    @property
    def remarks(self) -> list[str]:
        """Warnings, most severe first; empty without problems and for an unchecked verifier."""
        forms = (("code", self.code), ("SQL", self.sql))
        remarks = [f"the {name} form does not compile" for name, form in forms if form.state == "broken"]
        remarks += [
            f"the {name} form does not run on the unmodified database" for name, form in forms if form.state == "fails"
        ]
        remarks += self._about_nothing()
        remarks += [f"the code form accepts an answer without work: {', '.join(self.guessed)}"] if self.guessed else []
        return remarks + [
            f"the {name} form swallows an error" for name, form in forms if form.state == "runs" and form.error
        ]

    def _about_nothing(self) -> list[str]:
        verdicts = {form.says for form in (self.code, self.sql) if form.says}
        if len(verdicts) == 2:
            return ["code and SQL disagree on the unmodified database"]
        if verdicts == {"complete"} and not self.expects_no_change:
            return ["returns complete on the unmodified database"]
        if verdicts == {"others"} and self.expects_no_change:
            return ["returns others although the task needs no change"]
        return []

    @property
    def words(self) -> str:
        """The most severe warning in one line, for a list; empty without warnings."""
        remarks = self.remarks
        more = f", and {len(remarks) - 1} more" if len(remarks) > 1 else ""
        return f"verifier: {remarks[0]}{more}" if remarks else ""

    @property
    def explanation(self) -> str:
        """What was checked and the result."""
        if self.unchecked:
            return f"The verifier was not checked: {self.unchecked}".rstrip(".") + "."
        meant = " The pack says that the task needs no change." if self.expects_no_change else ""
        forms = f"{self.code.in_words('code')} {self.sql.in_words('SQL')}"
        return f"Run on the unmodified database: {forms}{meant}"
