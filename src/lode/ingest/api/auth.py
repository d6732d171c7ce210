"""Bearer tokens: requests without a valid token are refused on both ports."""

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

# Monitoring needs no token.
_PUBLIC_SERVICES: Final = ("/grpc.health.",)
_PUBLIC_PATHS: Final = ("/healthz", "/readyz")

# By whether requests and responses are streams.
_HANDLERS: Final = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}

_REFUSAL: Final = Refused(
    Code.UNAUTHENTICATED,
    "The request presents no valid token: send the header 'authorization: Bearer <token>'.",
)


class Tokens:
    """The valid tokens. Without any, every request is allowed."""

    def __init__(self, tokens: frozenset[str]) -> None:
        self._tokens = [token.encode() for token in sorted(tokens)]

    def allow(self, authorization: str | bytes | None) -> bool:
        if not self._tokens:
            return True
        given = authorization.encode() if isinstance(authorization, str) else authorization or b""
        scheme, _, token = given.partition(b" ")
        # Every token is compared in constant time, so that the response time reveals nothing.
        matches = [hmac.compare_digest(token.strip(), known) for known in self._tokens]
        return scheme.lower() == b"bearer" and any(matches)


class TokenInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Refuses gRPC calls without a token."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        metadata = {key.lower(): value for key, value in handler_call_details.invocation_metadata or ()}
        if (
            handler is None
            or handler_call_details.method.startswith(_PUBLIC_SERVICES)
            or self._tokens.allow(metadata.get("authorization"))
        ):
            return handler

        async def refuse(_: Any, context: Any) -> None:
            await end_call(context, _REFUSAL)

        return _HANDLERS[handler.request_streaming, handler.response_streaming](refuse)


class TokenMiddleware:
    """Refuses HTTP requests without a token."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_public(scope["path"]):
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if not self._tokens.allow(headers.get(b"authorization")):
                refusal = error_response(_REFUSAL)
                refusal.headers["www-authenticate"] = "Bearer"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_public(path: str) -> bool:
    """Health checks are public, and the console's page, which asks for a token before it shows data."""
    return path in _PUBLIC_PATHS or is_public(path)
