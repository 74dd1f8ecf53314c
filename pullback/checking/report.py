"""What `pullback check` says: each name that is not wholly here, and a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pullback.checking import names
from pullback.checking.source import Program, Use

__all__ = ["Report", "judge"]


@dataclass
class Finding:
    """A name, what there is of it, and where the program uses it."""

    path: str
    status: names.Status
    uses: list[Use] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As a program would write it: `torch.nn.Linear`; a method as `Tensor.view`."""
        return self.path if self.path.startswith("Tensor.") else f"torch.{self.path}"

    @property
    def is_needed(self) -> bool:
        """False where each use is tried or asked for first."""
        return not all(use.optional for use in self.uses)

    @property
    def places(self) -> str:
        """Where it is used; the first two."""
        found = list(dict.fromkeys(f"{use.file}:{use.line}" for use in self.uses))
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        return ", ".join(found[:2]) + more


@dataclass
class Report:
    """All findings about a program."""

    program: Program
    findings: list[Finding]

    def of(self, *kinds: str) -> list[Finding]:
        """Findings of some kinds, in the order of their names."""
        found = [finding for finding in self.findings if finding.status.kind in kinds]
        return sorted(found, key=lambda finding: finding.path)

    @property
    def lacking(self) -> list[Finding]:
        """What the program needs and cannot have."""
        return [f for f in self.findings if f.status.stops and f.is_needed]

    def verdict(self) -> tuple[int, str]:
        """The exit status, and a sentence."""
        if self.program.unread:
            return 2, "cannot say: not every file can be read."
        count = len(self.lacking)
        if count:
            which = "1 name is" if count == 1 else f"{count} names are"
            lacks = "lacks" if count == 1 else "lack"
            single = len(self.program.files) == 1
            what = "will not run as it is" if single else "some parts will not run"
            return 1, f"{what}: {which} missing or {lacks} an argument."
        if self.of("partly"):
            return 0, "should run; read what is said of the names that are partly here."
        if not self.findings:
            return 0, "uses nothing of torch."
        return 0, "runs here, as far as names can tell."

    def lines(self, *, everything: bool = False) -> Iterator[str]:
        """The report as text."""
        total = len(self.findings)
        files = len(self.program.files)
        yield f"{total} name{'s' * (total != 1)} of torch in {files} file{'s' * (files != 1)}"
        width = max((len(f.name) for f in self.of("missing", "partly", "unknown")), default=0)
        for kind in ("unknown", "missing", "partly"):
            for finding in self.of(kind):
                tried = "" if finding.is_needed or kind == "partly" else " (tried first)"
                yield f"  {kind:8}{finding.name:{width}}  {finding.places}{tried}"
                yield f"          {finding.status.why}"
        here = self.of("here")
        if everything:
            yield from (f"  here    {finding.name}" for finding in here)
        else:
            yield f"  here    {len(here)}" + (" (--all lists them)" if here else "")
        if self.program.packages:
            packages = ", ".join(sorted(self.program.packages))
            yield f"other packages, not looked into: {packages}"
        yield from (f"cannot read {line}" for line in self.program.unread)
        yield f"verdict: {self.verdict()[1]}"


def judge(program: Program) -> Report:
    """Look up every name that a program uses."""
    found: dict[tuple[str, names.Status], Finding] = {}
    for use in program.uses:
        status = names.status(use.path)
        unknown = names.unknown_keywords(use.path, use.keywords)
        if status.kind == "here" and unknown:
            taken = ", ".join(f"{name}=" for name in unknown)
            status = names.Status("partly", f"takes no {taken}")
        found.setdefault((use.path, status), Finding(use.path, status)).uses.append(use)
    return Report(program, list(found.values()))
