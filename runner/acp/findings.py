"""Stable ids of what the client notices about an agent; each is one fact about frames, never a judgement on the run.

An id is part of the record's contract (`findings[].id`): it is never renamed, only added to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

# The line
NOT_UTF8: Final = "not-utf8"
NOT_JSON: Final = "not-json"
NOT_OBJECT: Final = "not-object"
NOT_JSONRPC: Final = "not-jsonrpc"
NUMBER_OUT_OF_RANGE: Final = "number-out-of-range"
BAD_NUMBER: Final = "bad-number"
TOO_DEEP: Final = "too-deep"
BLANK_LINE: Final = "blank-line"
BAD_ID: Final = "bad-id"
BATCH: Final = "batch"
BYTE_ORDER_MARK: Final = "byte-order-mark"
DUPLICATE_KEY: Final = "duplicate-key"
JSONRPC_VERSION: Final = "jsonrpc-version"
RESULT_AND_ERROR: Final = "result-and-error"
BAD_ERROR: Final = "bad-error"
BAD_PARAMS: Final = "bad-params"
NULL_ID: Final = "null-id"
OVERSIZE: Final = "oversize"
UNTERMINATED: Final = "unterminated"
MESSAGE_TOO_LARGE: Final = "message-too-large"

# Requests and notifications of the agent
UNDECLARED_METHOD: Final = "undeclared-method"
UNDECLARED_UPDATE: Final = "undeclared-update"
UNKNOWN_METHOD: Final = "unknown-method"
EXTENSION_REQUEST: Final = "extension-request"
UNKNOWN_NOTIFICATION: Final = "unknown-notification"
REQUEST_BEFORE_INITIALIZE: Final = "request-before-initialize"
DUPLICATE_REQUEST_ID: Final = "duplicate-request-id"
REQUEST_OUTSIDE_TURN: Final = "request-outside-turn"
DUPLICATE_OPTION_ID: Final = "duplicate-option-id"
CANCEL_UNKNOWN_REQUEST: Final = "cancel-unknown-request"

# Responses of the agent
UNKNOWN_RESPONSE_ID: Final = "unknown-response-id"
DUPLICATE_RESPONSE: Final = "duplicate-response"
ERROR_WITHOUT_ID: Final = "error-without-id"
UNANSWERED_REQUEST: Final = "unanswered-request"
VERSION_MISMATCH: Final = "version-mismatch"
BAD_RESULT: Final = "bad-result"

# Session and turn
WRONG_SESSION: Final = "wrong-session"
LATE_UPDATE: Final = "late-update"
EARLY_UPDATE: Final = "early-update"
CANCEL_NOT_HONOURED: Final = "cancel-not-honoured"
CANCEL_ANSWERED_WITH_ERROR: Final = "cancel-answered-with-error"
CANCELLED_UNASKED: Final = "cancelled-unasked"

# Tool calls
UPDATE_BEFORE_TOOL_CALL: Final = "tool-call-before-announcement"
TOOL_CALL_ANNOUNCED_TWICE: Final = "tool-call-announced-twice"
STATUS_BACKWARDS: Final = "tool-call-status-backwards"
TOOL_CALL_NOT_FINAL: Final = "tool-call-not-final"
PERMISSION_FOR_UNKNOWN_CALL: Final = "permission-for-unknown-call"
TOOL_CALL_WITHOUT_KIND: Final = "tool-call-without-kind"
TOOL_CALL_WITHOUT_ID: Final = "tool-call-without-id"
FOREIGN_TERMINAL: Final = "foreign-terminal"
TOOL_CALL_LIMIT: Final = "tool-call-limit"

# Schema
SCHEMA_INVALID: Final = "schema-invalid"
SCHEMA_INVALID_TOLERATED: Final = "schema-invalid-tolerated"

#: Characters of a finding's message that are kept: agents choose names, ids and texts as long as they like.
MAX_WORDS: Final = 500

DESCRIPTIONS: Final[dict[str, str]] = {
    NOT_UTF8: "a line on stdout is not UTF-8",
    NOT_JSON: "a line on stdout is not JSON",
    NOT_OBJECT: "a line on stdout is JSON, but neither an object nor an array",
    NOT_JSONRPC: "a JSON object is no JSON-RPC request, notification or response",
    NUMBER_OUT_OF_RANGE: "a number has more digits than the reader accepts",
    BAD_NUMBER: "a number that is read or kept is none of its kind: negative, out of range, not whole, or no number",
    TOO_DEEP: "JSON is nested deeper than the reader accepts",
    BLANK_LINE: "an empty line on stdout",
    BAD_ID: "an id is neither a string, a number nor null",
    BATCH: "a JSON-RPC batch array; ACP has none, it is not processed",
    BYTE_ORDER_MARK: "a line starts with a byte order mark; it is read without",
    DUPLICATE_KEY: "a JSON object holds a key twice; the last one counts",
    JSONRPC_VERSION: 'a message lacks "jsonrpc": "2.0"; it is read all the same',
    RESULT_AND_ERROR: "a response has a result and an error; an error that is not null counts",
    BAD_ERROR: "a response's error is not an object with a numeric code and a message",
    BAD_PARAMS: "params are not what the method needs; a request is answered -32602",
    NULL_ID: "a request with the id null; it is answered with the id null",
    OVERSIZE: "a line is longer than the framer keeps",
    UNTERMINATED: "the stream ended inside a line",
    MESSAGE_TOO_LARGE: "a line is longer than the client parses",
    UNDECLARED_METHOD: "the agent called a method whose client capability was not declared; answered -32601",
    UNDECLARED_UPDATE: "the agent sent an update whose client capability was not declared",
    UNKNOWN_METHOD: "the agent called a method that the protocol does not have; answered -32601",
    EXTENSION_REQUEST: "the agent called an extension method (leading underscore); answered -32601",
    UNKNOWN_NOTIFICATION: "a notification whose method is neither the protocol's nor an extension",
    REQUEST_BEFORE_INITIALIZE: "the agent called before it answered initialize",
    DUPLICATE_REQUEST_ID: "the agent used an id again while its first request is open",
    REQUEST_OUTSIDE_TURN: "the agent asked for permission while no prompt was running",
    DUPLICATE_OPTION_ID: "options of one permission request share an id, so none can be chosen; answered cancelled",
    CANCEL_UNKNOWN_REQUEST: "$/cancel_request names a request that is not open",
    UNKNOWN_RESPONSE_ID: "a response to an id that was never sent",
    DUPLICATE_RESPONSE: "a second response to the same request",
    ERROR_WITHOUT_ID: "an error response with the id null: the agent could not read what we sent",
    UNANSWERED_REQUEST: "a request of ours had no response when the stream ended",
    VERSION_MISMATCH: "initialize was answered with another protocol version",
    BAD_RESULT: "a result lacks what its method must answer",
    WRONG_SESSION: "the agent names a session that was never opened",
    LATE_UPDATE: "a part of a turn came after the prompt's response",
    EARLY_UPDATE: "an update came before the response that opens its session",
    CANCEL_NOT_HONOURED: "a cancelled turn ended with another stop reason than cancelled",
    CANCEL_ANSWERED_WITH_ERROR: "a cancelled turn ended with an error",
    CANCELLED_UNASKED: "a turn ended as cancelled though it was not cancelled",
    UPDATE_BEFORE_TOOL_CALL: "a tool_call_update for a call that no tool_call announced",
    TOOL_CALL_ANNOUNCED_TWICE: "a second tool_call for the same call",
    STATUS_BACKWARDS: "a tool call's status went back, or changed after it was final",
    TOOL_CALL_NOT_FINAL: "a tool call never reached completed or failed",
    PERMISSION_FOR_UNKNOWN_CALL: "permission was asked for a call that nothing announced before",
    TOOL_CALL_WITHOUT_KIND: "a tool call never had a kind",
    TOOL_CALL_WITHOUT_ID: "a tool call without a toolCallId",
    FOREIGN_TERMINAL: "a terminal content item whose terminal the client never created",
    TOOL_CALL_LIMIT: "more tool calls, or more of their input, than the client keeps",
    SCHEMA_INVALID: "a message that the protocol's JSON Schema refuses",
    SCHEMA_INVALID_TOLERATED: "a message that the JSON Schema refuses and the official SDKs repair silently",
}


@dataclass(frozen=True, slots=True)
class FrameFinding:
    """One fact. `seq` is the frame it rests on, None where it rests on the absence of one."""

    id: str
    message: str
    seq: int | None = None


class FindingLog:
    """Keeps the first `keep` findings of each id and counts all, so that a flood of faults costs no memory."""

    def __init__(self, keep: int = 100) -> None:
        self._keep = keep
        self.kept: list[FrameFinding] = []
        self.counts: Counter[str] = Counter()

    def add(self, id: str, message: str, seq: int | None = None) -> None:
        """`id` must be one of DESCRIPTIONS (KeyError otherwise: ids are a contract)."""
        DESCRIPTIONS[id]
        self.counts[id] += 1
        if self.counts[id] <= self._keep:
            self.kept.append(FrameFinding(id, message[:MAX_WORDS], seq))

    def extend(self, findings: list[FrameFinding]) -> None:
        for finding in findings:
            self.add(finding.id, finding.message, finding.seq)
