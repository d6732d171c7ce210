"""Bearer tokens: who does not present one is turned away, on both ports."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Final

import grpc

from lode.ingest.api.errors import end_call, error_response
from lode.ingest.status import Code, Refused
from lode.ui import is_public

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

# Who watches over a server need not be let in.
_OPEN_SERVICES: Final = ("/grpc.health.",)
_OPEN_PATHS: Final = ("/healthz", "/readyz")

_REFUSAL: Final = Refused(
    Code.UNAUTHENTICATED,
    "The request presents no valid token: send the header 'authorization: Bearer <token>'.",
)


class Tokens:
    """The tokens that open the door; none at all means that it stands open."""

    def __init__(self, tokens: frozenset[str]) -> None:
        self._tokens = [token.encode() for token in sorted(tokens)]

    def allow(self, authorization: str | bytes | None) -> bool:
        if not self._tokens:
            return True
        given = authorization.encode() if isinstance(authorization, str) else authorization or b""
        scheme, _, token = given.partition(b" ")
        # Every token is compared, each in constant time: the answer's delay tells nothing.
        matches = [hmac.compare_digest(token.strip(), known) for known in self._tokens]
        return scheme.lower() == b"bearer" and any(matches)


class TokenInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Turns away gRPC calls without a token."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        metadata = {key.lower(): value for key, value in handler_call_details.invocation_metadata or ()}
        if (
            handler is None
            or handler_call_details.method.startswith(_OPEN_SERVICES)
            or self._tokens.allow(metadata.get("authorization"))
        ):
            return handler

        async def refuse(_: Any, context: Any) -> None:
            await end_call(context, _REFUSAL)

        if handler.response_streaming:
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
        else:
            make = (
                grpc.stream_unary_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_unary_rpc_method_handler
            )
        return make(refuse)


class TokenMiddleware:
    """Turns away HTTP requests without a token."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope["path"]):
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if not self._tokens.allow(headers.get(b"authorization")):
                refusal = error_response(_REFUSAL)
                refusal.headers["www-authenticate"] = "Bearer"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_open(path: str) -> bool:
    """Health, and the console's page itself, which asks for a token and shows nothing without one."""
    return path in _OPEN_PATHS or is_public(path)
