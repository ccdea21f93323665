"""Templates render as with Hugging Face, and a hostile one reaches nothing."""

from __future__ import annotations

import pytest

from roost.core.request import Message
from roost.errors import RoostError
from roost.text import templates
from tests.text.rendering import CHATML, text_of

TURNS = (Message("system", "Be brief."), Message("user", "hi"))


def _render(
    template: str, messages: tuple[Message, ...] = TURNS, *, today: str = "2026-03-01"
) -> str:
    return text_of(template, *messages, today=today)


def _failure(template: str) -> tuple[str, str]:
    with pytest.raises(RoostError) as caught:
        _render(template)
    return caught.value.failure.reason, caught.value.failure.message


def test_chatml() -> None:
    """The commonest template gives exactly the text its models were trained on."""
    turns = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
    assert _render(CHATML) == turns + "<|im_start|>assistant\n"


def test_a_template_in_many_lines() -> None:
    """Blocks take their line end and the blanks before them along, as templates rely on."""
    template = """{{- bos_token }}
{%- set ns = namespace(seen=false) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.seen = true %}
        {%- continue %}
    {%- endif %}
    {%- generation %}
[{{ loop.index0 }}:{{ message.content | trim }}]
    {%- endgeneration %}
{%- endfor %}
{%- if ns.seen and not tools and documents is none %}!{% endif %}
  {% if true %}
x
  {% endif %}
{{ eos_token }}"""
    assert _render(template) == "<s>[1:hi]!x\n</s>"


def test_messages_are_plain_mappings() -> None:
    """A name is there only when one was sent, which templates ask for with `in`."""
    template = "{% for m in messages %}{{ m.keys() | list }}{{ m.name if 'name' in m }}{% endfor %}"
    named = (Message("user", "hi", name="Ann"), Message("user", "ho"))
    assert _render(template, named) == "['role', 'content', 'name']Ann['role', 'content']"


def test_json_is_readable() -> None:
    """`tojson` keeps characters and marks as they are, unlike the one for web pages."""
    template = "{{ {'b': '<é>', 'a': [1, none]} | tojson }}{{ [1] | tojson(indent=1) }}"
    assert _render(template) == '{"b": "<é>", "a": [1, null]}[\n 1\n]'


def test_the_date_is_passed_in() -> None:
    """A template that prints the date prints the one it was given."""
    assert _render("{{ strftime_now('%d %b %Y') }}") == "01 Mar 2026"
    assert _render("{{ strftime_now('%H:%M') }}", today="2026-03-01T14:05") == "14:05"


def test_methods_of_text_work() -> None:
    """Stripping, splitting and slicing, as templates of thinking models do, are allowed."""
    template = "{{ messages[1].content.upper().split('H')[-1] }}{{ messages[-1]['content'][::-1] }}"
    talk = (Message("user", "hello"), Message("assistant", "hi"))
    assert _render(template, talk) == "Iih"


def test_the_template_refuses_in_its_own_words() -> None:
    """What the template raises reaches the caller, whole but for its length."""
    reason, message = _failure("{{ raise_exception('Roles must alternate') }}")
    assert (reason, message) == ("bad_request", "Roles must alternate")
    assert len(_failure("{{ raise_exception('x' * 5000) }}")[1]) == templates.MESSAGE_CHARS_MAX


def test_no_address_is_told() -> None:
    """A template cannot show where something lies in memory."""
    assert "0x…" in _failure("{{ raise_exception(raise_exception) }}")[1]


def test_errors_of_python_do_not_quote_the_conversation() -> None:
    """Only the type of such an error is told, because its text may hold what the user wrote."""
    reason, message = _failure("{{ [] | tojson(indent='x' + messages) }}")
    assert reason == "bad_request"
    assert message.endswith("on these messages: TypeError")
    assert "missing" in _failure("{{ missing.part }}")[1]


@pytest.mark.parametrize(
    "template", ["{% for %}", "{{ 'x' ", "{% nonsense %}", "{{ 1 | nothing }}"]
)
def test_a_template_that_does_not_parse(template: str) -> None:
    """The model cannot chat, which is said as such, with the line."""
    with pytest.raises(RoostError, match="does not compile: line 1") as caught:
        templates.compile(template)
    assert caught.value.failure.reason == "unsupported"


def test_templates_are_bounded() -> None:
    """Neither an endless template nor one nested beyond reason gets anywhere."""
    for template in ("x" * (templates.TEMPLATE_CHARS_MAX + 1), "{{ " + "(" * 50_000 + " }}"):
        with pytest.raises(RoostError) as caught:
            templates.compile(template)
        assert caught.value.failure.reason == "unsupported"


def test_output_is_bounded() -> None:
    """A template that prints without end is stopped at the limit."""
    endless = "{% for i in range(1000) %}{{ 'x' * 1000 }}{% endfor %}"
    with pytest.raises(RoostError, match="prints over 5000"):
        templates.compile(endless, output_chars_max=5000).render(
            (), names={}, wishes={}, today="2026-01-01"
        )


@pytest.mark.parametrize(
    "product",
    [
        "'x' * 10 ** 9",
        "10 ** 9 * 'x'",
        "[1] * 100000000",
        "2 ** (2 ** 40)",
        "(1 * 2) ** 99999999",
        "messages * 2000000",
    ],
)
def test_products_are_bounded(product: str) -> None:
    """A short expression cannot ask for gigabytes, not even while it is compiled."""
    assert "too large" in _failure("{{ " + product + " }}")[1]


def test_small_products_work() -> None:
    """Arithmetic and repetition of a sane size are left alone."""
    assert _render("{{ 2 * 3 }} {{ 2 ** 10 }} {{ '-' * 3 }} {{ 2 * [1] }} {{ 1.5 * 2 }}") == (
        "6 1024 --- [1, 1] 3.0"
    )


# Each tries to reach a class, a function's globals, a module or a way around the attribute check.
HOSTILE = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ joiner.__init__.__globals__ | list }}",
    "{{ namespace.__init__.__globals__['os'] .name }}",
    "{{ dict.__base__.__subclasses__() }}",
    "{{ dict.mro() }}",
    "{{ dict.fromkeys('ab') }}",
    "{{ self.__init__.__globals__ | list }}",
    "{{ self._TemplateReference__context.environment.loader.x }}",
    "{{ raise_exception.__globals__['json'].x }}",
    "{{ raise_exception.__code__.co_code }}",
    "{{ strftime_now.__self__.today().x }}",
    "{{ range.__class__('x').x }}",
    "{{ messages.__class__.__base__.x }}",
    "{{ (messages | map(attribute='__class__') | list)[0].x }}",
    "{{ (messages | attr('__class__')).x }}",
    "{{ ('' | attr('format'))('{0.__class__.__mro__}') }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ '{0.__init__.__globals__}'.format(raise_exception) }}",
    "{{ '{x.__class__}'.format_map({'x': 1}) }}",
    "{{ ['{0.__class__.__mro__}'.format] | map('upper') | list }}",
    "{{ (messages[0].__getattribute__)('__class__') }}",
    "{{ ().__class__.__bases__[0].__subclasses__()[0].x }}",
    "{{ messages.append('x') }}",
    "{{ messages[0].update({'role': 'x'}) }}",
    "{{ messages[0].pop('role') }}",
    "{{ messages.sort(key=raise_exception) }}",
    "{% include 'x' %}",
    "{% import 'os' as os %}{{ os.name }}",
    "{% extends 'x' %}",
    "{{ lipsum.__globals__['os'].x }}",
    "{{ [1] | random }}",
    "{{ (loop.__class__ if loop is defined else x.__class__).x }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ | list }}",
    "{% macro m() %}{% endmacro %}{{ m.name.x }}",
    "{% for i in range(10 ** 5 + 1) %}{% endfor %}",
    "{% set x = cycler('a') %}{{ x.__init__.__globals__ | list }}",
    "{{ config.items() }}",
    "{{ request.application.__globals__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ [].__class__.__init__.x }}{{ 1 / 0 }}",
    "{% set f = (x for x in y) %}",
    "{{ messages | map('attr', '__class__') | map('attr', '__mro__') | list | first | first }}",
    "{{ messages | groupby('__class__') | list }}{{ nothing.x }}",
    "{{ (messages | map('upper')).gi_frame.f_globals }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "{{ 'x'.encode('utf-8').__class__.x }}",
    "{{ ''.join.__self__.x }}",
)
LEAKS = ("<class", "<module", "<function", "uid=", "0x7", "Traceback", "builtins", ".py")


@pytest.mark.parametrize("template", HOSTILE)
def test_a_hostile_template_reaches_nothing(template: str) -> None:
    """It is refused as the caller's or the model's fault, or prints nothing of the machine."""
    before = tuple(TURNS)
    printed = _outcome(template)
    assert not any(leak in printed for leak in LEAKS)
    assert before == TURNS


def _outcome(template: str) -> str:
    """Give what the template prints or the message of its refusal, which must be a 400."""
    try:
        return _render(template)
    except RoostError as error:
        return error.failure.message if error.failure.status == 400 else "<class of another status"
