"""SHELL: cases about what may not pass: bad numbers, long prompts, text that poses as control."""

from __future__ import annotations

import re

import msgspec

from roost.core.request import EmbedPrompt, GenerateRequest, Sampling, TokensPrompt
from roost.testing.stand import NotApplicable, Stand, require

TOO_LONG = re.compile(r"prompt is too long: \d+ tokens > \d+ maximum")
BAD_NUMBERS: dict[str, tuple[float, ...]] = {
    "temperature": (-1.0, 2.1, float("nan"), float("inf"), 1e308, True),
    "top_p": (-0.1, 1.1, float("nan")),
    "min_p": (-0.1, 1.1, float("-inf")),
    "top_k": (-1, 2**31, 2**63, 1.5),
    "seed": (-1, 2**32, 2**63, 0.5),
    "presence_penalty": (-2.1, 2.1, float("nan")),
    "frequency_penalty": (-2.1, 2.1, 2**63),
}


async def limits_are_clamped(stand: Stand) -> None:
    """Whatever is asked for, prompt and answer fit the context."""
    for wanted in (None, 10**9, 2**63):
        prepared = await stand.runtime.prepare(stand.request("one two three ", wanted))
        total = prepared.limit + len(prepared.tokens)
        require(total == stand.ctx, f"prompt and limit are {total} of {stand.ctx} tokens")


async def too_long_is_refused(stand: Stand) -> None:
    """A prompt without room for an answer is refused in words that clients recognise."""
    heavy = await stand.heavy()
    for size in (stand.ctx, stand.ctx + 1, stand.ctx * 2):
        tokens = (heavy.tokens * 4)[:size]
        await _check_too_long(stand, stand.request(TokensPrompt(tokens)))
    await _check_too_long(stand, stand.request("river stone cloud " * stand.ctx))


async def _check_too_long(stand: Stand, request: GenerateRequest) -> None:
    failure = await stand.refusal(request)
    require(failure.reason == "context_length_exceeded", f"refused with {failure.reason}")
    require(TOO_LONG.match(failure.message), f"clients do not know: {failure.message}")
    require(failure.param == "prompt", f"the field at fault is not {failure.param}")


async def bad_numbers_are_refused(stand: Stand) -> None:
    """Numbers out of range are refused by name, and the runtime lives on."""
    for name, values in BAD_NUMBERS.items():
        for value in values:
            sampling = msgspec.structs.replace(Sampling(), **{name: value})
            failure = await stand.refusal(stand.request("one ", sampling=sampling))
            named = (failure.reason, failure.param)
            require(named == ("bad_request", name), f"{name} {value} is refused as {named}")
    vectors = GenerateRequest(stand.request("one ").model, EmbedPrompt(("one ",)))
    failure = await stand.refusal(vectors)
    require(failure.reason == "unsupported", f"vectors are refused as {failure.reason}")
    exact = stand.subject.backend.capabilities.exact_token_count
    for request in (
        stand.request("one ", 0),
        stand.request("one ", -1),
        stand.request("one ", stop=[""]),
        stand.request("one ", stop=["x"] * 17),
        stand.request("one ", top_logprobs=-1),
        stand.request("one ", top_logprobs=10**9),
        *([stand.request(TokensPrompt(()))] if exact else []),
        stand.request("half a character \ud83d and more"),
    ):
        reason = (await stand.refusal(request)).reason
        require(reason == "bad_request", f"{request} is refused as {reason}")
    await stand.run(stand.request("one two ", 2))


async def bad_tokens_are_refused(stand: Stand) -> None:
    """Tokens, limits and slots that do not exist never reach the engine, whoever made them."""
    good = await stand.runtime.prepare(stand.request("one ", 2))
    for token in (-1, 2**31 - 1, 2**31, 2**63, True, 1.0):
        request = stand.request(TokensPrompt((*good.tokens, token)))  # type: ignore[arg-type]
        reason = (await stand.refusal(request)).reason
        require(reason == "bad_request", f"token {token} is refused as {reason}")
    replace = msgspec.structs.replace
    for bad, slot in (
        (replace(good, tokens=(-1,)), 0),
        (replace(good, tokens=()), 0),
        (replace(good, limit=0), 0),
        (replace(good, limit=stand.ctx), 0),
        (replace(good, request=stand.request("one ", sampling=Sampling(top_p=-1.0))), 0),
        (good, -1),
        (good, stand.subject.key.options.slots),
    ):
        reason = (await stand.open_refusal(bad, slot)).reason
        require(reason == "bad_request", f"{bad.tokens}, {bad.limit}, {slot}: {reason}")
    await stand.run(good)


async def control_tokens_stay_text(stand: Stand) -> None:
    """Text of control tokens, in a message or a prompt, is text and steers nothing."""
    manifest = stand.subject.manifest
    longest = sorted(manifest.control_tokens, key=len)[-3:]
    if not longest or stand.has_no_chat:
        raise NotApplicable("the model has no control tokens or no chat template")
    if not stand.subject.backend.capabilities.exact_token_count:
        # Where nobody knows what the engine makes of a text, it is refused.
        for text in longest:
            for request in (stand.chat(f"x{text}"), stand.request(f"x{text}")):
                reason = (await stand.refusal(request)).reason
                require(reason == "bad_request", f"{text!r} is refused as {reason}")
        return
    plain = await stand.runtime.prepare(stand.chat("x"))
    bare = await stand.runtime.prepare(stand.request("x"))
    for text in longest:
        for request, without in (
            (stand.chat(f"x{text}"), plain),
            (stand.request(f"x{text}"), bare),
        ):
            prepared = await stand.runtime.prepare(request)
            more = len(prepared.tokens) - len(without.tokens)
            require(more > 1, f"{text!r} became {more} token")


async def one_bos(stand: Stand) -> None:
    """A model that wants a first token gets it once, for texts and for chats."""
    if not stand.subject.manifest.add_bos:
        raise NotApplicable("the model wants no first token")
    bare = (await stand.runtime.prepare(stand.request("x y z"))).tokens
    requests = [stand.request("z y x")]
    if stand.subject.backend.capabilities.chat and not stand.has_no_chat:
        requests.append(stand.chat("x y z"))
    for request in requests:
        tokens = (await stand.runtime.prepare(request)).tokens
        good = tokens[0] == bare[0] and tokens.count(bare[0]) == 1
        require(good, f"the prompt begins with {tokens[:3]}")
