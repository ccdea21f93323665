"""SHELL: Transformers in a hosted child: each slot has a cache of its own, steps are taken in turn.

`generate` decides for itself when it is done and what it keeps; here a step is one call of the
model, so that a run can be left between two tokens, a prompt is computed in batches, and a slot
keeps its cache for the next turn.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roost.backends.hosted.drawing import Logits, defaults_of
from roost.backends.hosted.engine import Bare, CannotLoad, Running
from roost.backends.hosted.frames import Load, Loaded, Run
from roost.backends.hosted.hf_texts import Framed, Texts
from roost.backends.hosted.stepping import Speaker, steps
from roost.backends.libraries.transformers_pooling import Pooling, pooling_of
from roost.core.model import ctx_within

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

CROPPABLE = "DynamicLayer"
"""The only kind of cache that may be cut back: others have forgotten, or mixed, what was before."""


class _Held:
    """What a slot holds: tokens, and the model's cache of exactly these; see `stepping.Held`."""

    def __init__(self, model: PreTrainedModel) -> None:
        import transformers

        self.tokens: list[int] = []
        self._model = model
        self._cache: object | None = None
        parameters = inspect.signature(model.forward).parameters
        self._keeps_one = "logits_to_keep" in parameters
        # Its name until version 5.24, and the one since.
        self._takes_cache = "cache" if "cache" in parameters else "past_key_values"
        self._new_cache = partial(transformers.DynamicCache, config=model.config)

    def back_to(self, size: int) -> int:
        """Cut the cache back, or begin a new one."""
        if size < len(self.tokens) and not (size and self._cropped(size)):
            size = 0
        if not size:
            self._cache = None
        del self.tokens[size:]
        return size

    def step(self, tokens: tuple[int, ...]) -> Logits:
        """Compute tokens behind what the slot holds."""
        import torch

        if self._cache is None:
            self._cache = self._new_cache()
        more: dict[str, object] = {self._takes_cache: self._cache}
        if self._keeps_one:
            more["logits_to_keep"] = 1
        ids = torch.tensor([tokens], device=self._model.device)
        with torch.inference_mode():
            out = self._model(input_ids=ids, use_cache=True, **more)
            logits: Logits = out.logits[0, -1].float().cpu().numpy()
        self.tokens += tokens
        return logits

    def _cropped(self, size: int) -> bool:
        layers = getattr(self._cache, "layers", ())
        if not layers or any(type(layer).__name__ != CROPPABLE for layer in layers):
            return False
        # Behind the class is a method that every such cache has; the library is not typed.
        getattr(self._cache, "crop")(size - len(self.tokens))  # noqa: B009
        return True


class TransformersEngine:
    """One model in memory."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, order: Load
    ) -> None:
        import transformers

        texts, ends = texts_of(tokenizer), ends_of(model, tokenizer)
        self._speaker = Speaker(texts, ends, defaults_of(model.generation_config), order.batch)
        self._slots = [_Held(model) for _ in range(order.slots)]
        config = model.config.get_text_config()
        self.loaded = Loaded(
            _ctx(order, config),
            int(config.vocab_size),
            texts.bos,
            texts.longest_bytes,
            f"transformers {transformers.__version__}",
        )

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece; see `engine.Engine`."""
        return self._speaker.texts.tokenize(piece, special=special)

    def run(self, job: Run) -> Running:
        """Compute the prompt, then speak; see `engine.Engine`."""
        return steps(job, self._slots[job.slot], self._speaker)


class TransformersVectors:
    """One model in memory; `loaded` is what is told of it."""

    def __init__(
        self, model: PreTrainedModel, texts: Framed, loaded: Loaded, pooling: Pooling
    ) -> None:
        self._model = model
        self._texts = texts
        self._pooling = pooling
        self.loaded = loaded

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece; see `engine.VectorEngine`."""
        return self._texts.tokenize(piece, special=special)

    def embed(self, batch: Sequence[Sequence[int]]) -> tuple[int, bytes]:
        """Make vectors; see `engine.VectorEngine`."""
        import torch

        longest = max(map(len, batch))
        ids = [[*one, *[0] * (longest - len(one))] for one in batch]
        marks = [[1] * len(one) + [0] * (longest - len(one)) for one in batch]
        place = self._model.device
        mask = torch.tensor(marks, device=place)
        with torch.inference_mode():
            out = self._model(input_ids=torch.tensor(ids, device=place), attention_mask=mask)
            pooled = _pooled(out.last_hidden_state.float(), mask, self._pooling)
            vectors = torch.nn.functional.normalize(pooled, dim=1).cpu().numpy()
        return vectors.shape[1], vectors.astype("<f4").tobytes()


def _pooled(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    import torch

    weights = mask.unsqueeze(-1).to(states.dtype)
    if pooling == "mean":
        return (states * weights).sum(dim=1) / weights.sum(dim=1)
    if pooling == "max":
        return states.masked_fill(weights == 0, -torch.inf).max(dim=1).values
    if pooling == "cls":
        return states[:, 0]
    last = mask.sum(dim=1) - 1
    return states[torch.arange(len(states), device=states.device), last]


def load(
    order: Load, on_progress: Callable[[float], None]
) -> TransformersEngine | TransformersVectors:
    """Load a folder; see `engine.Loader`. Memory tells how far it is while it is read."""
    on_progress(0.05)
    model, tokenizer = _model(order)
    on_progress(0.9)
    make = vectors_of if order.mode == "embed" else TransformersEngine
    return make(model, tokenizer, order)


def bare(order: Load) -> Bare:
    """Load a folder for the library's own loop; see `engine.Bare`."""
    import torch

    model, _ = _model(order)

    def say(prompts: Sequence[tuple[int, ...]], tokens: int, *, batch: bool) -> None:
        length = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
        for part in [prompts] if batch else [[prompt] for prompt in prompts]:
            ids = torch.tensor(part, device=model.device)
            with torch.inference_mode():
                model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **length)

    return say


def _model(order: Load) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    if order.threads:
        torch.set_num_threads(order.threads)
    folder = str(Path(order.path).parent)
    device = device_of(order.device)
    try:
        # Never code out of the folder, never anything from a hub.
        kept = {"local_files_only": True, "trust_remote_code": False}
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, **kept)
        dtype = getattr(torch, order.dtype) if order.dtype else "auto"
        embeds = order.mode == "embed"
        kind = transformers.AutoModel if embeds else transformers.AutoModelForCausalLM
        model, told = kind.from_pretrained(folder, dtype=dtype, output_loading_info=True, **kept)
    except (OSError, ValueError, KeyError, ImportError) as error:
        why = f"Transformers cannot load this folder ({type(error).__name__}); the log says more."
        raise CannotLoad(why) from error
    # The library draws these at random. Vectors need no pooler, and folders may have none.
    missing = [name for name in told["missing_keys"] if not (embeds and "pooler" in name)]
    if missing:
        raise CannotLoad(f"The folder lacks {len(missing)} of the model's weights: get it again.")
    if device == "cpu" and not order.dtype and model.dtype == torch.float16:
        # Processors compute it in software, where they can at all.
        model = model.to(torch.bfloat16)
    return model.to(device).eval(), tokenizer


def vectors_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, order: Load
) -> TransformersVectors:
    """Let a model make vectors as its folder says; raises `CannotLoad`."""
    import transformers

    try:
        texts = Framed(tokenizer.backend_tokenizer.to_str())
    except ValueError as error:
        raise CannotLoad(str(error)) from None
    loaded = Loaded(
        *(_ctx(order, model.config), int(model.config.vocab_size), texts.before),
        build=f"transformers {transformers.__version__}",
        eos=texts.behind,
    )
    return TransformersVectors(model, texts, loaded, pooling_of(Path(order.path).parent))


def _ctx(order: Load, config: PretrainedConfig) -> int:
    return ctx_within(order.ctx, int(getattr(config, "max_position_embeddings", 0) or 0))


def device_of(wanted: str) -> str:
    """Choose where to compute; raises `CannotLoad` for what is not there."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not wanted:
        return next((name for name, found in there.items() if found), "cpu")
    if wanted != "cpu" and not there.get(wanted, False):
        raise CannotLoad(f"There is no {wanted} device for torch here: see --device.")
    return wanted


def texts_of(tokenizer: PreTrainedTokenizerBase) -> Texts:
    """Take the fast tokeniser out of a tokeniser; raises `CannotLoad`."""
    first = tokenizer("").input_ids[:1]
    bos = tuple(first) if first == [tokenizer.bos_token_id] else ()
    try:
        return Texts(tokenizer.backend_tokenizer.to_str(), bos)
    except ValueError as error:
        raise CannotLoad(str(error)) from None


def ends_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """List the tokens that end an answer: what the model's files say, in either place."""
    told = model.generation_config.eos_token_id if model.generation_config else None
    many = told if isinstance(told, list) else [told]
    return frozenset(one for one in (*many, tokenizer.eos_token_id) if one is not None)


def convert(gguf: str, folder: str) -> None:
    """Write a GGUF as a folder of safetensors with tokeniser and template; see `roost convert`.

    What it was quantised to is kept; it only takes more room.
    """
    import torch
    import transformers

    where, file = str(Path(gguf).parent), Path(gguf).name
    read = {"gguf_file": file, "local_files_only": True}
    found = transformers.AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32, **read)
    config = found.config
    if hasattr(config, "quantization_config"):
        # The numbers are whole again, and a reader would look for a quantisation.
        del config.quantization_config
    rope = getattr(config, "rope_parameters", None) or {}
    if "rope_theta" in rope:
        # Here since version 5; other engines read it where it was before.
        config.rope_theta = rope["rope_theta"]
    whole = type(found)(config)
    whole.load_state_dict(found.state_dict())
    whole.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(where, **read).save_pretrained(folder)


if __name__ == "__main__":
    convert(*sys.argv[1:])
