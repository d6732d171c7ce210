"""The errors of obstore: as errors of Lode, with the reason in one sentence and the remedy.

obstore's errors have only text: a summary that contains the answer of the service, then the Rust structures.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from lode.errors import InvalidPathError, LodeError, NotFoundError, PermissionDeniedError, StoreError

_DEBUG: Final = "\n\nDebug source"
_SERVICE: Final = re.compile(r"Generic (S3|GCS|MicrosoftAzure) error")
# The text before the response of the service. An object's name may precede it, but never has two slashes.
_REQUEST: Final = re.compile(r"Error performing [A-Z]+ (https?://\S+) in \S+ - ")
_TOKEN: Final = "token request: "
_STATUS: Final = re.compile(r"status code: (\d{3}) ?([A-Za-z -]*)")
_CODE: Final = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,500})|\"message\"\s*:\s*\"([^\"]{1,500})\"")
_EXPECTED_REGION: Final = re.compile(r"expecting '([a-z0-9-]+)'")
# The addresses at which machines in a cloud get credentials. Elsewhere they do not exist.
_MACHINE: Final = re.compile(
    r"https?://(?:169\.254\.|metadata\.google|[^/]*/latest/(?:api/token$|meta-data/iam/)|"
    r"[^/]*/metadata/identity|[^/]*/?[^/]*\?api-version=2019-08-01&resource=)"
)
_MAX_TEXT: Final = 300

_GUIDE: Final = "docs/guides/object-stores.md#credentials"
_CREDENTIALS: Final = {
    "S3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give access_key_id and secret_access_key, or "
    "skip_signature=true for a public bucket",
    "GCS": "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT to a file, or give service_account, "
    "or skip_signature=true for a public bucket",
    "MicrosoftAzure": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or give account_key or "
    "sas_key, or skip_signature=true for a public container",
}
_NAMES: Final = {"S3": "S3", "GCS": "Google Cloud Storage", "MicrosoftAzure": "Azure"}
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
_EXPIRED: Final = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired")
_WRONG_KEYS: Final = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "InvalidToken")
_WRONG_REGIONS: Final = ("PermanentRedirect", "AuthorizationHeaderMalformed")
_NOT_BUILT: Final = "HTTP error: builder error"
_REDIRECT: Final = "Received redirect without LOCATION"


class Refusal(Enum):
    """The reasons for which a conditional write fails."""

    CONDITION = auto()
    """The condition did not hold: another writer's object exists."""

    CONFLICT = auto()
    """Another conditional write ran at the same moment; this one was not attempted."""

    UNSENT = auto()
    """The request was rejected or never sent, so it cannot have taken effect."""

    UNKNOWN = auto()
    """The request was sent and its response lost: it may have taken effect, even later."""


class RefusedWrite(NamedTuple):
    """A conditional write that failed."""

    why: Refusal
    error: Exception


def refusal(error: Exception, path: str, *, creating: bool) -> Refusal:
    """Return the reason for which a conditional write failed. An error that no retry can fix is raised.

    obstore reports a 412 as ``PreconditionError``, or as ``AlreadyExistsError`` when creating, and a 409
    always as ``AlreadyExistsError``. The status in the message distinguishes them.
    """
    from obstore import exceptions

    if isinstance(error, (exceptions.PreconditionError, exceptions.NotModifiedError)):
        return Refusal.CONDITION
    status = status_of(error)
    if isinstance(error, exceptions.AlreadyExistsError):
        # Azure sends 409 for an existing blob too, with this code; S3 only for two requests at once.
        conflict = status == 409 and "BlobAlreadyExists" not in str(error)
        return Refusal.CONFLICT if conflict else Refusal.CONDITION
    if isinstance(error, FileNotFoundError):
        if not creating:
            return Refusal.CONDITION
        raise StoreError(
            f"cannot put {path!r}: the bucket or container is not there: check its name, or create it"
        ) from error
    reason = reason_of(error)
    if not isinstance(error, exceptions.GenericError) or reason.lasting:
        raise translated(error, path) from error
    if status == 429 or reason.unsent:
        return Refusal.UNSENT
    if status is None or status >= 500 or status == 408:
        return Refusal.UNKNOWN
    raise translated(error, path) from error


def translated(error: Exception, path: str) -> LodeError:
    """Return the error of Lode for one of obstore."""
    from obstore import exceptions

    if isinstance(error, FileNotFoundError) and not is_no_bucket(error):
        return NotFoundError(f"no object {path!r}")
    # obstore refuses a path it cannot parse with a plain ValueError.
    if isinstance(error, (exceptions.InvalidPathError, ValueError)):
        return InvalidPathError(
            f"path {path!r} cannot be held in object storage: {str(error).partition(_DEBUG)[0]}"
        )
    reason = reason_of(error)
    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    if reason.denied or isinstance(error, denied):
        return PermissionDeniedError(f"no permission for {path!r}: {reason.text}")
    return StoreError(f"the object store failed on {path!r}: {reason.text}")


class Reason(NamedTuple):
    """The reason for which a request failed.

    ``denied``: the credentials or the rights are insufficient. ``unsent``: the service never got the request.
    ``lasting``: the next request fails for the same reason.
    """

    text: str
    denied: bool = False
    unsent: bool = False
    lasting: bool = False


class _Failure(NamedTuple):
    """The parts of an error's text. Only ``url`` contains names of objects."""

    service: str
    url: str
    answer: str
    debug: str
    is_token: bool

    @property
    def place(self) -> str:
        parts = urlsplit(self.url)
        # An endpoint may contain a password.
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if self.url else "the service"

    @property
    def code(self) -> str:
        match = _CODE.search(self.answer)
        return match[1] if match else ""

    @property
    def status(self) -> int | None:
        match = _STATUS.search(self.answer)
        return int(match[1]) if match else None


def reason_of(error: Exception) -> Reason:
    """Return the reason for which a request failed, by default in the words of the service."""
    failure = _failure(error)
    if failure.answer.startswith(_NOT_BUILT):
        return Reason(_not_buildable(failure), unsent=True, lasting=True)
    if _MACHINE.match(failure.url):
        # A response is final. A failed connection may mean a busy machine.
        return Reason(_no_credentials(failure), denied=True, unsent=True, lasting=failure.status is not None)
    if failure.is_token:
        refused = f"the credentials were refused ({_message(failure)}): check them ({_GUIDE})"
        return Reason(refused, denied=True, unsent=True, lasting=failure.status in (400, 401, 403))
    return _of_connection(failure) or _of_answer(failure) or Reason(_message(failure))


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of the response; None if there was none."""
    return _failure(error).status


def is_no_bucket(error: Exception) -> bool:
    """Return whether the bucket or container is missing, not only an object in it."""
    return _failure(error).code in _NO_BUCKET


def _failure(error: Exception) -> _Failure:
    summary, _, debug = str(error).partition(_DEBUG)
    service = _SERVICE.search(summary)
    request = _REQUEST.search(summary)
    name = service[1] if service else "S3"
    if request is None:
        return _Failure(name, "", summary, debug, False)
    is_token = summary[: request.start()].endswith(_TOKEN)
    return _Failure(name, request[1], summary[request.end() :], debug, is_token)


def _no_credentials(failure: _Failure) -> str:
    service = failure.service
    return f"no credentials for {_NAMES[service]}: {_CREDENTIALS[service]} ({_GUIDE})"


def _not_buildable(failure: _Failure) -> str:
    if failure.url.startswith("http://"):
        return (
            f"{failure.place} is plain HTTP, which must be allowed: give allow_http=true, or an endpoint "
            "with https"
        )
    return f"no request can be made to {failure.place}: check the endpoint and the options"


def _of_connection(failure: _Failure) -> Reason | None:
    """Return the reason if there was no response."""
    place, debug = failure.place, failure.debug
    if failure.status is not None:
        return None
    if "kind: Timeout" in debug:
        return Reason(f"{place} did not answer in time: try again, or give a longer timeout")
    if "kind: Connect" not in debug:
        return None
    if "InvalidContentType" in debug:
        text = f"{place} does not speak TLS: write its endpoint with http, and give allow_http=true"
    elif "InvalidCertificate" in debug:
        text = (
            f"the TLS certificate of {place} is not trusted: correct it, give its authority as "
            "root_certificate, or allow_invalid_certificates=true for a test"
        )
    elif "dns error" in debug:
        text = f"the host of {place} cannot be found: check the endpoint and the network"
    elif "ConnectionRefused" in debug:
        text = f"nothing answers at {place}: check the endpoint, and whether the server runs"
    else:
        text = f"{place} cannot be reached: check the endpoint, the network and its proxies"
    return Reason(text, unsent=True)


def _of_answer(failure: _Failure) -> Reason | None:
    """Return the reason if the service sent a known code."""
    message, code, status = _message(failure), failure.code, failure.status
    if code in _WRONG_REGIONS or failure.answer.startswith(_REDIRECT):
        match = _EXPECTED_REGION.search(failure.answer)
        known = f"region={match[1]}" if match else "its region, as region=… or AWS_REGION"
        return Reason(f"the bucket is in another region: give {known}", unsent=True, lasting=True)
    if code in _EXPIRED:
        return Reason(
            f"the credentials have expired ({message}): get new ones, or give a credential_provider that "
            "renews them",
            denied=True,
        )
    if code == "RequestTimeTooSkewed":
        return Reason(f"the clock of this machine is wrong ({message}): set it", denied=True)
    if code in _WRONG_KEYS:
        return Reason(
            f"the credentials were refused ({message}): check the key and its secret ({_GUIDE})", denied=True
        )
    if code in _NO_BUCKET:
        return Reason("the bucket or container is not there: check its name, or create it")
    if status in (401, 403):
        return Reason(f"{message}: check the credentials and their rights ({_GUIDE})", denied=True)
    if status in (429, 503):
        return Reason(f"the service is busy ({message}): try again later")
    return None


def _message(failure: _Failure) -> str:
    """Return the message of the service, without markup."""
    status, message = _STATUS.search(failure.answer), _MESSAGE.search(failure.answer)
    parts = [
        f"{status[1]} {status[2]}".strip() if status else "",
        failure.code,
        (message[1] or message[2]).strip().rstrip(".") if message else "",
    ]
    text = ", ".join(part for part in parts if part) if failure.code or message else failure.answer
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"
