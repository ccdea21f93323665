"""SHELL: ONNX GenAI in a hosted child: each slot has a generator of its own, taken in turn.

Its generator can draw for itself and then says nothing but a token. Here a token is appended, the
logits are looked at, and the next one is drawn as for every other library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from roost.backends.hosted.drawing import Logits, defaults_of
from roost.backends.hosted.engine import Bare, CannotLoad, Running
from roost.backends.hosted.frames import Load, Loaded, Run
from roost.backends.hosted.hf_folder import read_texts
from roost.backends.hosted.stepping import Speaker, steps
from roost.core.model import ctx_within

if TYPE_CHECKING:
    import onnxruntime_genai


PROVIDERS = {
    "mps": "CoreML",
    "rocm": "MIGraphX",
    "openvino": "OpenVINO",
    "qnn": "QNN",
    "webgpu": "WebGPU",
}
"""Devices by the names that the library has for them, where those are other ones."""


SHARING = {"session.intra_op.allow_spinning": "0"}
"""Threads of this library spin while they wait for each other, which costs the cores of whoever
else is on the machine, and with two of them brings nothing."""


class Search(msgspec.Struct, frozen=True):
    """How the folder wants its model sampled; see `drawing.Defaults`."""

    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


class Told(msgspec.Struct, frozen=True):
    """What the folder says of its model."""

    context_length: int = 0
    vocab_size: int = 0
    eos_token_id: int | tuple[int, ...] = ()


class GenaiConfig(msgspec.Struct, frozen=True):
    """`genai_config.json`, as far as it matters here."""

    model: Told = Told()
    search: Search = Search()


class _Held:
    """What a slot holds: a generator, whose memory is of exactly `tokens`; see `stepping.Held`."""

    def __init__(self, begin: Callable[[], onnxruntime_genai.Generator]) -> None:
        self.tokens: list[int] = []
        self._begin = begin
        self._generator: onnxruntime_genai.Generator | None = begin()

    def back_to(self, size: int) -> int:
        """Rewind, or begin anew where the model's memory cannot be."""
        if self._generator is not None and size < len(self.tokens):
            try:
                self._generator.rewind_to(size)
            except RuntimeError:
                size, self._generator = 0, None
        del self.tokens[size:]
        return size

    def step(self, tokens: tuple[int, ...]) -> Logits:
        """Compute tokens behind what the slot holds."""
        if self._generator is None:
            # Only now, so that there are never two of them.
            self._generator = self._begin()
        self._generator.append_tokens(tokens)
        logits: Logits = self._generator.get_logits()[0, -1]
        self.tokens += tokens
        return logits


class OnnxGenaiEngine:
    """One model in memory."""

    def __init__(self, model: onnxruntime_genai.Model, told: GenaiConfig, order: Load) -> None:
        import onnxruntime_genai

        texts = read_texts(Path(order.path).parent)
        told_ends = told.model.eos_token_id
        ends = frozenset(told_ends if isinstance(told_ends, tuple) else (told_ends,))
        self._speaker = Speaker(texts, ends, defaults_of(told.search), order.batch)
        ctx = ctx_within(order.ctx, told.model.context_length)

        def begin() -> onnxruntime_genai.Generator:
            settings = onnxruntime_genai.GeneratorParams(model)
            settings.set_search_options(max_length=ctx, batch_size=1, num_beams=1)
            return onnxruntime_genai.Generator(model, settings)

        # All of them now: memory that is not there for a slot is told as a load that failed.
        self._slots = [_Held(begin) for _ in range(order.slots)]
        build = f"onnxruntime-genai {onnxruntime_genai.__version__}"
        self.loaded = Loaded(ctx, told.model.vocab_size, texts.bos, texts.longest_bytes, build)

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece; see `engine.Engine`."""
        return self._speaker.texts.tokenize(piece, special=special)

    def run(self, job: Run) -> Running:
        """Compute the prompt, then speak; see `engine.Engine`."""
        return steps(job, self._slots[job.slot], self._speaker)


def load(order: Load, on_progress: Callable[[float], None]) -> OnnxGenaiEngine:
    """Load a folder; see `engine.Loader`."""
    on_progress(0.05)
    try:
        model, told = _model(order, SHARING)
        on_progress(0.9)
        return OnnxGenaiEngine(model, told, order)
    except RuntimeError as error:
        why = "ONNX GenAI cannot load this folder; the log says more."
        if order.device not in {"", "cpu"}:
            why = (
                f"ONNX GenAI as it is installed here cannot compute this folder on {order.device}; "
                "the log says more. Choose another --device."
            )
        raise CannotLoad(why) from error


def bare(order: Load) -> Bare:
    """Load a folder for the library's own loop; see `engine.Bare`."""
    import onnxruntime_genai as library

    model, _ = _model(order)

    def begun(prompts: Sequence[tuple[int, ...]], tokens: int) -> onnxruntime_genai.Generator:
        length = len(prompts[0]) + tokens
        settings = library.GeneratorParams(model)
        sizes = {"max_length": length, "min_length": length, "batch_size": len(prompts)}
        settings.set_search_options(do_sample=False, **sizes)
        made = library.Generator(model, settings)
        made.append_tokens(prompts)
        return made

    def say(prompts: Sequence[tuple[int, ...]], tokens: int, *, batch: bool) -> None:
        parts = [prompts] if batch else [[prompt] for prompt in prompts]
        running = [begun(part, tokens) for part in parts]
        for _ in range(tokens):
            for one in running:
                one.generate_next_token()

    return say


def _model(
    order: Load, options: Mapping[str, str] = {}
) -> tuple[onnxruntime_genai.Model, GenaiConfig]:
    import onnxruntime_genai as library

    library.disable_telemetry_events()
    path = Path(order.path)
    try:
        told = msgspec.json.decode(path.read_bytes(), type=GenaiConfig)
        config = library.Config(str(path.parent))
    except (OSError, msgspec.DecodeError, RuntimeError) as error:
        raise CannotLoad("The folder's genai_config.json cannot be read.") from error
    if order.device:
        config.clear_providers()
    if order.device not in {"", "cpu"}:
        config.append_provider(PROVIDERS.get(order.device, order.device))
    threads = {"intra_op_num_threads": order.threads} if order.threads else {}
    wanted = {"model": {"decoder": {"session_options": {**threads, **options}}}}
    config.overlay(msgspec.json.encode(wanted).decode())
    return library.Model(config), told
