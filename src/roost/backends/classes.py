"""VALUE: the classes of backends: who owns what, what is limited, and what a naive build does."""

from __future__ import annotations

import msgspec


class Class(msgspec.Struct, frozen=True):
    """What is the same for all backends of a class, in words for people.

    `naive` is what a build does that only calls the engine.
    """

    name: str
    residency: str
    overlap: str
    batching: str
    kv: str
    cancel: str
    naive: str


ENGINE_SERVER = Class(
    "engine's own server, a child",
    "a child for each runtime key, loaded once however many ask; idle ones make room",
    "as many as slots; models overlap",
    "the engine",
    "the engine's slots; saved, restored and moved by the node",
    "its slot is free before a request is over",
    "two cold misses start two processes; every request waits for one gate; no slots",
)
LIBRARY = Class(
    "library, hosted in a child",
    "a child for each runtime key, loaded once however many ask; idle ones make room",
    "slots take turns, a step each; models overlap",
    "none: a step is of one sequence",
    "a cache for each slot, cut back to what prompts share",
    "between two steps",
    "one process for all models: a crash, a hang or a full memory is everybody's",
)
SCHEDULER = Class(
    "library with a scheduler of its own, hosted in a child",
    "a child for each runtime key, loaded once however many ask; idle ones make room",
    "as many as slots, as the library schedules them; models overlap",
    "the library",
    "none is kept: the library's own would be one for all who ask",
    "at the library's next word, which is the first one while a prompt is computed",
    "one process for all models: a crash, a hang or a full memory is everybody's",
)
RUNNER = Class(
    "program of a card, resident",
    "a process for each runtime key; idle ones make room",
    "as many as slots, as the program takes turns; models overlap",
    "the program",
    "the program",
    "the program says when; it is killed if it does not in time",
    "one request at a time, and a program that hangs holds up all",
)
ONCE = Class(
    "program of a card, one process for each request",
    "none: nothing is kept between requests",
    "as many processes as slots, each with the weights",
    "none",
    "none",
    "the process group is killed",
    "as many processes, without a limit in number, time or output",
)
OWN_SERVER = Class(
    "server of the OpenAI dialect, a child",
    "a child for each card; idle ones make room, oMLX's beyond 16 are refused",
    "as many as slots; models overlap",
    "the server",
    "the server",
    "the connection is closed; when it stops is the server's business",
    "a free port is given back before the child binds it; a server that hangs counts as alive",
)
EXTERNAL = Class(
    "server of somebody else's",
    "owned elsewhere: never started, limited or ended",
    "as many as slots; what it can take is not known",
    "the server",
    "the server",
    "the connection is closed; when it stops is the server's business",
    "its health is asked for inside the lock of every request",
)
INSIDE = Class(
    "inside the node's process, for tests",
    "as a server's, without a process",
    "as many as slots",
    "none",
    "a script's",
    "at once",
    "the same",
)
