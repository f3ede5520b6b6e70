"""An adapter: an agent at an exact version, its image, and how each surface starts it. Data only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from runner.config.base import MAX_COUNT, MAX_MB, Argv, Below, Config, EnvName, Id, Regex
from runner.config.normaliser import Normaliser

Dialect = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]
#: How a CLI surface's standard output is read.
CliParser = Literal[
    "claude-stream-json",
    "gemini-stream-json",
    "codex-json",
    "opencode-json",
    "vibe-streaming",
    "cline-json",
    "generic",
]
Meaning = Literal["read", "run", "edit", "write", "list", "search", "plan", "delegate", "mcp"]
#: Meanings that not every agent has a way for: a script that needs one is not meant for an adapter without it.
OPTIONAL_MEANINGS = frozenset({"plan", "delegate", "mcp"})


#: What is filled in where an agent is started.
PLACEHOLDERS = ("prompt", "prompt_file", "workspace", "model_url", "model_key", "home")


def _spelt(text: str) -> str:
    """Refuses what is nearly a placeholder; braces that are nowhere near one are the agent's own."""
    for name in re.findall(r"\{([a-z_]+)\}", text):
        near = difflib.get_close_matches(name, PLACEHOLDERS, n=1, cutoff=0.75)
        if near and name not in PLACEHOLDERS:
            raise ValueError(f"nothing fills in '{{{name}}}'; did you mean '{{{near[0]}}}'?")
    return text


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders filled in, in one pass: braces in a prompt are its own, on every surface."""
    return re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found[1], found[0]), text)


#: Where the prompt lies for a launch that takes it from a file, below HOME.
PROMPT_FILE = ".acpbench-prompt.txt"
#: A text in which placeholders are filled in.
Template = Annotated[str, AfterValidator(_spelt)]


class Package(Config):
    """One pinned package inside the image."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    #: Where it is installed, a folder inside the image (npm: the package's own folder).
    path: str | None = None


class Program(Config):
    """A program inside the image that states its own version; `expect` must stand in what it prints."""

    name: Id
    command: Argv
    expect: str


class Launch(Config):
    """How one transport starts the agent.

    `{prompt} {prompt_file} {workspace} {model_url} {model_key} {home}` are filled in.
    """

    command: Annotated[Argv, AfterValidator(lambda words: [_spelt(word) for word in words])]
    env: dict[EnvName, Template] = {}
    #: Files written into HOME before the start: path relative to HOME -> content (same placeholders).
    home: dict[Below, Template] = {}
    #: The binary whose sha256 the lock states for this surface.
    binary: str = Field(pattern="^/")
    #: CLI only: how its output is read.
    parser: CliParser = "generic"
    #: CLI only: how it is given the prompt. `argv`: where `{prompt}` stands, at most 131,071 bytes; `stdin`: on
    #: standard input, which is closed behind it; `file`: in a file, whose path stands where `{prompt_file}` does.
    prompt: Literal["argv", "stdin", "file"] = "argv"

    @model_validator(mode="after")
    def _given_once(self) -> Launch:
        texts = [*self.command, *self.env.values(), *self.home.values()]
        argument, file = (any(f"{{{name}}}" in text for text in texts) for name in ("prompt", "prompt_file"))
        if self.prompt != "argv" and argument:
            raise ValueError(f"'prompt: {self.prompt}' and '{{prompt}}' give the prompt twice")
        if file != (self.prompt == "file"):
            raise ValueError("'prompt: file' and '{prompt_file}' go together")
        return self

    def filled(self, values: Mapping[str, str], adapter: Adapter) -> Started:
        """What is started, with the prompt's file where it is given by one; `values`: of the placeholders."""
        values = {**values, "prompt_file": f"{values['home']}/{PROMPT_FILE}"}
        home = {path: fill_in(text, values) for path, text in {**adapter.home, **self.home}.items()}
        if self.prompt == "file":
            home[PROMPT_FILE] = values["prompt"]
        env = {name: fill_in(value, values) for name, value in {**adapter.env, **self.env}.items()}
        return Started([fill_in(word, values) for word in self.command], env, home)


class Started(NamedTuple):
    """A launch with everything filled in."""

    argv: list[str]
    env: dict[str, str]
    #: Path below HOME -> content.
    home: dict[str, str]


class ToolCall(Config):
    """One way to say a meaning: a tool and its arguments, in both of which `{path}`, `{command}`, ... are filled in."""

    tool: str
    arguments: dict[str, Any] | str = {}


class SideRule(Config):
    """A request that is not the conversation: how it is recognised (all given conditions hold) and answered."""

    name: Id
    #: HTTP method; default any.
    method: str | None = None
    #: Substring of the path (after the run token).
    path: str | None = None
    #: Substring of the model name.
    model: str | None = None
    #: Substring of the raw request body.
    body: str | None = None
    #: True: only requests without tools; False: only requests with some.
    without_tools: bool | None = None
    #: Only requests that offer all of these tools.
    tools: list[str] = []
    #: Only requests that offer at most this many tools.
    max_tools: int | None = Field(default=None, ge=0, le=MAX_COUNT)
    #: One of the stop sequences asked for.
    stop_sequence: str | None = None
    #: Only requests for an answer in a JSON schema that has all of these properties ([]: any schema).
    schema_properties: list[str] | None = None
    #: Answer as assistant text in the dialect; `say_json` is the same as JSON text.
    say: str | None = None
    say_json: dict[str, Any] | None = None
    #: Answer by calling this tool with these arguments.
    call: ToolCall | None = None
    #: A raw JSON body; without any of these an empty one.
    json_body: dict[str, Any] | None = None
    status: int = Field(default=200, ge=100, le=599)

    @model_validator(mode="after")
    def _recognises_something(self) -> SideRule:
        told = self.model_dump(exclude_unset=True, exclude={"name", "say", "say_json", "call", "json_body", "status"})
        if all(condition is None for condition in told.values()):
            raise ValueError("has no condition: it would answer every request, the conversation's too")
        return self

    @model_validator(mode="after")
    def _one_answer(self) -> SideRule:
        given = [key for key in ("say", "say_json", "call", "json_body") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"gives {len(given)} answers ({', '.join(given)}); a rule has one")
        return self


class ResultPatterns(Config):
    """How the agent words what came of a tool call, where the API has no field for it. Any of them decides."""

    #: Says who did it: a test runner's summary counts cancelled tests, and a shell is denied permission too.
    rejected: list[Regex] = [
        r"(?i:\b(rejected|refused|denied|declined|cancell?ed) by (the |your )?user\b)",
        r"(?i:\buser (has |had )?(rejected|refused|denied|declined|cancell?ed)\b)",
        r"(?i:\buser (did not|didn't|does not|doesn't) (allow|approve|want)\b)",
    ]
    failed: list[Regex] = [r"(?i:\bexit(ed)?( with)?( status| code)?:? [1-9])"]
    #: The agent, or the client it left a file to, would not do it: no user was asked, or none was heeded.
    blocked: list[Regex] = [
        r"(?i:\b(leads|lies|is|resolves) outside\b)",
        r"(?i:\boutside (of )?(the|your) (session|workspace|project|working|allowed))",
        r"(?i:\b(not in|must stay within) (the )?(workspace|cwd|project)\b)",
        r"(?i:\b(was|has been|is) blocked\b)",
    ]


class Limits(Config):
    """What one run of this agent may use. Megabytes are 10^6 bytes."""

    #: The agent's and its helpers'; what our guest beside it needs is added to it.
    memory_mb: int = Field(default=2048, ge=64, le=MAX_MB)
    cpus: float = Field(default=2.0, ge=0.01, le=1024)
    pids: int = Field(default=512, ge=32, le=1 << 22)
    #: Megabytes the run may take on disk, by whatever way: written in sum, preallocated in sum, or standing there (an
    #: entry counts 512 bytes more, a folder 4,096 at least). No single file may be
    #: larger, not even a sparse one or one in memory.
    disk_mb: int = Field(default=1024, gt=0, le=MAX_MB)


class Session(Config):
    """Set-up before the first prompt; the mode is pinned explicitly where the agent has modes."""

    #: Id of one of the agent's `authMethods`: `authenticate` is sent with it before session/new.
    authenticate: str | None = Field(default=None, min_length=1, max_length=1000)
    mode: str | None = None
    #: session/set_config_option calls, in order: configId -> value.
    config_options: dict[str, str | bool] = {}


class Adapter(Config):
    """One YAML file under configs/adapters."""

    id: Id
    title: str
    #: Folder under images/ and the image's name.
    image: Id
    dialect: Dialect
    packages: list[Package] = Field(min_length=1)
    programs: list[Program] = Field(min_length=1)
    #: The transports it has.
    acp: Launch | None = None
    cli: Launch | None = None
    #: Environment and HOME files of every transport (a launch's own `env` and `home` win).
    env: dict[EnvName, Template] = {}
    home: dict[Below, Template] = {}
    session: Session = Session()
    #: Meaning -> ordered alternatives: the gateway takes the first one whose tool the request offers.
    tools: dict[Meaning, Annotated[list[ToolCall], Field(min_length=1)]]
    side_requests: list[SideRule] = []
    results: ResultPatterns = ResultPatterns()
    #: What it sends as a user message to go on after an answer that was cut short: no prompt of the user's.
    continuations: list[Regex] = []
    #: What its tools make up anew for each call: random ids and the like. Not what a replay of it is held to.
    normalisers: list[Normaliser] = []
    limits: Limits = Limits()
    #: Project folders that hold the agent's own state: they must be absent before the start.
    state_dirs: list[Below] = []
    #: Globs over the names of `files_outside.*` (`~` is HOME): what it writes beside its work, and has written or not
    #: when it is ended. No metric counts it; fsdiff.json has it.
    fleeting_files: list[str] = []
    #: Folder in the image of the ACP SDK the adapter pins (its JSON Schema is taken from there).
    acp_sdk: str | None = None
    accept_deprecated: str | None = None

    @model_validator(mode="after")
    def _acp_has_a_prompt_of_its_own(self) -> Adapter:
        if self.acp is not None and self.acp.prompt != "argv":
            raise ValueError("'acp' takes no 'prompt': the protocol says how it is given")
        return self
