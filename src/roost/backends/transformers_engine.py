"""SHELL: Transformers in a hosted child: each slot has a cache of its own, steps are taken in turn.

`generate` decides for itself when it is done and what it keeps; here a step is one call of the
model, so that a run can be left between two tokens, a prompt is computed in batches, and a slot
keeps its cache for the next turn.
"""

from __future__ import annotations

import inspect
import random
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from roost.backends.hf_vocabulary import Tokenizer, token_bytes
from roost.backends.host_engine import CannotLoad, Running
from roost.backends.host_frames import Began, Filled, Load, Loaded, Run, Said
from roost.core.events import TokenChoice, TokenLogprob
from roost.core.request import Sampling

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SEED_MAX = 2**32
CROPPABLE = "DynamicLayer"
"""The only kind of cache that may be cut back: others have forgotten, or mixed, what was before."""


class Texts:
    """The tokeniser: texts to tokens with special ones or without, and tokens to bytes."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        from tokenizers import Tokenizer as Fast

        described = tokenizer.backend_tokenizer.to_str()
        self._special, self._plain = Fast.from_str(described), Fast.from_str(described)
        self._plain.encode_special_tokens = True
        for one in (self._special, self._plain):
            one.no_padding()
            one.no_truncation()
        told = msgspec.json.decode(described, type=Tokenizer)
        try:
            self.bytes_of = token_bytes(told, self._special.get_vocab(with_added_tokens=False))
        except ValueError as error:
            raise CannotLoad(f"The model has {error}, which cannot be streamed.") from None
        first = tokenizer("").input_ids[:1]
        self.bos = tuple(first) if first == [tokenizer.bos_token_id] else ()

    def tokenize(self, piece: str, *, special: bool) -> list[int]:
        """Tokenise a piece and add nothing."""
        fast = self._special if special else self._plain
        ids: list[int] = fast.encode(piece, add_special_tokens=False).ids
        return ids


class _Slot:
    """What a slot holds: tokens, and the model's cache of exactly these."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.cache: object | None = None

    def keep(self, tokens: tuple[int, ...]) -> int:
        """Cut back to what is a beginning of these tokens, all but the last; give its length."""
        pairs = zip(self.tokens, tokens[:-1], strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if common < len(self.tokens) and not self._cropped(common):
            common = 0
        if not common:
            self.cache = None
        del self.tokens[common:]
        return common

    def _cropped(self, size: int) -> bool:
        layers = getattr(self.cache, "layers", ())
        if not layers or any(type(layer).__name__ != CROPPABLE for layer in layers):
            return False
        # Behind the class is a method that every such cache has; the library is not typed.
        getattr(self.cache, "crop")(size - len(self.tokens))  # noqa: B009
        return True


class TransformersEngine:
    """One model in memory."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, order: Load
    ) -> None:
        import transformers

        self._model = model
        self._batch = order.batch
        self._texts = Texts(tokenizer)
        self._slots = [_Slot() for _ in range(order.slots)]
        self._ends = ends_of(model, tokenizer)
        self._draws = defaults_of(model.generation_config)
        parameters = inspect.signature(model.forward).parameters
        self._keeps_one = "logits_to_keep" in parameters
        # Its name until version 5.24, and the one since.
        self._takes_cache = "cache" if "cache" in parameters else "past_key_values"
        self._new_cache = partial(transformers.DynamicCache, config=model.config)
        config = model.config.get_text_config()
        most = int(getattr(config, "max_position_embeddings", 0) or order.ctx)
        longest = max(map(len, self._texts.bytes_of.values()), default=0)
        self.loaded = Loaded(
            min(order.ctx or most, most),
            int(config.vocab_size),
            self._texts.bos,
            longest,
            f"transformers {transformers.__version__}",
        )

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece; see `host_engine.Engine`."""
        return self._texts.tokenize(piece, special=special)

    def run(self, job: Run) -> Running:
        """Compute the prompt, then speak; see `host_engine.Engine`."""
        slot = self._slots[job.slot]
        if not job.reuse:
            slot = self._slots[job.slot] = _Slot()
        yield Began(job.run, slot.keep(job.tokens))
        logits = None
        for part in self._parts(job, len(slot.tokens)):
            logits = self._step(slot, part)
            yield Filled(job.run, len(slot.tokens))
        assert logits is not None, "at least one token is always computed"
        said = job.tokens[len(job.tokens) - job.said :]
        draw = Draw(job.sampling, self._draws, said, job.top_logprobs)
        barred = self._ends if job.ignore_eos else frozenset()
        while True:
            token, choice = draw.next(logits, barred, self._bytes)
            yield Said(job.run, token, self._bytes(token), choice=choice)
            if token in self._ends:
                return "stop"
            logits = self._step(slot, (token,))

    def _bytes(self, token: int) -> bytes:
        return self._texts.bytes_of.get(token, b"")

    def _parts(self, job: Run, done: int) -> Iterator[tuple[int, ...]]:
        """Cut what is to be computed into steps: batches of the prompt, what was said one by one.

        A batch has other roundings than single tokens have, by enough to tip a close decision.
        """
        prompt = max(done, len(job.tokens) - job.said)
        for at in range(done, prompt, self._batch):
            yield job.tokens[at : min(at + self._batch, prompt)]
        for token in job.tokens[prompt:]:
            yield (token,)

    def _step(self, slot: _Slot, tokens: tuple[int, ...]) -> torch.Tensor:
        """Compute tokens behind what the slot holds; give the logits of what comes next."""
        import torch

        if slot.cache is None:
            slot.cache = self._new_cache()
        more: dict[str, object] = {self._takes_cache: slot.cache}
        if self._keeps_one:
            more["logits_to_keep"] = 1
        ids = torch.tensor([tokens], device=self._model.device)
        with torch.inference_mode():
            out = self._model(input_ids=ids, use_cache=True, **more)
            logits: torch.Tensor = out.logits[0, -1].float()
        slot.tokens += tokens
        return logits


class Defaults(msgspec.Struct, frozen=True):
    """How a model is to be sampled where a client says nothing; 0 and 1 switch a cut off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0


def defaults_of(told: object) -> Defaults:
    """Take the defaults out of what a model's own files say; greedy ones are for benchmarks."""
    if not getattr(told, "do_sample", False):
        return Defaults()
    stated = {
        name: getattr(told, name)
        for name in Defaults.__struct_fields__
        if getattr(told, name, None) is not None
    }
    return msgspec.convert(stated, Defaults, strict=False)


class Draw:
    """Draws the tokens of one run; `said` are those that it begins behind.

    One number is drawn per token, whatever the sampling is: so a run that goes on behind tokens
    that were said elsewhere draws what an uncut one would have.
    """

    def __init__(
        self, sampling: Sampling, defaults: Defaults, said: Collection[int], top: int | None
    ) -> None:
        self._sampling = sampling
        self._top = top
        self._temperature = _or(sampling.temperature, defaults.temperature)
        self._top_p = _or(sampling.top_p, defaults.top_p)
        self._top_k = int(_or(sampling.top_k, defaults.top_k))
        self._min_p = _or(sampling.min_p, defaults.min_p)
        self._counts = Counter(said)
        seed = secrets.randbelow(SEED_MAX) if sampling.seed is None else sampling.seed
        self._dice = random.Random(seed)
        for _ in said:
            self._dice.random()

    def next(
        self, logits: torch.Tensor, barred: Collection[int], raw: Callable[[int], bytes]
    ) -> tuple[int, TokenChoice | None]:
        """Draw a token, none of `barred`, and say how likely it was where that was asked for."""
        logits = logits.cpu()
        if barred:
            logits = logits.clone()
            logits[list(barred)] = float("-inf")
        token = self._drawn(logits)
        self._counts[token] += 1
        return token, None if self._top is None else _choice(logits, token, self._top, raw)

    def _drawn(self, logits: torch.Tensor) -> int:
        rolled = self._dice.random()
        logits = self._penalised(logits)
        if self._temperature == 0:
            return int(logits.argmax())
        parts, tokens = self._kept((logits / self._temperature).softmax(-1))
        sums = parts.cumsum(0)
        place = int((sums < rolled * float(sums[-1])).sum())
        return int(tokens[min(place, len(tokens) - 1)])

    def _kept(self, parts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sort by likelihood and cut off what is too unlikely; at least one is left."""
        size = min(self._top_k, len(parts)) if self._top_k else len(parts)
        parts, tokens = parts.topk(size)
        before = parts.cumsum(0) - parts
        good = (before < self._top_p) & (parts >= self._min_p * parts[0])
        good[0] = True
        return parts[good], tokens[good]

    def _penalised(self, logits: torch.Tensor) -> torch.Tensor:
        presence = _or(self._sampling.presence_penalty, 0.0)
        frequency = _or(self._sampling.frequency_penalty, 0.0)
        if not (presence or frequency) or not self._counts:
            return logits
        logits = logits.clone()
        for token, count in self._counts.items():
            logits[token] -= presence + frequency * count
        return logits


def _or(wanted: float | None, default: float) -> float:
    return default if wanted is None else wanted


def _choice(logits: torch.Tensor, token: int, top: int, raw: Callable[[int], bytes]) -> TokenChoice:
    logprobs = logits.log_softmax(-1)
    best = logprobs.topk(top).indices.tolist() if top else []
    likely = [_likely(float(logprobs[one]), raw(one)) for one in (token, *best)]
    return TokenChoice(likely[0], tuple(likely[1:]))


def _likely(logprob: float, raw: bytes) -> TokenLogprob:
    return TokenLogprob(raw.decode("utf-8", "replace"), min(0.0, logprob), raw)


def load(order: Load, on_progress: Callable[[float], None]) -> TransformersEngine:
    """Load a folder; see `host_engine.Loader`. Memory tells how far it is while it is read."""
    import torch
    import transformers

    on_progress(0.05)
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
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **kept)
    except (OSError, ValueError, KeyError, ImportError) as error:
        why = f"Transformers cannot load this folder ({type(error).__name__}); the log says more."
        raise CannotLoad(why) from error
    on_progress(0.9)
    if device == "cpu" and not order.dtype and model.dtype == torch.float16:
        # Processors compute it in software, where they can at all.
        model = model.to(torch.bfloat16)
    return TransformersEngine(model.to(device).eval(), tokenizer, order)


def device_of(wanted: str) -> str:
    """Choose where to compute; raises `CannotLoad` for what is not there."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not wanted:
        return next((name for name, found in there.items() if found), "cpu")
    if not there.get(wanted, True):
        raise CannotLoad(f"There is no {wanted} device for torch here: see --device.")
    return wanted


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
