"""The official client asks a live roost for vectors, which are base64 to it by default."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from ollama import Client as Ollama
from ollama import ResponseError
from openai import BadRequestError, OpenAI

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import Typed, tiny
from tests.system.conftest import MODEL, Start

Client = Callable[[str], OpenAI]
TEXTS = ["naïve 😀", "歪", "שלום", "naïve 😀"]


def test_the_official_client_gets_vectors(
    start: Start, home: Path, tmp_path: Path, openai: Client
) -> None:
    """Texts and token ids, both encodings, sizes, and a model for texts beside that one.

    One process for all of it: what is promised is one way through the same parts.
    """
    source = tmp_path / "vectors.gguf"
    more = {"general.name": Typed("str", "vectors"), "llama.context_length": Typed("u32", 512)}
    source.write_bytes(tiny(**more))
    ModelStore(Home.open(home)).add_file(source, link=False)
    options = "vectors.mode=embed,vectors.vector_sizes=16 8"
    flags = ("--port", "0", "--backend", "scripted", "--model-options", options)
    url = start("serve", *flags).url()
    client = openai(url)
    create = client.embeddings.create

    found = create(model="vectors", input=TEXTS)
    assert [one.index for one in found.data] == [0, 1, 2, 3]
    assert found.data[0].embedding == found.data[3].embedding != found.data[1].embedding
    assert {len(one.embedding) for one in found.data} == {16}
    assert found.usage.prompt_tokens == sum(len(text.encode()) + 1 for text in TEXTS)

    plain = create(model="vectors", input=TEXTS, encoding_format="float")
    assert [one.embedding for one in plain.data] == [one.embedding for one in found.data]
    ids = [256, *TEXTS[0].encode()]
    (same,) = create(model="vectors", input=ids).data
    assert same.embedding == found.data[0].embedding
    (cut,) = create(model="vectors", input=TEXTS[0], dimensions=8).data
    length = sum(one * one for one in same.embedding[:8]) ** 0.5
    scaled = [struct.unpack("<f", struct.pack("<f", x / length))[0] for x in same.embedding[:8]]
    assert cut.embedding == pytest.approx(scaled, abs=1e-6)

    with pytest.raises(BadRequestError, match="Models here that can: `vectors`"):
        create(model=MODEL, input="x")
    with pytest.raises(BadRequestError, match="Models here that can: `tiny`"):
        client.completions.create(model="vectors", prompt="x")
    with pytest.raises(BadRequestError, match="16 or 8"):
        create(model="vectors", input="x", dimensions=4)
    with pytest.raises(BadRequestError, match="Input 1 has"):
        create(model="vectors", input=["x", "y" * 513])

    with Ollama(host=url) as other:
        told = other.embed("vectors", TEXTS)
        exact = [pytest.approx(one.embedding, abs=1e-6) for one in found.data]
        assert [list(one) for one in told.embeddings] == exact
        assert told.prompt_eval_count == found.usage.prompt_tokens
        assert list(other.embeddings("vectors", TEXTS[0]).embedding) == exact[0]
        assert other.show("vectors").capabilities == ["embedding"]
        with pytest.raises(ResponseError, match="Input 0 has"):
            other.embed("vectors", "y" * 513, truncate=True)
