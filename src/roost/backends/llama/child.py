"""SHELL: the program in a runtime's process: llama.cpp's own server out of the `xllamacpp` wheel.

It reads a `Launch` as JSON from stdin, because the list of processes is no place for its key, and
serves until it is ended. There is no signal handler: nothing is worth saving, and while native code
loads a model no Python handler would run.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import msgspec

from roost.backends.llama.argv import SSE_PING_S, Launch
from roost.core.engine import Engine, ExtraFile

WARNINGS = 2
FLASH = {
    "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
    "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
}
POOLING = {
    "": "LLAMA_POOLING_TYPE_UNSPECIFIED",
    "mean": "LLAMA_POOLING_TYPE_MEAN",
    "cls": "LLAMA_POOLING_TYPE_CLS",
    "last": "LLAMA_POOLING_TYPE_LAST",
}
RANK = "LLAMA_POOLING_TYPE_RANK"
LOAD = {
    ("auto", False): "LLAMA_LOAD_MODE_AUTO",
    ("on", False): "LLAMA_LOAD_MODE_MMAP",
    ("off", False): "LLAMA_LOAD_MODE_NONE",
    ("auto", True): "LLAMA_LOAD_MODE_MMAP_MLOCK",
    ("on", True): "LLAMA_LOAD_MODE_MMAP_MLOCK",
    ("off", True): "LLAMA_LOAD_MODE_MLOCK",
}


def params_of(launch: Launch) -> object:
    """Translate a launch into what the wheel takes."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = launch.model_path
    params.n_ctx = launch.total_ctx
    params.n_parallel = launch.slots
    params.n_batch, params.n_ubatch = launch.batch, launch.ubatch
    if launch.threads:
        params.cpuparams.n_threads = launch.threads
    # Both alike: then they are one pool of threads.
    for pool in (params.cpuparams, params.cpuparams_batch) if launch.cores else ():
        pool.n_threads, pool.mask_valid, pool.strict_cpu = launch.threads, True, True
        pool.cpumask = [core in launch.cores for core in range(len(pool.cpumask))]
    if launch.http_threads:
        params.n_threads_http = launch.http_threads
    for name, value in engine_values(launch.engine).items():
        setattr(params, name, value)
    if launch.copies:
        params.load_mode = xllamacpp.llama_load_mode[LOAD["off", launch.engine.mlock]]
    if launch.engine.threads_batch:
        params.cpuparams_batch.n_threads = launch.engine.threads_batch
    if launch.engine.projector:
        params.mmproj.path = launch.engine.projector.path
    if launch.mode != "generate":
        ranks = launch.mode == "rank"
        name = RANK if ranks else POOLING[launch.engine.pooling]
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type[name]
    params.hostnames = [launch.socket or "127.0.0.1"]
    params.port = launch.port
    params.api_keys = [launch.key]
    params.kv_unified = False
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.ctx_shift = False
    params.endpoint_slots = True
    if launch.state_folder:
        # What is saved is named by joining two texts.
        params.slot_save_path = launch.state_folder.rstrip("/") + "/"
    params.ui = False
    # The model's own template is foreign code; it is rendered in a sandbox and never here.
    params.chat_template = "chatml"
    params.sse_ping_interval = SSE_PING_S
    params.verbosity = WARNINGS
    return params


def engine_values(engine: Engine) -> dict[str, object]:
    """Name the parameters that say an engine's options, as far as they are no tables themselves."""
    import xllamacpp

    values: dict[str, object] = {
        "cache_type_k": xllamacpp.ggml_type[f"GGML_TYPE_{engine.key_type.upper()}"],
        "cache_type_v": xllamacpp.ggml_type[f"GGML_TYPE_{engine.value_type.upper()}"],
        "flash_attn_type": xllamacpp.llama_flash_attn_type[FLASH[engine.flash_attention]],
        "load_mode": xllamacpp.llama_load_mode[LOAD[engine.mmap, engine.mlock]],
        "no_kv_offload": not engine.kv_offload,
        "lora_adapters": [_adapter(one) for one in engine.adapters],
    }
    if engine.gpu_layers >= 0:
        values["n_gpu_layers"] = engine.gpu_layers
    if engine.main_gpu >= 0:
        values["main_gpu"] = engine.main_gpu
    return values


def _adapter(file: ExtraFile) -> object:
    import xllamacpp

    adapter = xllamacpp.CommonAdapterLoraInfo()
    adapter.path, adapter.scale = file.path, file.scale
    return adapter


def stock_of(launch: Launch) -> object:
    """Take model, room, address and kind of memory from a launch, to compare; all else is stock."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = launch.model_path
    params.n_ctx = launch.total_ctx
    params.n_parallel = launch.slots
    params.hostnames = ["127.0.0.1"]
    params.port = launch.port
    if launch.copies:
        params.load_mode = xllamacpp.llama_load_mode[LOAD["off", False]]
    return params


def serve(launch: Launch, translated: Callable[[Launch], object] = params_of) -> int:
    """Load the model and serve until a signal ends the process; returns 1 if it does not load."""
    import xllamacpp

    try:
        server = xllamacpp.Server(translated(launch))
    except RuntimeError:
        return 1
    assert server.listening_address
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(serve(msgspec.json.decode(sys.stdin.buffer.read(), type=Launch)))
