"""VALUE: cards of well-known programs that answer one request and end, all but the model."""

from __future__ import annotations

MLX: dict[str, object] = {
    "argv": [
        *("mlx_lm.generate", "--model", "{path}", "--prompt", "-", "--ignore-chat-template"),
        *("--max-tokens", "{max_tokens}"),
    ],
    "options": {
        "temperature": ["--temp", "{value}"],
        "top_p": ["--top-p", "{value}"],
        "top_k": ["--top-k", "{value}"],
        "min_p": ["--min-p", "{value}"],
        "seed": ["--seed", "{value}"],
    },
    "output": {
        "after": "==========\n",
        "before": "\n==========\n",
        "prompt_tokens": "Prompt: {count} tokens",
        "completion_tokens": "Generation: {count} tokens",
    },
}
"""MLX's own command: it says where its text begins and ends, and counts behind it."""

PRESETS: dict[str, dict[str, object]] = {"mlx": MLX}
