"""From what was seen to a verdict. Pure: every rule here can be shown an observation, a made-up one as well.

A reply is first taken for what it is (`account`): a whole answer of one target, an honest break, a refusal, or a lie. The
checks then look at conduct: what the providers and the admin address saw. A failed check or a lie is `fail`; what the row
wants is `pass`; an honest break is `safe` in a row that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.drill.script import ANSWERS, PRIMARY, SECONDARY, TOKENS, Scripted
from gateway.drill.seen import Observation, Reading, Reply, is_stream, read


class Verdict(StrEnum):
    """`safe`: not rescued, but told honestly, with nothing that could be taken for an answer."""

    PASS = "pass"  # noqa: S105 - a verdict
    SAFE = "safe"
    FAIL = "fail"


_WORTH_TELLING_S = 2.0
"""Shorter times say more of the machine than of the gateway."""

_WORST_LAST = (Verdict.PASS, Verdict.SAFE, Verdict.FAIL)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=_WORST_LAST.index)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the sentence that says what was seen."""

    verdict: Verdict
    evidence: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a caller has to be told where an answer would be wrong: the status, and the provider's or the gateway's class."""

    status: int
    error_class: str


class Kind(StrEnum):
    """What a reply is."""

    WHOLE = "whole"
    BROKEN = "broken"
    REFUSED = "refused"
    LIE = "lie"


@dataclass(frozen=True, slots=True)
class Account:
    """One reply, understood. `by`: the target whose words it holds. `refusal`: of a reply that is one."""

    kind: Kind
    sentence: str
    by: str | None = None
    refusal: Refusal | None = None


Check = Callable[[Observation, Sequence[Account]], str | None]
"""Looks at conduct. The complaint, or None."""


def account(reply: Reply, answers: Sequence[Scripted] = ANSWERS) -> Account:
    """What one reply is, by its own content alone."""
    if reply.hung:
        return _lie(f"the caller had no end after {reply.took_s:.0f} s")
    if not reply.status:
        return _lie("the connection to the caller was closed without an answer")
    if reply.status == 200 and reply.stream != is_stream(reply):
        return _lie("a stream was asked for and a plain body came" if reply.stream else "a stream came unasked")
    reading = read(reply)
    if reading.garbled:
        return _lie("the caller got an event or a body that is not JSON")
    if reply.status != 200:
        return _refused(reply, reading)
    if reading.errors:
        return _broken(reading, answers)
    return _whole(reply, reading, answers)


def judge(seen: Observation, ideal: Refusal | None, checks: Sequence[Check], *, may_break: bool) -> Judgement:
    """The verdict on a scene.

    `ideal`: the refusal that every reply has to be; None where an answer has to come. `may_break`: an honest break is safe.
    """
    accounts = [account(reply) for reply in seen.replies]
    if not accounts:
        return Judgement(Verdict.FAIL, "nothing was asked")
    for each in accounts:
        if each.kind is Kind.LIE:
            return Judgement(Verdict.FAIL, each.sentence)
    for check in checks:
        complaint = check(seen, accounts)
        if complaint is not None:
            return Judgement(Verdict.FAIL, complaint)
    verdicts = [_of_one(each, ideal, may_break=may_break) for each in accounts]
    verdict = worst(verdicts)
    told = accounts[verdicts.index(verdict)]
    evidence = told.sentence if verdict is not Verdict.PASS or len(accounts) == 1 else _summary(seen, accounts)
    return Judgement(verdict, evidence)


def _of_one(each: Account, ideal: Refusal | None, *, may_break: bool) -> Verdict:
    if ideal is not None:
        return Verdict.PASS if each.refusal == ideal else Verdict.FAIL
    if each.kind is Kind.WHOLE:
        return Verdict.PASS
    return Verdict.SAFE if each.kind is Kind.BROKEN and may_break else Verdict.FAIL


def _summary(seen: Observation, accounts: Sequence[Account]) -> str:
    by = " and ".join(
        f"{count} by the {name}"
        for name in (PRIMARY, SECONDARY)
        if (count := sum(each.by == name for each in accounts))
    )
    text = f"{len(accounts)} of {len(accounts)} answered whole, {by}"
    healed = seen.marks.get("healed")
    times = [arrival.at_s for arrival in seen.arrivals.get(PRIMARY, ())]
    if healed is None:
        return f"{text}; the primary was asked {_times(len(times))}"
    back = min((at for at in times if at >= healed), default=healed)
    wasted = sum(at < healed for at in times)
    return f"{text}; {wasted} attempts at the dead primary, used again {back - healed:.0f} s after it healed"


def _whole(reply: Reply, reading: Reading, answers: Sequence[Scripted]) -> Account:
    said = next((one for one in answers if one.text == reading.text), None)
    if said is None:
        return _lie(f"a {'clean' if reading.clean else 'broken'} end after {_mix(reading.text, answers)}")
    if not reading.clean:
        return _lie(f"the words of the {said.target} without a clean end and without an error event")
    if len(reading.finishes) != 1:
        return _lie(f"{len(reading.finishes)} finish reasons in one answer")
    if len(reading.ids) != 1 or reading.models != {said.model}:
        named = ", ".join(sorted(reading.models)) or "none"
        return _lie(f"an answer of the {said.target} under {len(reading.ids)} ids, as model {named}")
    if reading.usages != (said.usage,):
        return _lie(f"usage {list(reading.usages)} where the {said.target} counted {said.usage}")
    told = reply.headers.get("x-stanchion-target")
    tried = [entry for entry in reading.trail if entry.endswith(" success")]
    if (told is not None and told != said.target) or tried != [f"{said.target} success"]:
        return _lie(f"the {said.target} answered, the headers say {told}, {'; '.join(reading.trail)}")
    return Account(Kind.WHOLE, f"whole answer of the {said.target}{_after(reply, reading)}", by=said.target)


def _broken(reading: Reading, answers: Sequence[Scripted]) -> Account:
    name = _class_of(reading)
    if len(reading.errors) != 1 or reading.late:
        return _lie(f"{len(reading.errors)} error events, and {'more' if reading.late else 'nothing'} after an end")
    if reading.finishes:
        return _lie("a finish reason beside an error event")
    if not reading.errors[0].get("message") or name is None:
        return _lie("an error event without a message or a class")
    said = next((one for one in answers if one.text.startswith(reading.text)), None)
    if said is None or len(reading.ids) > 1:
        return _lie(f"an error event after {_mix(reading.text, answers)}")
    if not reading.text:
        return Account(Kind.REFUSED, f"an error event ({name}) and no word of an answer", refusal=Refusal(200, name))
    words = len(reading.text.split())
    return Account(
        Kind.BROKEN,
        f"{words} of {TOKENS} words of the {said.target}, then one error event ({name})",
        by=said.target,
    )


def _refused(reply: Reply, reading: Reading) -> Account:
    name = _class_of(reading)
    if not reading.errors or not reading.errors[0].get("message") or name is None:
        return _lie(f"status {reply.status} without an error that has a message and a class")
    sentence = f"status {reply.status}, {name}: {_short(str(reading.errors[0]['message']))}"
    return Account(Kind.REFUSED, sentence, refusal=Refusal(reply.status, name))


def _class_of(reading: Reading) -> str | None:
    name = reading.errors[0].get("class") if reading.errors else None
    return name if isinstance(name, str) else None


def _after(reply: Reply, reading: Reading) -> str:
    failed = Counter(entry for entry in reading.trail if not entry.endswith(" success"))
    after = ", ".join(f"{entry} {_times(count)}" if count > 1 else entry for entry, count in failed.items())
    took = f" in {reply.took_s:.0f} s" if reply.took_s >= _WORTH_TELLING_S else ""
    return took + (f", after {after}" if after else "")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _mix(text: str, answers: Sequence[Scripted]) -> str:
    """What is wrong with a text that is nobody's whole answer."""
    words = text.split()
    parts = [(one, [word for word in words if word in one.text.split()]) for one in answers]
    found = [f"{len(own)} words of the {one.target}" for one, own in parts if own]
    doubled = len(words) - len(set(words))
    return (" and ".join(found) or "no word of an answer") + (f", {doubled} of them twice" if doubled else "")


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _lie(sentence: str) -> Account:
    return Account(Kind.LIE, sentence)
