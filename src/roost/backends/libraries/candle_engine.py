"""SHELL: Candle in a hosted child, through mistral.rs, which schedules several runs by itself.

It takes texts and says texts. So that both are exact to the token, it is given a tokeniser whose
texts are lists of tokens (`candle_words`); the model's own one works on this side.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from roost.backends.hosted.drawing import Defaults, defaults_of, likely, wanted_or
from roost.backends.hosted.engine import CannotLoad, Running
from roost.backends.hosted.frames import Began, Filled, Load, Loaded, Run, Said
from roost.backends.hosted.gguf_vocabulary import vocabulary_of
from roost.backends.hosted.hf_folder import (
    ends_of,
    read_config,
    read_generation,
    read_texts,
)
from roost.backends.hosted.hf_texts import Texts
from roost.backends.hosted.hf_vocabulary import Tokenizer
from roost.backends.libraries.candle_words import Words, numbered
from roost.core.events import TokenChoice
from roost.core.model import ctx_within
from roost.errors import RoostError
from roost.text.gguf import read_header

if TYPE_CHECKING:
    import mistralrs

DTYPES = {"": "Auto", "bfloat16": "BF16", "float16": "F16", "float32": "F32"}
BARRED = -100.0
_FIRST_SHARD = re.compile(r"(.+)-00001-of-(\d{5})\.gguf")
SPIN_LIMIT = 1
"""How often a thread looks for the others before it sleeps; many times take the cores from them."""


class _Model(NamedTuple):
    """A model before its weights are read: tokeniser, the library's words, ends, defaults."""

    which: mistralrs.Which
    texts: Texts
    words: Words
    ends: frozenset[int]
    defaults: Defaults
    vocab_size: int


class CandleEngine:
    """One model in memory."""

    def __init__(self, runner: mistralrs.Runner, model: _Model, order: Load) -> None:
        self._runner = runner
        # The library refuses a request while it takes another one's.
        self._asking = threading.Lock()
        self._model = model
        ctx = ctx_within(order.ctx, runner.max_sequence_length() or 0)
        texts = model.texts
        self.loaded = Loaded(
            *(ctx, model.vocab_size, texts.bos, texts.longest_bytes),
            f"mistralrs {version('mistralrs')}",
        )

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece; see `engine.Engine`."""
        return self._model.texts.tokenize(piece, special=special)

    def stream(self, job: Run) -> Running:
        """Say what the library says; see `engine.ParallelEngine`.

        It is told to pass over every end: which token that is, it would not say.
        """
        _, texts, words, ends, _, _ = self._model
        yield Began(job.run)
        said = 0
        asked = self._asked(job)
        with self._asking:
            chunks = self._runner.send_chat_completion_request(asked)
        # Whoever closes this generator drops the chunks, and the library stops at the next one.
        for chunk in chunks:
            (choice,) = chunk.choices
            token = words.token(choice.delta.content)
            if not said:
                yield Filled(job.run, len(job.tokens))
            said += 1
            likely = choice.logprobs if job.top_logprobs is not None else None
            told = _choice(likely, token, texts) if likely else None
            yield Said(job.run, token, texts.raw(token), choice=told)
            if token in ends:
                return "stop"
        if said < job.limit:
            raise RuntimeError("the library ended an answer before its limit")
        return "length"

    def _asked(self, job: Run) -> mistralrs.ChatCompletionRequest:
        import mistralrs

        sampling, defaults = job.sampling, self._model.defaults
        biases = dict(sampling.logit_bias)
        if job.ignore_eos:
            biases |= dict.fromkeys(self._model.ends, BARRED)
        top_p = wanted_or(sampling.top_p, defaults.top_p)
        # Nothing but the likeliest is left of it, which the library does not take for a share.
        top_k = 1 if top_p == 0 else int(wanted_or(sampling.top_k, defaults.top_k))
        return mistralrs.ChatCompletionRequest(
            messages=self._model.words.text(job.tokens),
            model="default",
            stream=True,
            max_tokens=job.limit,
            ignore_eos=True,
            temperature=wanted_or(sampling.temperature, defaults.temperature),
            top_p=top_p if 0 < top_p < 1 else None,
            top_k=top_k or None,
            min_p=wanted_or(sampling.min_p, defaults.min_p) or None,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            logit_bias=biases or None,
            logprobs=job.top_logprobs is not None,
            top_logprobs=job.top_logprobs,
        )


def load(order: Load, on_progress: Callable[[float], None]) -> CandleEngine:
    """Load a GGUF or a folder; see `engine.Loader`."""
    on_progress(0.05)
    if order.dtype not in DTYPES:
        raise CannotLoad(f"Candle computes in {', '.join(filter(None, DTYPES))}: see --dtype.")
    if order.device not in {"", "cpu"}:
        raise CannotLoad(f"There is no {order.device} device for Candle here: see --device.")
    # It reads these when it first computes, and takes them from nobody else.
    os.putenv("CANDLE_BARRIER_POOL_SPIN_LIMIT", str(SPIN_LIMIT))
    if order.threads:
        os.putenv("RAYON_NUM_THREADS", str(order.threads))
    with tempfile.TemporaryDirectory(prefix="roost-candle-") as scratch:
        # Both files are read while it loads, and not again.
        described, raw = Path(scratch) / "tokenizer.json", Path(scratch) / "raw.jinja"
        raw.write_text("{{ messages[0]['content'] }}")
        path = Path(order.path)
        read = _gguf if path.suffix == ".gguf" else _folder
        model = read(path, described, order.dtype)
        described.write_bytes(model.words.described())
        on_progress(0.1)
        runner = _runner(model, order, raw)
    on_progress(0.9)
    return CandleEngine(runner, model, order)


def _gguf(path: Path, described: Path, dtype: str) -> _Model:
    import mistralrs

    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = vocabulary_of(data, read_header(data))
        texts, words = Texts(found.described, found.bos), Words(found.spelt)
    except UnicodeDecodeError:
        raise CannotLoad("The file's vocabulary is no text.") from None
    except ValueError as error:
        why = f"{error} Candle cannot be told its tokens: choose another --backend."
        raise CannotLoad(why) from None
    except RoostError as error:
        raise CannotLoad(error.failure.message) from None
    which = mistralrs.Which.GGUF(
        quantized_model_id=str(path.parent),
        quantized_filename=_shards(path.name),
        dtype=_dtype(dtype),
        tokenizer_json=str(described),
    )
    return _Model(which, texts, words, found.ends, Defaults(), len(found.spelt))


def _shards(name: str) -> str | list[str]:
    found = _FIRST_SHARD.fullmatch(name)
    if found is None:
        return name
    count = int(found[2])
    return [f"{found[1]}-{at:05}-of-{count:05}.gguf" for at in range(1, count + 1)]


def _folder(path: Path, described: Path, dtype: str) -> _Model:
    import mistralrs

    folder = path.parent
    try:
        config = read_config(folder)
        config = config.text_config or config
    except (OSError, msgspec.DecodeError) as error:
        raise CannotLoad("The folder's config.json cannot be read.") from error
    texts, generation = read_texts(folder), read_generation(folder)
    added = msgspec.json.decode((folder / "tokenizer.json").read_bytes(), type=Tokenizer)
    # The library looks its ends up by their names.
    named = {one.id: one.content for one in added.added_tokens}
    size = max(config.vocab_size - 1, *texts.bytes_of, *named) + 1
    try:
        words = Words(numbered(size, named))
    except ValueError as error:
        raise CannotLoad(f"{error} Candle cannot be told them: choose another --backend.") from None
    which = mistralrs.Which.Plain(
        model_id=str(folder), tokenizer_json=str(described), dtype=_dtype(dtype)
    )
    ends, defaults = ends_of(generation, config), defaults_of(generation)
    return _Model(which, texts, words, ends, defaults, config.vocab_size)


def _dtype(name: str) -> mistralrs.ModelDType:
    import mistralrs

    return getattr(mistralrs.ModelDType, DTYPES[name])


def _runner(model: _Model, order: Load, raw: Path) -> mistralrs.Runner:
    """Read the weights; nothing is fetched, and no prefix is kept."""
    import mistralrs

    try:
        return mistralrs.Runner(
            which=model.which,
            max_seqs=order.slots,
            prefix_cache_n=0,
            token_source="none",
            jinja_explicit=str(raw),
        )
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # What its own code gives up on is no `Exception`, and may hold a path.
        logging.getLogger(__name__).exception("the weights were not read")
        raise CannotLoad("Candle cannot load this model; the log says more.") from error


def _choice(told: mistralrs.ResponseLogprob, token: int, texts: Texts) -> TokenChoice:
    best = tuple(likely(one.logprob, texts.raw(one.token)) for one in told.top_logprobs)
    return TokenChoice(likely(told.logprob, texts.raw(token)), best)
