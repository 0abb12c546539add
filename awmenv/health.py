"""What is known of a task's verifiers before anybody relies on them: both forms, run where nothing was done.

Owns the record and its words. `awmenv.server.checkup` makes records, `verify` carries them to the control side, the
load report and the dashboard's pages show them. Verifiers of real packs are fallible; a record says how, and judges
nobody. It is for people: an agent that knew it could aim for the verdict instead of the task.
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
    """One form of a verifier on the untouched database. `says` is empty where it gave evidence and no word of its own;
    `judged` where a judge gave the word for it."""

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
        said = {
            "missing": "is missing",
            "broken": "does not compile",
            "fails": "does not run",
            "runs": f"{'gives a judge evidence for' if self.judged else 'says'} {self.says}"
            if self.says
            else "gives evidence for a judge",
        }[self.state]
        return f"The {name} form {said}{f': {self.error}' if self.error else ''}".rstrip(".") + "."


@dataclass(frozen=True)
class Health:
    """Both forms of one task's verifier. `untouched` is true where the pack says that doing nothing is right.

    `unchecked` says why there is nothing to tell; then the rest is empty.
    """

    code: Form = Form()
    sql: Form = Form()
    untouched: bool = False
    unchecked: str = ""

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        """None for what is no record: nothing is said then."""
        if not isinstance(data, Mapping):
            return None
        code, sql = Form.from_wire(data.get("code")), Form.from_wire(data.get("sql"))
        if code is None or sql is None:
            return None
        return cls(code, sql, data.get("untouched") is True, str(data.get("unchecked", ""))[:MAX_ERROR])

    def wire(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def remarks(self) -> list[str]:
        """What is wrong, the worst first; empty for a verifier in good health and for one that nobody could check."""
        forms = (("code", self.code), ("SQL", self.sql))
        found = [f"the {name} form does not compile" for name, form in forms if form.state == "broken"]
        found += [
            f"the {name} form does not run on the untouched database" for name, form in forms if form.state == "fails"
        ]
        found += self._about_nothing()
        return found + [
            f"the {name} form hides an error of its own" for name, form in forms if form.state == "runs" and form.error
        ]

    def _about_nothing(self) -> list[str]:
        said = {form.says for form in (self.code, self.sql) if form.says}
        if len(said) == 2:
            return ["code and SQL disagree on doing nothing"]
        if said == {"complete"} and not self.untouched:
            return ["it says complete though nothing was done"]
        if said == {"others"} and self.untouched:
            return ["it says others though doing nothing is the task"]
        return []

    @property
    def words(self) -> str:
        """The worst remark in one line, for a list; empty where there is none."""
        remarks = self.remarks
        more = f", and {len(remarks) - 1} more" if len(remarks) > 1 else ""
        return f"verifier: {remarks[0]}{more}" if remarks else ""

    @property
    def explanation(self) -> str:
        """What was tried and what came of it."""
        if self.unchecked:
            return f"The verifier itself was not checked: {self.unchecked}".rstrip(".") + "."
        meant = " The pack says that doing nothing is the task." if self.untouched else ""
        forms = f"{self.code.in_words('code')} {self.sql.in_words('SQL')}"
        return f"Run on the database before anything was done: {forms}{meant}"
