"""The knowledge of a compiled function about calls with the same types of arguments and modes."""

from __future__ import annotations

from flambeau.compile.answers import Answer, are_same, settled
from flambeau.compile.guarding.changes import Change
from flambeau.compile.program import Program

# A program that fitted a call, and the first answer that it assumed and the call did not give.
Miss = tuple[Program, Change]


class Kind:
    """The knowledge of a compiled function about calls of one kind.

    Attributes:
        programs: The programs; the most recently used one is first.
        reason: The reason for which calls run eagerly; "" if there is none.
        eager_calls: How many calls in a row have run eagerly to create state.
        unanswered: For how many traces the answers were not enough.
        failure: The error of the function's own that the last trace has raised.
        failures: How many traces in a row have raised one that the eager call has not.
        misses: How many calls had answers that fitted no program.
        answers: The answers that a trace may assume; ``last`` are those of the last call.
        is_new: Whether no trace has used these answers yet.
        counts: Whether a trace needs to know how many elements masks pick.
    """

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.reason: str = ""
        self.eager_calls = self.unanswered = self.misses = self.failures = 0
        self.failure: Exception | None = None
        self.answers: list[Answer] = []
        self.last: list[Answer] = []
        self.is_new = self.counts = False

    def taken(self) -> list[Answer]:
        """The answers for the next trace."""
        self.is_new = False
        return self._known()

    def _known(self) -> list[Answer]:
        return [each for each in self.answers if self.counts or not each.is_count]

    def learn(self, answers: list[Answer], missed: list[Miss]) -> None:
        """Keep the answers of an eager call, unless a program that it missed has assumed them."""
        self.answers = [*settled(answers, self.last)]
        self.last = answers
        self.is_new = not any(are_same(self._known(), program.answers) for program, _ in missed)
