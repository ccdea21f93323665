"""The banner's lines can be pasted and work."""

from __future__ import annotations

import shlex

import msgspec

from roost.cli import options
from roost.cli.banner import banner
from roost.config.read import read_usual_home
from roost.core.ids import ModelId
from roost.core.model import Manifest

URL = "http://127.0.0.1:7878"


def _model(name: str, template: str | None) -> Manifest:
    return Manifest(ModelId(name), "/m", 1, "sha256:0", chat_template=template, licence="Apache")


def _body_of(text: str) -> dict[str, object]:
    command = text[text.index(f"curl {URL}/v1/", text.index("/v1/models")) :]
    words = shlex.split(command.split("\n\n")[0].replace("\\\n", " "))
    return msgspec.json.decode(words[words.index("-d") + 1], type=dict[str, object])


def test_it_names_url_models_and_a_chat_that_works() -> None:
    """The first model with a template is the one that is asked."""
    text = banner(URL, [_model("base", None), _model("chatty", "{{ x }}")], keys_exist=False)
    assert text.count(URL) == 5
    assert "base " in text
    assert "\n  roost chat --model chatty\n" in text
    assert _body_of(text)["model"] == "chatty"
    assert "api_key=none" in text


def test_the_command_is_what_the_shell_knows_it_by() -> None:
    """Without an activated environment the command is a path, in every line that has it."""
    path = ".venv/bin/roost"
    text = banner(URL, [_model("chatty", "x")], keys_exist=False, roost=path)
    assert f"\n  {path} chat\n" in text
    assert f": {path} pull " in banner(URL, [], keys_exist=False, roost=path)


def test_another_home_is_in_the_lines_that_need_it() -> None:
    """A gateway is found in its home, and a model is pulled into that one."""
    flag = options.at_home("/my models")
    assert flag == " --home '/my models'"
    assert options.at_home(read_usual_home()) == ""
    text = banner(URL, [_model("chatty", "x")], keys_exist=False, home=flag)
    assert f"\n  roost chat{flag}\n" in text
    assert f"roost pull{flag} pypi:" in banner(URL, [], keys_exist=False, home=flag)


def test_a_base_model_gets_a_completion() -> None:
    """A model without a template is never offered a chat."""
    text = banner(URL, [_model("base", None)], keys_exist=False)
    assert "/v1/completions" in text
    assert "prompt" in _body_of(text)
    assert "roost chat" not in text


def test_with_keys_the_lines_carry_one() -> None:
    """Once a key exists the lines say where it goes."""
    text = banner(URL, [_model("chatty", "x")], keys_exist=True)
    assert text.count("YOUR_KEY") == 5
    assert "\n  ROOST_API_KEY=YOUR_KEY roost chat\n" in text


def test_without_models_it_says_how_to_get_one() -> None:
    """An empty store is no error."""
    assert "roost pull" in banner(URL, [], keys_exist=False)
