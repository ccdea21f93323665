"""SHELL: the cases of the conformance suite, in the order of the contract's promises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from roost.testing import (
    answers,
    continuations,
    embeddings,
    formats,
    lifetimes,
    rankings,
    refusals,
    states,
)
from roost.testing.stand import Stand


@dataclass(frozen=True)
class Case:
    """One thing that is checked: which promise it belongs to and which capabilities it needs.

    `promise` is its number in the prose of `roost.backends.base`, 0 for what a capability means.
    `ends_runtime` says that no other case can use the runtime afterwards.
    """

    name: str
    promise: int
    run: Callable[[Stand], Awaitable[None]]
    needs: tuple[str, ...] = ("completion",)
    needs_kill: bool = False
    ends_runtime: bool = False


EXACT = ("completion", "exact_token_count")
"""Whoever has no tokens of its own cannot be given any, nor be told how many fit."""
CANCEL = ("completion", "cancel")
STATE = ("completion", "state", "prefix_cache")
TWO = ("completion", "concurrent_streams")
VECTORS = ("embeddings",)
SCORES = ("rerank",)
JSON = ("completion", "json_schema")
REPLAY = ("completion", "replay")
CASES = (
    Case("text is completed", 1, answers.text_is_completed),
    Case("a chat is answered", 1, answers.chat_is_answered, ("chat",)),
    Case("tokens are completed", 1, answers.tokens_are_completed, EXACT),
    Case("the end is the end", 1, answers.end_is_the_end),
    Case("answers come in pieces", 1, answers.answers_come_in_pieces, ("completion", "streaming")),
    Case("characters stay whole", 2, answers.characters_stay_whole),
    Case("stop strings stop", 2, answers.stop_strings_stop),
    Case("held text is released", 2, answers.held_text_is_released),
    Case("limits hold", 3, answers.limits_hold),
    Case("limits are clamped", 3, refusals.limits_are_clamped, EXACT),
    Case("the context can be filled", 3, answers.context_can_be_filled, EXACT),
    Case("too long is refused", 3, refusals.too_long_is_refused, EXACT),
    Case("counts are exact", 4, answers.counts_are_exact, EXACT),
    Case("leaving prefill frees", 5, lifetimes.leaving_prefill_frees, CANCEL),
    Case("leaving decode frees", 5, lifetimes.leaving_decode_frees, CANCEL),
    Case("leaving at once frees", 5, lifetimes.leaving_at_once_frees, CANCEL),
    Case("a cancelled reader frees", 5, lifetimes.cancelled_reader_frees, CANCEL),
    Case(
        "leaving beside a neighbour frees",
        5,
        lifetimes.leaving_beside_a_neighbour_frees,
        (*CANCEL, TWO[1]),
    ),
    Case("streams do not mix", 6, lifetimes.streams_do_not_mix, TWO),
    Case("slow readers wait alone", 6, lifetimes.slow_readers_wait_alone, TWO),
    Case("bad numbers are refused", 9, refusals.bad_numbers_are_refused),
    Case("bad tokens are refused", 9, refusals.bad_tokens_are_refused, EXACT),
    Case("seeds repeat", 10, answers.seeds_repeat, ("completion", "seed")),
    Case("token ids are told", 11, continuations.ids_are_told, REPLAY),
    Case("answers are continued", 11, continuations.answers_are_continued, REPLAY),
    Case("characters survive the seam", 11, continuations.characters_survive_the_seam, REPLAY),
    Case("stop strings span the seam", 11, continuations.stops_span_the_seam, REPLAY),
    Case(
        "log probabilities survive the seam",
        11,
        continuations.logprobs_survive_the_seam,
        (*REPLAY, "logprobs"),
    ),
    Case("complete answers end at once", 11, continuations.complete_answers_end_at_once, REPLAY),
    Case("prefixes are reused", 0, answers.prefixes_are_reused, ("completion", "prefix_cache")),
    Case("sessions go on", 0, states.sessions_go_on, ("completion", "sessions")),
    Case("states come back", 12, states.states_come_back, STATE),
    Case("saving changes nothing", 12, states.saving_changes_nothing, STATE),
    Case("states do not disturb", 12, states.states_do_not_disturb, (*STATE, TWO[1])),
    Case("states are shared", 12, states.states_are_shared, STATE),
    Case("bad states are refused", 12, states.bad_states_are_refused, STATE),
    Case("a lost folder is made again", 12, states.lost_folder_is_made_again, STATE),
    Case("answers are JSON", 13, formats.answers_are_json, JSON),
    Case("schemas hold", 13, formats.schemas_hold, JSON),
    Case("grammars hold", 13, formats.grammars_hold, ("completion", "grammar")),
    Case("bad formats are refused", 13, formats.bad_formats_are_refused, JSON),
    Case("formats do not disturb", 13, formats.formats_do_not_disturb, (*JSON, TWO[1])),
    Case("biases are followed", 13, formats.biases_are_followed, (*REPLAY, "logit_bias")),
    Case("what is not claimed is refused", 0, formats.unclaimed_is_refused),
    Case("texts become vectors", 14, embeddings.texts_become_vectors, VECTORS),
    Case("bad inputs are refused", 14, embeddings.bad_inputs_are_refused, VECTORS),
    Case("modes are apart", 14, embeddings.modes_are_apart, (*VECTORS, "completion")),
    Case("leaving leaves nothing", 14, embeddings.leaving_leaves_nothing, VECTORS),
    Case("documents are scored", 15, rankings.documents_are_scored, SCORES),
    Case("bad documents are refused", 15, rankings.bad_documents_are_refused, SCORES),
    Case("control tokens stay text", 0, refusals.control_tokens_stay_text, ("completion", "chat")),
    Case("one BOS", 0, refusals.one_bos),
    Case("log probabilities add up", 0, answers.logprobs_add_up, ("completion", "logprobs")),
    Case("telemetry is told", 0, lifetimes.telemetry_is_told),
    Case("loading is told", 0, lifetimes.loading_is_told),
    Case("death is told", 7, lifetimes.death_is_told, needs_kill=True, ends_runtime=True),
    Case("stop is final", 8, lifetimes.stop_is_final, ends_runtime=True),
    Case("stop ends streams", 8, lifetimes.stop_ends_streams, ends_runtime=True),
)
