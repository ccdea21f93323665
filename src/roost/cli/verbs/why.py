"""WIRING: `roost why ID`: where a request went, why, what was predicted and what came."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from roost.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

DESCRIPTION = """\
Explain one request by the id in its reply's header x-roost-request-id: every attempt, the
candidates with their scores, the choice, and what was predicted against what came. --cancel stops
it.
"""


def main(arguments: list[str]) -> int:
    """Ask the gateway for a receipt and print it."""
    parser = options.parser("why", DESCRIPTION, options.ASKS)
    parser.add_argument("request", metavar="ID", help="the request's id")
    parser.add_argument("--cancel", action="store_true", help="stop it, wherever it is")
    parser.add_argument("--json", action="store_true", help="print the gateway's own JSON")
    parsed = parser.parse_args(arguments)
    from roost.cli.client import ask

    # What a client sees as the id of its answer is the request's id with the API's prefix.
    request = parsed.request.removeprefix("chatcmpl-").removeprefix("cmpl-")
    path = f"/roost/v1/requests/{quote(request, safe='')}"
    receipt = ask(options.load(parsed).settings, path, "DELETE" if parsed.cancel else "GET")
    if parsed.json:
        options.print_json(receipt)
        return 0
    print(summary(receipt))
    attempts = receipt["attempts"]
    assert isinstance(attempts, list), "a receipt has a list of attempts"
    for attempt in attempts:
        print(explained(attempt))
    return 0


def summary(receipt: Mapping[str, object]) -> str:
    """Say what became of a request, in one line."""
    queued, total = _seconds(receipt["queued_s"]), _seconds(receipt["total_s"])
    outcome, ending = receipt["outcome"], receipt.get("ending")
    told = f" ({ending})" if ending not in {None, outcome} else ""
    said = f"{outcome}{told}: {receipt['model']}, {total} in all, {queued} in the queue"
    compacted = receipt.get("compacted")
    if isinstance(compacted, dict):
        dropped = compacted["dropped_tokens"]
        said += f", its past made shorter by {dropped} tokens ({compacted['trigger']})"
    stopped = receipt.get("stopped")
    if isinstance(stopped, dict):
        said += f", stopped by {stopped['by']}, its place free after {_seconds(stopped['free_s'])}"
    return said


def explained(attempt: Mapping[str, object]) -> str:
    """Say where an attempt went and why, in a few lines."""
    predicted, actual = _seconds(attempt["predicted_s"]), _seconds(attempt["actual_s"])
    ranking = attempt["ranking"]
    assert isinstance(ranking, list), "an attempt has a ranking"
    ranked = ", ".join(f"{node} {score:.3f}" for node, score in ranking)
    where = f"{attempt['node']} ({attempt['placement']}, {attempt['why']})"
    lines = [
        f"  attempt {attempt['attempt']}: {where}",
        f"    {attempt['policy'] or 'home'} of {attempt['candidates']} candidates: {ranked}",
        f"    predicted {predicted}, took {actual}",
    ]
    if attempt.get("resumes_at"):
        does = "goes on" if attempt.get("started_s") is not None else "was to go on"
        lines.append(f"    {does} with the answer at token {attempt['resumes_at']}")
    if attempt.get("lost_tokens"):
        lines.append(f"    computed {attempt['lost_tokens']} tokens again that its home had")
    if attempt["failure"]:
        lines.append(f"    failed: {attempt['failure']}")
    return "\n".join(lines)


def _seconds(value: object) -> str:
    return f"{value:.3f} s" if isinstance(value, (int, float)) else "unknown"
