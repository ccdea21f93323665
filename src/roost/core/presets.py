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

MLX_VLM: dict[str, object] = {
    "argv": [
        *("mlx_vlm.generate", "--model", "{path}", "--max-tokens", "{max_tokens}"),
        "--prompt={prompt}",
    ],
    "options": {
        "temperature": ["--temperature", "{value}"],
        "top_p": ["--top-p", "{value}"],
        "top_k": ["--top-k", "{value}"],
        "min_p": ["--min-p", "{value}"],
        "seed": ["--seed", "{value}"],
        "presence_penalty": ["--presence-penalty", "{value}"],
        "frequency_penalty": ["--frequency-penalty", "{value}"],
    },
}
"""MLX's command for models that see: it knows no other way to be given a prompt, puts the model's
own template around it, and writes its answer at once. More words would stand before its text, which
nothing marks there."""

PRESETS: dict[str, dict[str, object]] = {"mlx": MLX, "mlx-vlm": MLX_VLM}
