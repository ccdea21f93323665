"""WIRING: named conversations: from settings to what serves and keeps them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, cast

import msgspec

from roost.cli.parts.aliases import read_aliases
from roost.errors import fail
from roost.fleet.conversations.compacting import CompactionSettings
from roost.fleet.conversations.handoffs import HandoffSettings
from roost.fleet.conversations.registry import ConversationSettings
from roost.fleet.nodes.handover import HandoverSettings
from roost.gateway.conversations.archive import ArchiveSettings
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.entry.identity import IdentitySettings
from roost.gateway.reading.session_token import SECRET_LEAST_BYTES, SessionKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roost.config import Settings
    from roost.core.fence import Life
    from roost.fleet.conversations.compacting import Summariser
    from roost.fleet.streams.relay import OnFull, RelaySettings
    from roost.store.conversations.journal import Journal
    from roost.store.home import Home

DAY_S = 86_400.0


def infer_settings(settings: Settings, relay: RelaySettings) -> InferSettings:
    """Return what is particular to conversations with a name."""
    return InferSettings(
        conversations=ConversationSettings(
            most=settings.conversations_max,
            waiting=settings.conversations_turns_waiting,
            wait_s=settings.conversations_wait_s,
            idle_ttl_s=settings.conversations_idle_ttl_s,
            lifetime_s=settings.conversations_lifetime_s,
        ),
        # The table's choices are the ways; `load` has checked the value against them.
        relay=msgspec.structs.replace(
            relay, on_full=cast("OnFull", settings.stream_on_full), sealed=True
        ),
        body_max_bytes=settings.body_offload_bytes,
        strict=settings.strict,
        aliases=read_aliases(settings.aliases),
        legacy_503=settings.coordinator_legacy_503,
        release_wait_s=settings.conversations_release_wait_s,
        compaction=compaction_settings(settings),
        terminal_event=not settings.coordinator_omit_terminal,
    )


def handoff_settings(settings: Settings) -> HandoffSettings:
    """Take what limits prompts that are computed ahead."""
    return HandoffSettings(
        settings.handoff_each_max, settings.handoff_all_max, settings.handoff_ttl_s
    )


def handover_settings(settings: Settings) -> HandoverSettings:
    """Return how conversations leave a node that is drained."""
    return HandoverSettings(
        at_once=settings.handover_at_once,
        tries=settings.handover_tries,
        wait_s=settings.handover_wait_s,
        retry_s=settings.handover_retry_s,
    )


def compaction_settings(settings: Settings) -> CompactionSettings:
    """Return when pasts are made shorter, and by whom."""
    return CompactionSettings(
        summariser=cast("Summariser", settings.compaction_summariser),
        budget_tokens=settings.compaction_budget_tokens,
        threshold=settings.compaction_threshold,
        tail_pairs=settings.compaction_tail_pairs,
        summary_max_tokens=settings.compaction_summary_max_tokens,
        summary_wait_s=settings.compaction_summary_wait_s,
        kept_least=settings.compaction_kept_least,
        debounce_s=settings.compaction_debounce_s,
        kv_max_bytes=settings.compaction_kv_max_bytes,
        batch=settings.compaction_batch,
    )


def archive_settings(settings: Settings) -> ArchiveSettings:
    """Return how long what is said is kept."""
    return ArchiveSettings(
        refused=settings.transcripts_on_disk_failure == "refuse",
        retention_s=settings.transcripts_retention_days * DAY_S,
        commit_wait_s=settings.transcripts_commit_wait_s,
    )


def identity_settings(settings: Settings, home: Home, life: Life) -> IdentitySettings:
    """Return what session tokens are signed with: the keys given, or one that the home keeps."""
    keys = session_keys(settings.session_keys)
    if not keys:
        secret = home.secret("session")
        # The id tells keys apart and tells nothing of them.
        keys = (SessionKey(hashlib.sha256(b"id" + secret).hexdigest()[:8], secret),)
    return IdentitySettings(keys, settings.session_ttl_s, life)


def session_keys(texts: Iterable[str]) -> tuple[SessionKey, ...]:
    """Read keys written as ID:HEX; raises `bad_request`, which shows nothing of them."""
    keys = tuple(map(_session_key, texts))
    if len({key.id for key in keys}) < len(keys):
        message = "session.keys: every key needs an id of its own."
        raise fail("bad_request", message, param="session.keys")
    return keys


def _session_key(text: str) -> SessionKey:
    name, found, secret = text.partition(":")
    try:
        return SessionKey(name, bytes.fromhex(secret if found else "-"))
    except ValueError:
        least = SECRET_LEAST_BYTES
        message = f"session.keys: a key is ID:HEX, its secret at least {least} bytes in hex digits."
        raise fail("bad_request", message, param="session.keys") from None


def open_journal(settings: Settings, home: Home) -> Journal | None:
    """Open what keeps conversations; None where nothing of them is to be kept."""
    from roost.store.conversations.journal import Journal, JournalSettings
    from roost.store.conversations.transcripts import open_disk

    limits = JournalSettings(
        memory_max_bytes=settings.transcripts_memory_max_bytes,
        refused=settings.transcripts_on_disk_failure == "refuse",
    )
    match settings.transcripts_keep:
        case "off":
            return None
        case "memory":
            return Journal(None, limits)
        case _:
            return Journal(open_disk(home, settings.transcripts_disk_max_bytes), limits)
