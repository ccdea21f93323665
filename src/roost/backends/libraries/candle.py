"""VALUE: the backend `candle`: GGUF and safetensors on Candle, through mistral.rs.

No sessions and no prefix cache are claimed: the library's own cache of prefixes is one for all who
ask, and cannot be told who may have whose. Its dice are its own as well, so a seed is none.
"""

from __future__ import annotations

from roost.backends.hostable import Library
from roost.core.model import Capabilities

LIBRARY = Library(
    name="candle",
    title="Candle",
    loader="roost.backends.libraries.candle_engine:load",
    capabilities=Capabilities(
        chat=True,
        completion=True,
        streaming=True,
        concurrent_streams=True,
        cancel=True,
        logit_bias=True,
        logprobs=True,
        exact_token_count=True,
        replay=True,
    ),
    imports=("mistralrs", "tokenizers"),
    extra="candle",
)
