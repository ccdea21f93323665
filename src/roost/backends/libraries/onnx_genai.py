"""VALUE: the backend `onnx_genai`: folders for ONNX Runtime's library for language models."""

from __future__ import annotations

from roost.backends.hostable import Library
from roost.core.model import Capabilities

LIBRARY = Library(
    name="onnx_genai",
    title="ONNX GenAI",
    loader="roost.backends.libraries.onnx_genai_engine:load",
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
    imports=("onnxruntime_genai", "tokenizers"),
    extra="onnx",
    builds={"onnxruntime-genai-cuda": "cuda"},
)
