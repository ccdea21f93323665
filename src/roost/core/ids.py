"""VALUE: distinct types for distinct identities, so that the type checker keeps them apart."""

from __future__ import annotations

from typing import NewType

RequestId = NewType("RequestId", str)
"""One call by a client; 128 random bits, made by the gateway's shell."""

ModelId = NewType("ModelId", str)
"""The name under which a model is listed and asked for."""

NodeId = NewType("NodeId", str)
"""A worker machine's agent; lives in ROOST_HOME and survives restarts."""

RuntimeId = NewType("RuntimeId", str)
"""One life of a runtime on a node; a restarted runtime has a new one."""

TenantId = NewType("TenantId", str)
"""Who pays: `key:<id>` or, without keys, `addr:<client address>`."""

StreamId = NewType("StreamId", int)
"""One request on one link; counted up by the gateway, never reused on that link."""

SessionId = NewType("SessionId", int)
"""One conversation's state on one node while it is in no slot; counted up by the node."""

LeaseId = NewType("LeaseId", int)
"""One reservation of capacity; counted up by the coordinator."""

ConversationKey = NewType("ConversationKey", bytes)
"""What a conversation is called by: a hash of its tenant and the name its client gave it."""
