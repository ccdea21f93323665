"""VALUE: the backend `transformers`: folders of safetensors, on Hugging Face's library, hosted."""

from __future__ import annotations

from roost.backends.hostable import Library
from roost.core.model import Capabilities

LIBRARY = Library(
    name="transformers",
    title="Transformers",
    loader="roost.backends.libraries.transformers_engine:load",
    capabilities=Capabilities(
        chat=True,
        completion=True,
        embeddings=True,
        streaming=True,
        concurrent_streams=True,
        cancel=True,
        sessions=True,
        prefix_cache=True,
        logit_bias=True,
        logprobs=True,
        exact_token_count=True,
        replay=True,
        seed=True,
    ),
    imports=("transformers", "torch"),
    extra="transformers",
)
