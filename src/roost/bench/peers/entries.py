"""DECIDER: other gateways, each as one entry: how to start it before servers of the OpenAI dialect.

To add one, write a function from a `Site` to a `Launch` and put it into `PEERS`. Everything is
loopback, one worker, one thread where that can be chosen; what is set beyond that is for streams
(no buffering, small buffers of sockets, so that a client that does not read is noticed) and for
servers that die (health is asked, a dead server is left out), and is told in `settings`. A peer is
asked like any server: POST /v1/chat/completions on its port.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

FILE = "peer.conf"
HOST = "127.0.0.1"


class Site(msgspec.Struct, frozen=True):
    """Where a peer stands: its port, the ports of the servers behind it, and one more that is free.

    `folder` is its own, and `model` is what clients ask the servers for.
    """

    port: int
    servers: tuple[int, ...]
    spare: int
    folder: str
    model: str = "stub"

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers as addresses."""
        return tuple(f"http://{HOST}:{port}" for port in self.servers)


class Launch(msgspec.Struct, frozen=True):
    """The words behind the program, what has to be in `FILE` of its folder, and its environment."""

    words: tuple[str, ...]
    text: str = ""
    environment: dict[str, str] = {}


class Peer(msgspec.Struct, frozen=True):
    """One gateway: its program, what it is told in short, how it is started.

    `version` is the words that make a program say which one it is that is no package of Python.
    """

    program: str
    settings: str
    launch: Callable[[Site], Launch]
    version: tuple[str, ...] = ()


_NGINX = """\
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 100000000;
    send_timeout 2s;
    upstream servers {{
        least_conn;
{servers}
        keepalive 64;
        keepalive_requests 100000000;
    }}
    server {{
        listen {host}:{port} sndbuf=16k;
        location / {{
            proxy_pass http://servers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_buffering off;
            proxy_connect_timeout 1s;
            proxy_next_upstream error timeout non_idempotent;
        }}
    }}
}}
"""


def _nginx(site: Site) -> Launch:
    servers = "\n".join(
        f"        server {HOST}:{port} max_fails=1 fail_timeout=2s;" for port in site.servers
    )
    text = _NGINX.format(folder=site.folder, host=HOST, port=site.port, servers=servers)
    return Launch(("-c", f"{site.folder}/{FILE}", "-p", site.folder), text)


_HAPROXY = """\
global
    nbthread 1
    maxconn 4096
    tune.sndbuf.client 16384
defaults
    mode http
    option http-no-delay
    option redispatch
    retries 2
    retry-on conn-failure empty-response response-timeout
    timeout connect 1s
    timeout client 2s
    timeout server 30s
frontend front
    bind {host}:{port}
    default_backend servers
backend servers
    balance leastconn
    http-reuse always
    option httpchk GET /health
{servers}
"""


def _haproxy(site: Site) -> Launch:
    servers = "\n".join(
        f"    server s{number} {HOST}:{port} check inter 500ms fall 2 rise 1"
        for number, port in enumerate(site.servers)
    )
    text = _HAPROXY.format(host=HOST, port=site.port, servers=servers)
    return Launch(("-db", "-f", f"{site.folder}/{FILE}"), text)


def _router(*words: str) -> Callable[[Site], Launch]:
    """Start one of the family of routers in Rust."""

    def launch(site: Site) -> Launch:
        told = (*words, "--host", HOST, "--port", str(site.port), "--worker-urls", *site.urls)
        health = ("--health-check-interval-secs", "1", "--health-failure-threshold", "2")
        return Launch((*told, "--prometheus-port", str(site.spare), *health))

    return launch


def _litellm(site: Site) -> Launch:
    models = [
        {
            "model_name": site.model,
            "litellm_params": {
                "model": f"openai/{site.model}",
                "api_base": f"{url}/v1",
                "api_key": "none",
            },
        }
        for url in site.urls
    ]
    routing = {"routing_strategy": "least-busy", "num_retries": 2, "cooldown_time": 2}
    # JSON is YAML too.
    text = json.dumps({"model_list": models, "router_settings": routing})
    words = ("--host", HOST, "--port", str(site.port), "--config", f"{site.folder}/{FILE}")
    environment = {
        # By itself it fetches prices, and wants a key of its own.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOG": "ERROR",
    }
    return Launch((*words, "--num_workers", "1", "--telemetry", "False"), text, environment)


PEERS: dict[str, Peer] = {
    "smg": Peer("smg", "cache_aware, health 1 s", _router("launch", "--policy", "cache_aware")),
    "smg-rr": Peer("smg", "round_robin, health 1 s", _router("launch", "--policy", "round_robin")),
    "vllm-router": Peer(
        "vllm-router", "round_robin, health 1 s", _router("--policy", "round_robin")
    ),
    "sglang-router": Peer(
        "sglang-router", "round_robin, health 1 s", _router("launch", "--policy", "round_robin")
    ),
    "litellm": Peer("litellm", "1 worker, least-busy, 2 retries", _litellm),
    "haproxy": Peer(
        "haproxy",
        "nbthread 1, leastconn, checks 0.5 s, redispatch, client 2 s, 16 KiB",
        _haproxy,
        ("-v",),
    ),
    "nginx": Peer(
        "nginx", "1 worker, least_conn, keepalive, no buffering, send 2 s, 16 KiB", _nginx, ("-v",)
    ),
}
"""Every peer by name, in the order of reports."""
