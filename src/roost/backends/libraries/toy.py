"""VALUE: the backend `toy`: a library without dependencies that is hosted as real ones are.

For tests, for demonstrations without a model, and as the shortest example of a hosted library.
"""

from __future__ import annotations

from roost.backends.hostable import Library
from roost.core.model import Capabilities

LIBRARY = Library(
    name="toy",
    title="Toy",
    loader="roost.backends.libraries.toy_engine:load",
    capabilities=Capabilities(
        chat=True,
        completion=True,
        embeddings=True,
        streaming=True,
        concurrent_streams=True,
        cancel=True,
        sessions=True,
        prefix_cache=True,
        logprobs=True,
        exact_token_count=True,
        replay=True,
        seed=True,
    ),
)
