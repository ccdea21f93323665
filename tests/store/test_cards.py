"""Cards are installed as models are, from this machine alone, and say what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.backends.card_file import read_key
from roost.core.card import Once, Output, Remote, Runner, is_card, read_card
from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.registry import Incoming, ModelStore

CARD = """
backend = "command"
argv = ["/opt/runner", "--quiet"]
path = "/models/phi3"
ctx = 4096
bos = "<s>"
control_tokens = ["<s>"]
"""


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """Give an empty store."""
    return ModelStore(Home.open(tmp_path / "home"))


def written(folder: Path, text: str) -> Path:
    """Write a card."""
    path = folder / "Phi3.toml"
    path.write_text(text)
    return path


def test_a_card_is_read() -> None:
    """Every field is taken, and what is not said stays open."""
    argv = ("/opt/runner", "--quiet")
    card = Runner(argv, 4096, "/models/phi3", bos="<s>", control_tokens=("<s>",))
    assert read_card(CARD.encode()) == card


@pytest.mark.parametrize("link", [False, True])
def test_a_card_is_installed_as_a_model(store: ModelStore, tmp_path: Path, link: bool) -> None:
    """Its manifest says what serves it; without a template it is for completions alone."""
    path = written(tmp_path, CARD)
    manifest = store.add_file(path, link=link)
    assert (manifest.id, manifest.format, manifest.ctx_train) == ("phi3", "command", 4096)
    assert (manifest.chat_template, manifest.tasks) == (None, ("completion",))
    assert (manifest.path == str(path)) is link
    assert store.list() == (manifest,)
    assert store.verify("phi3").verdict == "good"


def test_one_with_a_template_chats(store: ModelStore, tmp_path: Path) -> None:
    """The template is the manifest's, rendered as any other one."""
    manifest = store.add_file(written(tmp_path, CARD + 'chat_template = "x"'), link=False)
    assert manifest.chat_template == "x"
    assert manifest.tasks == ("chat", "completion")


def test_a_card_that_changes_is_another_model(store: ModelStore, tmp_path: Path) -> None:
    """A linked card that is edited has another digest, so its runtimes are others too."""
    path = written(tmp_path, CARD)
    before = store.add_file(path, link=True)
    path.write_text(CARD.replace("4096", "2048"))
    after = store.get("phi3")
    assert after.ctx_train == 2048
    assert after.digest != before.digest


def test_cards_from_elsewhere_are_refused(store: ModelStore, tmp_path: Path) -> None:
    """A card names a program, so none is taken out of a package or from a hub."""
    for source in ("hf:org/repo/phi3.gguf", "pypi:phi3==1"):
        part = written(tmp_path, CARD)
        with pytest.raises(RoostError, match="has to lie on this machine"):
            store.install(Incoming((part,), "phi3.gguf", source))
    assert store.list() == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('backend = "command\n', "no TOML"),
        ('backend = "abacus"\nctx = 9', "'abacus'"),
        ('backend = "command"\nargv = []\nctx = 9', "argv"),
        ('backend = "command"\nargv = ["x"]', "ctx"),
        ('backend = "command"\nargv = ["x"]\nctx = 1', "ctx"),
        ('backend = "command"\nargv = ["x"]\nctx = 9\npath = "here"', "path"),
        ('backend = "command"\nargv = ["x"]\nctx = 9\nkey = "y"', "key"),
        ('backend = "command"\nargv = ["x"]\nctx = 9\nbos = "\ud800"', "no TOML"),
        ('backend = "openai_http"\nurl = "http://a..b/v1"\nctx = 9', "url is http"),
        ('backend = "vllm"\nhost = "a..b"\nctx = 9', "host is a name"),
    ],
)
def test_what_is_wrong_in_a_card_is_said(text: str, what: str) -> None:
    """The field at fault is named."""
    with pytest.raises(RoostError, match=what) as caught:
        read_card(text.encode("utf-8", "surrogatepass"))
    assert caught.value.failure.reason == "bad_request"


@pytest.mark.parametrize(
    ("head", "found"),
    [(b"backend = 1", True), (b"# one\nbackend=", True), (b"GGUF\0backend =", False), (b"", False)],
)
def test_cards_are_told_from_weights(head: bytes, found: bool) -> None:
    """By what they say, not by what they are called."""
    assert is_card(head) is found


def test_the_card_of_a_server_is_installed_too(store: ModelStore, tmp_path: Path) -> None:
    """Its context is the server's, whatever this machine would give a model of its own."""
    text = 'backend = "openai_http"\nurl = "https://host.example:8443/v1"\nctx = 131072'
    manifest = store.add_file(written(tmp_path, text), link=False)
    assert (manifest.format, manifest.ctx_train, manifest.remote) == ("openai_http", 131072, True)
    assert manifest.tasks == ("chat", "completion")


@pytest.mark.parametrize("url", ["ftp://host", "http://a b", "http://u:p@host/v1", "host:1", ""])
def test_addresses_are_plain(url: str) -> None:
    """No user part, no query, no other scheme."""
    text = f'backend = "openai_http"\nurl = "{url}"\nctx = 9'
    with pytest.raises(RoostError, match="url is http"):
        read_card(text.encode())


@pytest.mark.parametrize(
    ("content", "key"), [("sk-1\n", "sk-1"), ("", None), ("a b", None), ("ä", None), (None, None)]
)
def test_a_key_is_read_from_its_file(content: str | None, key: str | None, tmp_path: Path) -> None:
    """One line of plain characters; whatever else is there is refused without repeating it."""
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
    card = Remote("http://host", 9, key_file=str(path))
    if key is not None:
        assert read_key(card) == key
        return
    with pytest.raises(RoostError, match="key_file") as caught:
        read_key(card)
    assert caught.value.failure.reason == "load_failed"


def test_a_preset_says_the_rest() -> None:
    """All but the model; what the card says itself wins."""
    text = 'backend = "command_once"\npreset = "mlx"\npath = "/m"\nctx = 512'
    card = read_card(text.encode())
    assert isinstance(card, Once)
    assert (card.argv[0], card.path, card.output.after) == (
        "mlx_lm.generate",
        "/m",
        "=" * 10 + "\n",
    )
    own = read_card(f'{text}\nargv = ["/opt/mlx", "{{max_tokens}}"]'.encode())
    assert isinstance(own, Once)
    assert (own.argv, own.options) == (("/opt/mlx", "{max_tokens}"), card.options)
    seeing = read_card(text.replace("mlx", "mlx-vlm").encode())
    assert isinstance(seeing, Once)
    assert (seeing.argv[0], seeing.output) == ("mlx_vlm.generate", Output())
    with pytest.raises(RoostError, match="preset is one of: mlx, mlx-vlm"):
        read_card(text.replace("mlx", "abacus").encode())
    with pytest.raises(RoostError, match="preset"):
        read_card(b'backend = "command"\npreset = "mlx"\nargv = ["x"]\nctx = 512')


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('argv = ["x"]', "argv needs {max_tokens}"),
        ('argv = ["{path}", "{max_tokens}"]', "argv begins with the program"),
        ('argv = ["x", "{max_tokens}"]\noptions = {colour = ["x"]}', "colour"),
        ('argv = ["x", "{max_tokens}"]\noutput = {prompt_tokens = "n"}', "one {count}"),
        ('argv = ["x", "{max_tokens}"]\ntime_limit_s = 0', "time_limit_s"),
    ],
)
def test_what_is_wrong_in_a_card_of_a_program_that_answers_once_is_said(
    text: str, what: str
) -> None:
    """A program that cannot be limited is not served."""
    with pytest.raises(RoostError, match=what):
        read_card(f'backend = "command_once"\nctx = 9\n{text}'.encode())
