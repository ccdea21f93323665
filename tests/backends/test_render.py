"""Templates run in a child: slow, greedy and broken ones cost one request and nothing else."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable

import pytest

from roost.backends.rendering.renderer import Renderer, setup_for
from roost.backends.rendering.repeats import ENTRY_CHARACTERS, Repeats
from roost.core.ids import TenantId
from roost.core.request import ChatPrompt, Message
from roost.errors import Failure, RoostError
from roost.gateway.loop import loop_factory
from roost.text.endings import Rendered
from tests.backends.subjects import CHATML
from tests.children import called, children, runs
from tests.conftest import Eventually, until

TODAY = "2026-02-03"
HELLO = ChatPrompt((Message("user", "hello"),))
LOOP = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}"
)
BOMB = "{% if messages[0].content == 'bomb' %}" + LOOP + "{% endif %}ok"
SLOW = (
    "{% if messages[0].content == 'slow' %}{% for a in range(1000) %}{% for b in range(9000) %}"
    "{% endfor %}{% endfor %}{% endif %}{{ messages[0].content }}"
)
BALLOON = (
    "{% set n = namespace(x=['a' * 1000]) %}"
    "{% for a in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}"
)
ENDED = Failure("runtime_died", "The runtime has ended.")
NO_START = Failure("runtime_error", "The process that renders chat templates does not start.")
pytestmark = pytest.mark.slow


def renderer(template: str, *, timeout_s: float = 5.0, output_max: int = 1 << 20) -> Renderer:
    """Give a renderer with ChatML's control tokens."""
    setup = setup_for(
        template,
        ("<s>", "</s>"),
        ("<|im_start|>", "<|im_end|>"),
        timeout_s=timeout_s,
        output_max_bytes=output_max,
    )
    return Renderer(setup, timeout_s, output_max)


def said(text: str) -> ChatPrompt:
    """Give a conversation of one message."""
    return ChatPrompt((Message("user", text),))


async def pieces_of(subject: Renderer, prompt: ChatPrompt = HELLO) -> tuple[str, ...]:
    """Give the pieces of a rendering."""
    return (await subject.render(prompt, TODAY)).pieces


async def failure_of(subject: Renderer, messages: ChatPrompt = HELLO) -> Failure:
    """Give the failure with which a rendering ends."""
    with pytest.raises(RoostError) as caught:
        await subject.render(messages, TODAY)
    return caught.value.failure


async def test_renders_and_cuts_at_control_tokens() -> None:
    """What a user wrote as a control token is in two pieces; one child renders everything."""
    subject = renderer(CHATML)
    assert await pieces_of(subject) == (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
    )
    (child,) = children()
    pieces = await pieces_of(subject, said("a<|im_end|>b"))
    assert pieces == ("<|im_start|>user\na<", "|im_end|>b<|im_end|>\n<|im_start|>assistant\n")
    assert children() == [child]
    await subject.close()
    assert not child.is_running()


async def test_what_comes_again_is_known_to_its_owner_alone() -> None:
    """Without the child, which has ended. Another owner's same words are new, as is another day."""
    subject, mine = renderer(CHATML), TenantId("mine")
    first = await subject.render(HELLO, TODAY, owner=mine)
    await subject.render(HELLO, TODAY)
    await subject.close()
    assert await subject.render(HELLO, TODAY, owner=mine) == first
    for today, owner, exact in (
        (TODAY, TenantId("another"), False),
        (TODAY, None, False),
        ("2026-02-04", mine, False),
        (TODAY, mine, True),
    ):
        with pytest.raises(RoostError, match="has ended"):
            await subject.render(HELLO, today, exact=exact, owner=owner)


def test_the_longest_unused_repeats_give_way() -> None:
    """Of three two fit, the one that was used last stays; too long a one drives nobody out."""
    repeats, owner = Repeats(2 * (ENTRY_CHARACTERS + 10)), TenantId("")
    for asked in (b"1", b"2"):
        repeats.keep(owner, asked, Rendered((asked.decode(),)))
    assert repeats.get(owner, b"1") == Rendered(("1",))
    repeats.keep(owner, b"3", Rendered(("3",)))
    assert repeats.get(owner, b"2") is None
    repeats.keep(owner, b"4", Rendered(("x" * 5000,)))
    assert repeats.get(owner, b"1") is not None
    assert repeats.get(owner, b"4") is None
    repeats.forget(TenantId("another"))
    assert repeats.get(owner, b"1") is not None
    repeats.forget(owner)
    assert [repeats.get(owner, asked) for asked in (b"1", b"3")] == [None] * 2


async def test_the_templates_own_variables() -> None:
    """BOS, EOS and the date reach the template."""
    subject = renderer("{{ bos_token }}{{ strftime_now('%d.%m.%Y') }}{{ eos_token }}")
    assert await pieces_of(subject) == ("<s>03.02.2026</s>",)
    await subject.close()


async def test_an_endless_loop_is_ended_and_the_next_chat_works() -> None:
    """A loop bomb costs its own request the time limit; the next one gets a new child."""
    subject = renderer(BOMB, timeout_s=1.5)
    failure = await failure_of(subject, said("bomb"))
    assert (failure.reason, failure.param) == ("bad_request", "messages")
    assert failure.message.startswith("The chat template took longer than 1.5 s")
    assert children() == []
    assert await pieces_of(subject) == ("ok",)
    await subject.close()


async def test_memory_is_limited() -> None:
    """A template that doubles a list until nothing is left fails alone."""
    subject = renderer(BALLOON)
    failure = await failure_of(subject)
    assert failure.reason == "bad_request"
    await subject.close()


async def test_output_is_limited() -> None:
    """More text than allowed is refused with the number."""
    subject = renderer("{{ 'x' * 600 }}{{ 'x' * 600 }}", output_max=1000)
    failure = await failure_of(subject)
    assert failure.reason == "bad_request"
    assert "1000 characters" in failure.message
    await subject.close()


@pytest.mark.parametrize(
    ("template", "reason", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "bad_request", "roles must alternate"),
        ("{{ unclosed", "unsupported", "does not compile"),
        ("{{ messages[9].content.x.y }}", "bad_request", "failed on these messages"),
        ("{{ ''.__class__.__mro__ }}", "bad_request", "failed on these messages"),
    ],
)
async def test_refusals_come_through(template: str, reason: str, message: str) -> None:
    """What the sandbox refuses, or the template itself, is told with its reason."""
    subject = renderer(template)
    failure = await failure_of(subject)
    assert failure.reason == reason
    assert message in failure.message
    await subject.close()


async def _kill_child(subject: Renderer, *, settle: bool) -> None:
    (child,) = called("rendering.child")
    child.kill()
    if settle:
        await until(lambda: not runs(child))


@pytest.mark.parametrize("settle", [True, False], ids=["idle", "at once"])
@pytest.mark.parametrize(
    "loops", [asyncio.new_event_loop, loop_factory()], ids=["asyncio", "uvloop"]
)
def test_an_accident_to_the_child_costs_no_chat(
    loops: Callable[[], asyncio.AbstractEventLoop], *, settle: bool
) -> None:
    """Killed while it idles or just before it is asked: the next chat is rendered all the same."""

    async def scene() -> None:
        subject = renderer(CHATML)
        try:
            await subject.render(HELLO, TODAY)
            await _kill_child(subject, settle=settle)
            assert "hello" in "".join(await pieces_of(subject))
        finally:
            # A loop of uvloop does not close while a child of its own lives.
            await subject.close()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scene())


async def test_a_caller_that_leaves_does_not_take_the_child_with_it(
    eventually: Eventually,
) -> None:
    """The rendering ends in its own time, its reply is dropped, and the next one gets its own."""
    subject = renderer(SLOW)
    await subject.warm()
    (child,) = children()
    used = child.cpu_times().user
    async with asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(subject.render(said("slow"), TODAY))
        waits = tasks.create_task(subject.render(said("waits"), TODAY))
        await eventually(lambda: child.cpu_times().user > used + 0.02)
        slow.cancel()
        waits.cancel()
    assert await pieces_of(subject) == ("hello",)
    assert children() == [child]
    await subject.close()


async def test_a_loop_whose_caller_has_left_is_ended_all_the_same() -> None:
    """The time limit is the rendering's, whoever still waits for it."""
    subject = renderer(BOMB, timeout_s=1.5)
    await subject.warm()
    async with asyncio.TaskGroup() as tasks:
        bomb = tasks.create_task(subject.render(said("bomb"), TODAY))
        await asyncio.sleep(0)
        bomb.cancel()
    assert await pieces_of(subject) == ("ok",)
    await subject.close()


async def test_closing_ends_a_rendering_that_nobody_waits_for() -> None:
    """Nothing is left running, neither a child nor a task."""
    subject = renderer(BOMB)
    await subject.warm()
    async with asyncio.TaskGroup() as tasks:
        bomb = tasks.create_task(subject.render(said("bomb"), TODAY))
        await asyncio.sleep(0)
        bomb.cancel()
    await subject.close()
    assert children() == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("steps", range(2, 9))
async def test_closing_ends_a_child_that_is_being_started(steps: int) -> None:
    """At whatever step of its start: once it is closed there is no child, for chats and warming."""
    for begin in (Renderer.warm, pieces_of):
        subject = renderer(CHATML)
        starting = asyncio.ensure_future(begin(subject))
        for _ in range(steps):
            await asyncio.sleep(0)
        await subject.close()
        assert children() == []
        (result,) = await asyncio.gather(starting, return_exceptions=True)
        assert result is None or getattr(result, "failure", None) == ENDED


async def test_a_machine_without_descriptors_is_told() -> None:
    """No child can be started: warming says nothing, a chat is told, and the next one works."""
    subject = renderer(CHATML)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        await subject.warm()
        failure = await failure_of(subject)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert failure == NO_START
    assert "hello" in "".join(await pieces_of(subject))
    await subject.close()


async def test_closed_is_closed() -> None:
    """After close nothing is rendered, and closing again does nothing."""
    subject = renderer(CHATML)
    await subject.warm()
    await subject.close()
    await subject.close()
    await subject.warm()
    assert (await failure_of(subject)).reason == "runtime_died"
    assert children() == []
