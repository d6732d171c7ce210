"""Bearer tokens: requests without a valid token are refused on both ports."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Final

import grpc

from lode.ingest.api.client import client_of_call, client_of_scope, name_scope
from lode.ingest.api.errors import end_call, error_response
from lode.ingest.status import Code, Refused
from lode.ui import is_public

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from lode.ingest.api.audit import Audit

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
        return self.find(authorization) is not None

    def find(self, authorization: str | bytes | None) -> bytes | None:
        """The valid token of a request; None refuses it. Empty if every request is allowed."""
        if not self._tokens:
            return b""
        given = authorization.encode() if isinstance(authorization, str) else authorization or b""
        scheme, _, token = given.partition(b" ")
        # Every token is compared in constant time, so that the response time reveals nothing.
        matches = [hmac.compare_digest(token.strip(), known) for known in self._tokens]
        return token.strip() if scheme.lower() == b"bearer" and any(matches) else None

    def client_of(self, context: Any) -> str:
        """The name of the client of a gRPC call."""
        return client_of_call(context, self.find(_metadata(context.invocation_metadata())) or b"")


def _metadata(sent: Any) -> str | bytes | None:
    found: dict[str, str | bytes] = {key.lower(): value for key, value in sent or ()}
    return found.get("authorization")


class TokenInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Refuses gRPC calls without a token."""

    def __init__(self, tokens: Tokens, audit: Audit) -> None:
        self._tokens = tokens
        self._audit = audit

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        if (
            handler is None
            or handler_call_details.method.startswith(_PUBLIC_SERVICES)
            or self._tokens.allow(_metadata(handler_call_details.invocation_metadata))
        ):
            return handler

        async def refuse(_: Any, context: Any) -> None:
            self._audit.refused_token(client_of_call(context, b""), handler_call_details.method)
            await end_call(context, _REFUSAL)

        return _HANDLERS[handler.request_streaming, handler.response_streaming](refuse)


class TokenMiddleware:
    """Refuses HTTP requests without a token, and gives the others the name of their client."""

    def __init__(self, app: ASGIApp, tokens: Tokens, audit: Audit) -> None:
        self._app = app
        self._tokens = tokens
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: dict[bytes, bytes] = dict(scope["headers"])
            token = self._tokens.find(headers.get(b"authorization"))
            name_scope(scope, token or b"")
            if token is None and not _is_public(scope["path"]):
                self._audit.refused_token(client_of_scope(scope), f"{scope['method']} {scope['path']}")
                refusal = error_response(_REFUSAL)
                refusal.headers["www-authenticate"] = "Bearer"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_public(path: str) -> bool:
    """Health checks are public, and the console's page, which asks for a token before it shows data."""
    return path in _PUBLIC_PATHS or is_public(path)
