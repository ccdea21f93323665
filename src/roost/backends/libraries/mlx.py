"""VALUE: the backend `mlx`: folders of safetensors, MLX's own included, on Apple's library."""

from __future__ import annotations

from roost.backends.hostable import Library
from roost.core.model import Capabilities

LIBRARY = Library(
    name="mlx",
    title="MLX",
    loader="roost.backends.libraries.mlx_engine:load",
    capabilities=Capabilities(
        chat=True,
        completion=True,
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
    imports=("mlx_lm", "mlx", "tokenizers"),
    extra="mlx",
    builds={"mlx-metal": "metal", "mlx-cuda": "cuda"},
)
