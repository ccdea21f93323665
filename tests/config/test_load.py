"""How a value is chosen among sources, and how mistakes are told."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.config.load import Loaded, Machine, examine, home_of, load, read_option
from roost.config.setting import Setting
from roost.config.show import add_flags
from roost.config.table import TABLE
from roost.errors import RoostError

MACHINE = Machine(cores=8, home="/srv/roost")
NUMBERS = [row for row in TABLE if type(row.default) in {int, float}]


def loaded(
    environ: dict[str, str] | None = None, flags: dict[str, object] | None = None, toml: str = ""
) -> Loaded:
    """Load with the given sources on a machine of 8 cores."""
    return load(environ or {}, flags or {}, toml, MACHINE)


def refusal(
    environ: dict[str, str] | None = None, flags: dict[str, object] | None = None, toml: str = ""
) -> str:
    """Return the message with which these sources are refused."""
    with pytest.raises(RoostError) as caught:
        loaded(environ, flags, toml)
    assert caught.value.failure.reason == "bad_request"
    return caught.value.failure.message


def test_defaults_are_those_of_the_brief() -> None:
    """With no source, the documented defaults hold and say so."""
    result = loaded()
    settings = result.settings
    assert (settings.host, settings.port, settings.home) == ("127.0.0.1", 7878, "/srv/roost")
    assert (settings.slots, settings.max_in_flight, settings.ctx) == (4, 4, 4096)
    assert (settings.queue_length, settings.queue_wait_s) == (64, 60.0)
    assert (settings.upstream_max_in_flight, settings.upstream_queue_length) == (2, 0)
    assert set(result.origins.values()) == {"default"}


def test_sources_beat_each_other_in_order() -> None:
    """Flag over variable over file over default, and the origin names the winner."""
    file, variable = "[queue]\nlength = 1\n", {"ROOST_QUEUE_LENGTH": "2"}
    flag: dict[str, object] = {"queue_length": "3"}
    results = [loaded(toml=file), loaded(variable, toml=file), loaded(variable, flag, file)]
    assert [r.settings.queue_length for r in results] == [1, 2, 3]
    assert [r.origins["queue.length"] for r in results] == [
        "queue.length in the settings file",
        "ROOST_QUEUE_LENGTH",
        "--queue-length",
    ]


def test_flags_that_were_not_given_do_not_count() -> None:
    """None in a namespace, a verb's own arguments and an empty variable are no values."""
    result = loaded({"ROOST_PORT": ""}, {"port": None, "model": "x.gguf"})
    assert result.settings.port == 7878


@pytest.mark.parametrize(("cores", "slots"), [(1, 2), (3, 2), (4, 4), (64, 4)])
def test_slots_follow_the_cores(cores: int, slots: int) -> None:
    """Zero slots means 4, or 2 on a small machine, and in-flight follows the slots."""
    settings = load({}, {}, "", Machine(cores, "/srv/roost")).settings
    assert (settings.slots, settings.max_in_flight) == (slots, slots)
    assert load({}, {"slots": "7"}, "", Machine(cores, "/")).settings.max_in_flight == 7


def test_upstream_limits_follow_the_general_ones_once_these_are_set() -> None:
    """The older name of the limit reaches --upstream mode; its own name is stronger."""
    result = loaded({"ROOST_MAX_INFLIGHT": "5", "ROOST_QUEUE_LENGTH": "9"})
    assert result.settings.max_in_flight == 5
    assert result.settings.upstream_max_in_flight == 5
    assert result.settings.upstream_queue_length == 9
    assert result.origins["upstream.max_in_flight"] == "ROOST_MAX_INFLIGHT"
    own = loaded({"ROOST_MAX_INFLIGHT": "5", "ROOST_UPSTREAM_MAX_IN_FLIGHT": "1"})
    assert own.settings.upstream_max_in_flight == 1


def test_every_type_is_read_from_text_and_from_the_file() -> None:
    """Numbers, switches, words and lists read alike from both kinds of source."""
    text = {
        "ROOST_SLOTS": " 3 ",
        "ROOST_QUEUE_WAIT_S": "1.5",
        "ROOST_STRICT": "Yes",
        "ROOST_ALLOWED_HOSTS": "a.example, b.example,",
        "ROOST_LOG_LEVEL": "debug",
    }
    file = 'slots = 3\nstrict = true\nallowed_hosts = ["a.example", "b.example"]\n'
    file += 'log_level = "debug"\n[queue]\nwait_s = 1.5\n'
    assert loaded(text).settings == loaded(toml=file).settings
    assert loaded(text).settings.allowed_hosts == ("a.example", "b.example")
    whole = loaded(toml="[queue]\nwait_s = 2\n").settings.queue_wait_s
    assert (whole, type(whole)) == (2.0, float)


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("ROOST_QUEUE_LENGTH", "-3", "a whole number of requests from 0 to 100000"),
        ("ROOST_QUEUE_LENGTH", "1.5", "a whole number"),
        ("ROOST_QUEUE_LENGTH", "many", "a whole number"),
        ("ROOST_QUEUE_LENGTH", "9" * 5000, "a whole number"),
        ("ROOST_QUEUE_WAIT_S", "nan", "a number of seconds, without a unit, from 0 to 86400"),
        ("ROOST_QUEUE_WAIT_S", "inf", "a number of seconds"),
        ("ROOST_QUEUE_WAIT_S", "10s", "without a unit"),
        ("ROOST_BODY_MAX_BYTES", "16MB", "a whole number of bytes"),
        ("ROOST_PORT", "65536", "from 0 to 65535"),
        ("ROOST_STRICT", "perhaps", "true or false"),
        ("ROOST_POLICY", "fastest", "one of predicted, least_inflight, weighted"),
    ],
)
def test_wrong_text_is_refused_by_name(variable: str, value: str, wanted: str) -> None:
    """The message names the variable, shows the value and says what is needed."""
    message = refusal({variable: value})
    assert message.startswith(f"{variable} is {value!r}"[:90])
    assert wanted in message
    flag = variable.removeprefix("ROOST_").lower()
    assert refusal(flags={flag: value}).startswith("--" + flag.replace("_", "-"))


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('port = "80"', "port in the settings file is '80'"),
        ("port = true", "port in the settings file is True"),
        ("port = 1.0", "port in the settings file is 1.0"),
        ("strict = 1", "true or false is needed"),
        ("log_level = 3", "one of info, debug, warning, error"),
        ('log_level = "info"\nlog_format = "xml"', "one of auto, json, human"),
        ("allowed_hosts = [1]", "a list of texts"),
        ("[queue]\nwait_s = nan", "queue.wait_s in the settings file is nan"),
        (
            "[queue]\nlengthx = 1",
            "queue.lengthx in the settings file is no setting: did you mean",
        ),
        ("[zzz]\nqqq = 1", "zzz.qqq in the settings file is no setting: remove it"),
        ("queue = 3", "queue in the settings file is no setting"),
        ('home = "x"', "use --home or ROOST_HOME"),
        ("= 3", "the settings file is not TOML"),
    ],
)
def test_wrong_file_is_refused_by_key(toml: str, message: str) -> None:
    """A wrong type, an unknown key and broken TOML are told apart."""
    assert message in refusal(toml=toml)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ROOST_LINK_SUSPECT_S": "6"}, "link.suspect_s < link.stale_s"),
        ({"ROOST_LINK_PING_S": "2"}, "link.ping_s < link.suspect_s"),
        ({"ROOST_TLS_CERT": "cert.pem"}, "only work together"),
        ({"ROOST_BASE_PATH": "llm"}, "must begin with /"),
        ({"ROOST_BASE_PATH": "/llm/"}, "not end with one"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    environ: dict[str, str], message: str
) -> None:
    """What is fine alone and senseless together is refused."""
    assert message in refusal(environ)


def test_a_secret_is_never_told() -> None:
    """A refused secret is masked in the message."""
    message = refusal(flags={"api_key": 12345})
    assert "12345" not in message
    assert "a text is needed" in message


def test_variables_nobody_reads_are_listed() -> None:
    """A mistyped variable is reported, a known, older or foreign one is not."""
    environ = {
        "ROOST_QUEUE_LENGTHX": "3",
        "ROOST_MAX_INFLIGHT": "3",
        "PATH": "/bin",
    }
    assert loaded(environ).unknown == ("ROOST_QUEUE_LENGTHX",)


def test_home_is_known_before_the_file_is_read() -> None:
    """Flag over variable over the user's folder."""
    variable: dict[str, str] = {"ROOST_HOME": "/from/variable"}
    assert home_of(variable, {"home": "/from/flag"}, MACHINE) == "/from/flag"
    assert home_of(variable, {}, MACHINE) == "/from/variable"
    assert home_of({}, {}, MACHINE) == "/srv/roost"


@given(st.sampled_from(NUMBERS), st.integers() | st.floats() | st.text(max_size=20))
def test_a_number_is_within_its_bounds_or_refused(row: Setting, value: object) -> None:
    """Whatever is written into a number's variable, nothing outside its bounds gets through."""
    text = str(value).replace("\0", "")
    try:
        settings = loaded({row.variable: text}).settings
    except RoostError as error:
        assert error.failure.reason == "bad_request"  # noqa: PT017 - both ways are fine
        return
    got = getattr(settings, row.attribute)
    assert row.least <= got <= row.most
    assert type(got) is type(row.default)


def test_a_link_message_has_room_for_the_largest_body() -> None:
    """A body that is let in must also fit through to the node that answers it."""
    flags = {"body_max_bytes": 1000, "link_message_max_bytes": 1999}
    with pytest.raises(RoostError) as caught:
        load({}, flags, "", MACHINE)
    assert caught.value.failure.param == "link.message_max_bytes"
    assert load({}, {**flags, "link_message_max_bytes": 2000}, "", MACHINE)


def test_everything_wrong_is_told_at_once() -> None:
    """Faults of all sources in one answer, each with its path; the right values are in force."""
    toml = 'port = "x"\nslots = 3\n[queue]\nlength = -1\nlengthx = 2\n[zzz]\nqqq = 1\n'
    loaded, faults = examine({"ROOST_CTX": "many"}, {"base_path": "llm"}, toml, MACHINE)
    assert {fault.setting for fault in faults} == {
        *("port", "queue.length", "queue.lengthx", "zzz.qqq", "ctx", "base_path"),
    }
    assert (loaded.settings.port, loaded.settings.slots, loaded.settings.ctx) == (7878, 3, 4096)
    message = refusal({"ROOST_CTX": "many"}, {"base_path": "llm"}, toml)
    assert message.startswith("6 settings are wrong:\n  ")
    assert all(f"\n  {fault.message}" in message for fault in faults)


def test_what_is_wrong_by_itself_is_no_measure_for_others() -> None:
    """A threshold that is no number does not make its neighbours wrong."""
    faults = examine({"ROOST_LINK_SUSPECT_S": "x", "ROOST_LINK_STALE_S": "1"}, {}, "", MACHINE)[1]
    assert [fault.setting for fault in faults] == ["link.suspect_s"]
    assert "is 'x'" in faults[0].message


def test_models_may_have_options_of_their_own() -> None:
    """In the file a table for each, elsewhere a list; both in the file count together."""
    toml = 'model_options = ["a.ctx=1"]\n[models.smol.options]\nctx = 8192\nslots = 2\n'
    toml += '[models."org/m:1.5".options]\nthreads = 3\n[models]\npoll_s = 3\n'
    settings = loaded(toml=toml).settings
    assert settings.model_options == (
        *("a.ctx=1", "smol.ctx=8192", "smol.slots=2", "org/m:1.5.threads=3"),
    )
    assert settings.models_poll_s == 3.0
    assert loaded({"ROOST_MODEL_OPTIONS": "smol.ctx=1, b.batch=2"}, toml=toml).settings[
        type(settings)._fields.index("model_options")
    ] == ("smol.ctx=1", "b.batch=2")


def test_options_of_models_may_be_words_and_lists() -> None:
    """Whatever holds signs of its own is read as it was meant, from a file and from a flag."""
    toml = '[models."a=b.c".options]\nadapters = ["x,y.gguf=0.5", "z"]\ncache_type_k = "q8_0"\n'
    found = loaded(toml=toml).settings.model_options
    assert [read_option(text) for text in found] == [
        ("a=b.c", "adapters", ("x,y.gguf=0.5", "z")),
        ("a=b.c", "cache_type_k", "q8_0"),
    ]
    flag = loaded({"ROOST_MODEL_OPTIONS": "m.projector=/a.b/c=d.gguf,m.gpu_layers=-1"}).settings
    assert [read_option(text) for text in flag.model_options] == [
        ("m", "projector", "/a.b/c=d.gguf"),
        ("m", "gpu_layers", -1),
    ]


@pytest.mark.parametrize(
    ("toml", "path", "why"),
    [
        ('[models.smol.options]\nctx = "8k"', "models.smol.options.ctx", "is '8k': a whole number"),
        ("[models.smol.options]\nctx = -1", "models.smol.options.ctx", "is -1: a whole number of"),
        ("[models.smol.options]\nctx = true", "models.smol.options.ctx", "is True"),
        ("[models.smol.options]\nbatch = 0", "models.smol.options.batch", "from 1 to 65536"),
        ("[models.smol.options]\nport = 1", "models.smol.options.port", "ctx, slots, batch"),
        ("[models.smol]\nctx = 1", "models.smol.ctx", "is no setting"),
        ("[models.smol]\noptions = 1", "models.smol.options", "is no setting"),
        ("[models.smol.options]\nmlock = 'yes'", "models.smol.options.mlock", "one of off, on"),
        ("[models.smol.options]\nadapters = 'x'", "models.smol.options.adapters", "a list of"),
        ("model_options = ['a.adapters=[1]']", "models.a.options.adapters", "a list of texts"),
        ("model_options = ['a.adapters=[']", "models.a.options.adapters", "a list of texts"),
        ("model_options = ['a.cache_type_k=q3']", "models.a.options.cache_type_k", "one of f16"),
        ("model_options = [1]", "model_options", "a list of texts is needed"),
        ('model_options = ["ctx=1"]', "model_options", "write MODEL.OPTION=VALUE"),
        ('model_options = ["a.ctx"]', "model_options", "write MODEL.OPTION=VALUE"),
        ('model_options = ["a.ctx=x"]', "models.a.options.ctx", "is 'x': a whole number"),
        ('model_options = ["a.ctx=-1"]', "models.a.options.ctx", "is '-1': a whole number"),
    ],
)
def test_a_wrong_option_of_a_model_has_its_path(toml: str, path: str, why: str) -> None:
    """The path is the one in the file, whichever way it was written."""
    (fault,) = examine({}, {}, toml, MACHINE)[1]
    assert fault.setting == path
    assert why in fault.message


def _text(row: Setting) -> str:
    """Write a value for a row that differs from its default."""
    if isinstance(row.default, bool):
        return str(not row.default).lower()
    if isinstance(row.default, (int, float)):
        return f"{row.least + 1 if row.default == row.least else row.least:g}"
    if row.choices:
        return row.choices[-1]
    return {"model_options": "a.ctx=1", "base_path": "/x"}.get(row.name, "x")


def _toml(row: Setting, text: str) -> str:
    """Write the same in the settings file."""
    plain = isinstance(row.default, (bool, int, float))
    value = text if plain else f'["{text}"]' if isinstance(row.default, tuple) else f'"{text}"'
    table, _, key = row.name.rpartition(".")
    return f"[{table}]\n{key} = {value}\n" if table else f"{key} = {value}\n"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_setting_is_a_flag_a_variable_and_a_line_of_the_file(row: Setting) -> None:
    """All three give it the same value, and each of its older names too."""
    text = _text(row)
    parser = argparse.ArgumentParser()
    add_flags(parser, [row.name])
    flags = vars(parser.parse_args([f"{row.flag}={text}"]))
    # Checks of several settings are another matter: one alone may well break those.
    examined = [examine({}, flags, "", MACHINE)]
    examined += [examine({name: text}, {}, "", MACHINE) for name in (row.variable, *row.aliases)]
    if row.name != "home":
        examined.append(examine({}, {}, _toml(row, text), MACHINE))
    found = {getattr(one.loaded.settings, row.attribute) for one in examined}
    assert len(found) == 1
    assert row.default not in found


def test_keys_may_be_tables_in_the_file() -> None:
    """A table and a text stand side by side, each as one text; a wrong list shows no secret."""
    file = "[[keys]]\nname = 'me'\nkey = 'sk-1'\nweight = 2\n"
    (text,) = load({}, {}, file, MACHINE).settings.keys
    assert text == '{"name": "me", "key": "sk-1", "weight": 2}'
    mixed = "keys = ['a:sk-2', {name = 'b', sha256 = 'ab'}]\n"
    assert load({}, {}, mixed, MACHINE).settings.keys == ("a:sk-2", '{"name": "b", "sha256": "ab"}')
    for wrong in ("keys = 'sk-3'", "keys = [1]", "[keys]\nname = 'sk-3'"):
        message = refusal(toml=wrong)
        assert "keys" in message
        assert "sk-3" not in message
