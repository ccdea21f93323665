"""SHELL: MLX in a hosted child: each slot has a cache of its own, steps are taken in turn.

The library's own generators draw for themselves and compute a token ahead; here a step is one call
of the model, so that a run can be left between two tokens and its slot holds what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from roost.backends.hosted.drawing import Logits, defaults_of, logits_of
from roost.backends.hosted.engine import CannotLoad, Running
from roost.backends.hosted.frames import Load, Loaded, Run
from roost.backends.hosted.hf_folder import (
    Config,
    ends_of,
    read_config,
    read_generation,
    read_texts,
)
from roost.backends.hosted.stepping import Speaker, steps
from roost.core.model import ctx_within

if TYPE_CHECKING:
    import mlx.nn

DTYPES = ("bfloat16", "float16", "float32")
DEVICES = {"": "", "cpu": "cpu", "mps": "gpu", "cuda": "gpu"}
"""Devices by the names that the library has for them."""


class _Held:
    """What a slot holds: tokens, and the model's cache of exactly these; see `stepping.Held`."""

    def __init__(self, model: mlx.nn.Module) -> None:
        self.tokens: list[int] = []
        self._model = model
        self._cache: list[object] | None = None

    def back_to(self, size: int) -> int:
        """Cut the cache back, or begin a new one where it cannot be: windows have forgotten."""
        from mlx_lm.models.cache import can_trim_prompt_cache, trim_prompt_cache

        surplus = len(self.tokens) - size
        if surplus and size and self._cache and can_trim_prompt_cache(self._cache):
            trim_prompt_cache(self._cache, surplus)
        elif surplus or not size:
            size, self._cache = 0, None
        del self.tokens[size:]
        return size

    def step(self, tokens: tuple[int, ...]) -> Logits:
        """Compute tokens behind what the slot holds.

        Of a batch only the last token's logits are wanted, and those of a whole batch cost a third
        of it: so the others are computed without.
        """
        import mlx.core as mx
        from mlx_lm.models.cache import make_prompt_cache

        if self._cache is None:
            self._cache = make_prompt_cache(self._model)
        if len(tokens) > 1:
            self._model(mx.array([tokens[:-1]]), cache=self._cache)
            mx.eval([getattr(layer, "state") for layer in self._cache])  # noqa: B009
        found = self._model(mx.array([tokens[-1:]]), cache=self._cache)[0, -1]
        logits = logits_of(found.astype(mx.float32))
        self.tokens += tokens
        return logits


class MlxEngine:
    """One model in memory."""

    def __init__(self, model: mlx.nn.Module, config: Config, folder: Path, order: Load) -> None:
        import mlx_lm

        texts, told = read_texts(folder), read_generation(folder)
        self._speaker = Speaker(texts, ends_of(told, config), defaults_of(told), order.batch)
        self._slots = [_Held(model) for _ in range(order.slots)]
        ctx = ctx_within(order.ctx, config.max_position_embeddings)
        build = f"mlx-lm {mlx_lm.__version__}"
        self.loaded = Loaded(ctx, config.vocab_size, texts.bos, texts.longest_bytes, build)

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece; see `engine.Engine`."""
        return self._speaker.texts.tokenize(piece, special=special)

    def run(self, job: Run) -> Running:
        """Compute the prompt, then speak; see `engine.Engine`."""
        return steps(job, self._slots[job.slot], self._speaker)


def load(order: Load, on_progress: Callable[[float], None]) -> MlxEngine:
    """Load a folder; see `engine.Loader`. Memory tells how far it is while it is read."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    on_progress(0.05)
    folder = Path(order.path).parent
    _choose_device(order.device)
    if order.dtype and order.dtype not in DTYPES:
        raise CannotLoad(f"MLX computes in {', '.join(DTYPES)}: see --dtype.")
    try:
        config = read_config(folder)
        # Never code out of the folder: that is its default, and said for whoever reads this.
        model, _ = load_model(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        why = f"MLX cannot load this folder ({type(error).__name__}); the log says more."
        raise CannotLoad(why) from error
    if order.dtype:
        model.set_dtype(getattr(mx, order.dtype))
    mx.eval(model.parameters())
    on_progress(0.9)
    return MlxEngine(model, config.text_config or config, folder, order)


def _choose_device(wanted: str) -> None:
    """Compute there; raises `CannotLoad` for what is not there."""
    import mlx.core as mx

    name = DEVICES.get(wanted)
    there = mx.metal.is_available() or mx.cuda.is_available()
    if name is None or (name == "gpu" and not there):
        raise CannotLoad(f"There is no {wanted} device for MLX here: see --device.")
    if name:
        mx.set_default_device(getattr(mx, name))
