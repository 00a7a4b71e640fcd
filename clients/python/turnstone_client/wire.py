"""Types of the daemon's protocol.

Written by go run ./clients/generate from the Go types of package client. Do not edit.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

PROTOCOL = 1


class _AnswerPermissionParams(TypedDict):
    session: str
    permission: int
    ok: bool


class AnswerPermissionParams(_AnswerPermissionParams, total=False):
    """AnswerPermissionParams answer a permission by its number."""

    author: str


class _Attachment(TypedDict):
    session: str


class Attachment(_Attachment, total=False):
    """An Attachment is what a connection has to do with a session."""

    watches: bool
    reader: str  # under that name
    write_lock: bool  # no other client may write
    long_lock: bool  # until it is released, not for a turn
    calls: int  # that wait for it


class _Blob(TypedDict):
    bytes: int


class Blob(_Blob, total=False):
    """A Blob names data of a display that is not here."""

    digest: str  # with which Log.Blob has it; "" if nothing has


class _BlobParams(TypedDict):
    session: str
    digest: str


class BlobParams(_BlobParams, total=False):
    """BlobParams ask for data that an event of the session has, or had left out, by its digest."""

    offset: int
    limit: int  # bytes, at most session.MaxPartBytes, which 0 means


class _BlobPart(TypedDict):
    data: str  # at most MaxPartBytes
    offset: int
    bytes: int  # of the whole data


class BlobPart(_BlobPart, total=False):
    """A BlobPart is a part of data that a page has left out and named by its digest."""

    pass


class _ChangeNotice(TypedDict):
    subscription: str
    change: "Tick"


class ChangeNotice(_ChangeNotice, total=False):
    """A ChangeNotice says that a session has changed."""

    pass


class _ClientList(TypedDict):
    clients: List["ConnectedClient"]


class ClientList(_ClientList, total=False):
    """ClientList are those who are connected, by when they came."""

    pass


class _Completion(TypedDict):
    start: int  # bytes
    matches: List[str]


class Completion(_Completion, total=False):
    """A Completion lists texts that can replace text[Start:cursor]."""

    pass


class _ConnectedClient(TypedDict):
    client: str
    since: str
    sessions: List["Attachment"]


class ConnectedClient(_ConnectedClient, total=False):
    """ConnectedClient is one connection to the daemon."""

    pid: int  # its process, where the system tells
    author: str  # the last name that it gave
    self: bool  # it is the one that asks


class _CrashedSession(TypedDict):
    id: str  # unique, unlike the name
    name: str
    language: str
    found: str  # when it was found; it is kept from then on
    inputs: int
    bytes: int
    output_path: str


class CrashedSession(_CrashedSession, total=False):
    """A CrashedSession is a session whose daemon was killed. Its files are kept for a day."""

    pass


class _CrashedSessions(TypedDict):
    sessions: List["CrashedSession"]


class CrashedSessions(_CrashedSessions, total=False):
    """CrashedSessions are those that were lost in the last day, the newest first."""

    pass


class CreateParams(TypedDict, total=False):
    """CreateParams open a session. The answer comes at once when something has to be prepared first: its state is preparing then, input for it is held, and progress goes to Token."""

    name: str  # "" makes one up
    language: str  # "" is the daemon's default
    command: List[str]  # starts a worker of the caller's own, as a language that the daemon does not have; the first is an absolute path
    dir: str  # absolute; "" is the daemon's own
    runtime: str  # which interpreter, as --python has it
    packages: List[str]  # packages to prepare
    env: Dict[str, str]  # variables of its environment, beside those of the daemon's
    sandbox: str  # read-only, workspace or full; "" is full
    home: str  # what a sandbox shows of the home directory: documents or tools; "" is documents
    readable: List[str]  # more files and directories that a sandbox shows it, absolute
    writable: List[str]  # files and directories that it lets it write, absolute
    accepted: List[str]  # real paths of those that programs outside run or read, once more
    protected: List[str]  # paths in what it writes that stay as they are, absolute
    network: str  # of a sandbox: none, list or full; "" is none
    hosts: List[str]  # of the network list: patterns of hosts
    accept: str  # the weaker mechanism that a sandbox may have: landlock
    ask_user: bool  # hold what a sandbox refuses and a person could allow
    limits: "SessionLimits"
    session_idle_timeout_ms: int  # unused for so long it is closed; 0 is as the daemon has it
    progressToken: Any
    request: str  # as StartParams has it


class _Daemon(TypedDict):
    version: str
    protocol: int  # [Protocol]
    pid: int
    started: str
    languages: List[str]
    sessions: int
    connections: int


class Daemon(_Daemon, total=False):
    """Info describes the daemon."""

    draining: bool
    paused: bool
    warm_pools: List["WarmPool"]


class _Destination(TypedDict):
    address: str  # "example.org:443"
    connections: int
    sent: int  # bytes; those of a connection that lasts are counted by the megabyte
    received: int
    last: str


class Destination(_Destination, total=False):
    """Destination counts the connections of a session with a sandbox to one host and port."""

    refused: int  # how often it was not let through


class _Destinations(TypedDict):
    destinations: List["Destination"]


class Destinations(_Destinations, total=False):
    """Destinations lists the hosts in the network that a session has connected to, or tried to."""

    pass


class _DetachParams(TypedDict):
    client: str


class DetachParams(_DetachParams, total=False):
    """DetachParams end another connection."""

    author: str  # the author who ends it; the other client learns this


class _EndParams(TypedDict):
    session: str


class EndParams(_EndParams, total=False):
    """EndParams end a session's worker, or the session."""

    request: str  # as StartParams has it


class _Event(TypedDict):
    seq: int
    turn: int
    type: str


class Event(_Event, total=False):
    """eventJSON is an Event in JSON. Type says which of the other fields there are."""

    at: str
    generation: int
    between_turns: bool
    silent: bool
    line: int
    stream: str  # "stderr"; else it is stdout
    text: str  # of text, input_line
    data: Any  # of a display, and of text that is not UTF-8
    meta: Any
    id: str
    update: bool
    result: bool
    title: str
    omitted: Dict[str, "Blob"]
    input: str
    bytes: int
    author: str
    prompt: str
    kind: str  # of an input request, of text, of a limit
    secret: bool
    terminal: bool
    reader: str
    wait: bool
    input_request: int  # the id of one that has ended
    on: bool
    permission_id: int
    op: str
    path: str
    host: str
    child_program: str
    hint: str
    call: str
    detail: str
    destructive: bool
    read: str
    write: str
    always: bool
    outcome: Literal["ok", "error", "interrupted", "ended"]
    name: str
    message: str
    elapsed_ms: int
    used: int
    max: int
    all_sessions: bool
    step: Literal["warned", "refused", "interrupted", "ended"]
    program: str
    count: int
    failed: int
    cancelled: int
    sent: int
    received: int
    level: int
    progress: float
    total: float
    worker: str
    reason: str
    exit_code: int
    signal: str
    clean: bool
    last_line: str
    never_ready: bool
    peak_rss_bytes: int
    # from: int (a Python keyword: read it by its name in brackets)
    to: int
    first_line: int
    end_line: int


class _EventPage(TypedDict):
    events: List["Event"]
    first: int  # of the events, also those of a gap; 0 without any
    last: int
    end: int  # the newest event of the session


class EventPage(_EventPage, total=False):
    """An EventPage is a window of a session's events, in order. Lost ones are a timeline.Gap. The page after it is behind Last, and the one before it before First."""

    has_earlier: bool  # what was asked for has events before First
    has_later: bool  # and behind Last


class _File(TypedDict):
    name: str
    bytes: int
    modified: str


class File(_File, total=False):
    """A File is one in a session's own directory: its transcript, what it records, and pictures."""

    pass


class _FileList(TypedDict):
    files: List["File"]


class FileList(_FileList, total=False):
    """FileList are the plain files of a session's own directory, by name."""

    pass


class _FileParams(TypedDict):
    path: str  # its name, or its whole path as the daemon tells it


class FileParams(_FileParams, total=False):
    """FileParams ask for a part of a file in a session's own directory."""

    session: str
    crashed: str
    offset: int
    limit: int  # bytes, at most session.MaxPartBytes, which 0 means


class _FilePart(TypedDict):
    data: str  # at most MaxPartBytes
    offset: int
    bytes: int  # of the whole data


class FilePart(_FilePart, total=False):
    """A FilePart is a part of a file in a session's own directory. Bytes is the size of the file at that moment: it may grow, and begins anew when it is full."""

    id: str  # another one means another file of that name; "" where the system does not tell


class FilesParams(TypedDict, total=False):
    """FilesParams name a session whose own directory has files: one that is open, or one that was crashed, by the ID of its CrashedSession."""

    session: str
    crashed: str


class _Form(TypedDict):
    server: str  # the server that asks
    message: str  # its question, without control characters but newlines


class Form(_Form, total=False):
    """A Form is what a server of tools asks of a person while code calls one of its tools. A wait of kind timeline.InputKindForm has it. Answer takes a FormAnswer as JSON. Only a person may give it: a program must never fill in a form by itself, or because a model wants it."""

    schema: Any  # Schema is a JSON Schema of an object whose properties are texts, numbers, truth values, and lists of choices. See Fields.
    url: str  # URL, if set, is where the person shall go. Then there is no Schema, and to accept means that the person agrees to go there.


class Grant(TypedDict, total=False):
    """A Grant is a right that a person gives to a session. Read, Write and Host are for one with a sandbox. One of Read, Write, Host and Call is set."""

    read: str  # the absolute, real path of a file or directory to see
    write: str  # of one to write
    host: str  # "example.org", "*.example.org", "example.org:5432"
    call: str  # "github.search_issues", or "github.*" for all that are not destructive
    always: bool  # later sessions of the workspace have it, too
    accept: str  # Accept is the real path of Write once more. It is needed where programs outside would run or read what is written there; see KindUnconfirmed.
    identity: str  # Identity tells the file or directory from any other that has its path later; "" is whatever is there. An error of KindUnconfirmed has it.


class _GrantParams(TypedDict):
    session: str


class GrantParams(_GrantParams, total=False):
    """GrantParams give a session a right, one of Read, Write and Host."""

    read: str  # the absolute, real path of a file or directory to see
    write: str  # of one to write
    host: str  # "example.org", "*.example.org", "example.org:5432"
    call: str  # "github.search_issues", or "github.*" for all that are not destructive
    always: bool  # later sessions of the workspace have it, too
    accept: str  # Accept is the real path of Write once more. It is needed where programs outside would run or read what is written there; see KindUnconfirmed.
    identity: str  # Identity tells the file or directory from any other that has its path later; "" is whatever is there. An error of KindUnconfirmed has it.
    author: str


class _HelloParams(TypedDict):
    id: str  # random, of this process: 16 to 64 letters, digits, hyphens and underscores
    epoch: int  # counts the connections that the process makes, from 1


class HelloParams(_HelloParams, total=False):
    """HelloParams say who calls, as the first call of a connection. A connection with a higher epoch of the same client takes the place of the one before: see docs/daemon.md."""

    pass


class _HelloReply(TypedDict):
    version: str
    protocol: int  # [Protocol]
    pid: int
    started: str
    languages: List[str]
    sessions: int
    connections: int


class HelloReply(_HelloReply, total=False):
    """A HelloReply describes the daemon."""

    draining: bool
    paused: bool
    warm_pools: List["WarmPool"]
    known: bool  # the client was here before, and has again what it had


class _InputParams(TypedDict):
    session: str
    input_request: int
    input: str


class InputParams(_InputParams, total=False):
    """InputParams answer an input request."""

    eof: bool
    author: str
    wait_ms: int
    after: int
    read_cursor: int  # as StartParams has them
    continues: bool
    request: str


class _InputRequest(TypedDict):
    id: int
    turn: int
    prompt: str
    kind: Literal["line", "secret", "continue", "debugger", "permission", "form"]


class InputRequest(_InputRequest, total=False):
    """An InputRequest says that the active turn asks for standard input, or of a person: for a permission, or with the form of a server of tools."""

    secret: bool  # the answer must not be shown or logged
    terminal: bool  # a program reads the terminal; the runtime did not ask
    reader: str  # Terminal: that program's name
    permission: "PermissionRequest"  # set when Kind is timeline.InputKindPermission
    form: "Form"  # set when Kind is timeline.InputKindForm


class _Inspection(TypedDict):
    found: bool


class Inspection(_Inspection, total=False):
    """An Inspection describes one thing in a runtime."""

    data: Dict[str, str]  # by MIME type, text/plain at least


class _InterruptParams(TypedDict):
    session: str


class InterruptParams(_InterruptParams, total=False):
    """InterruptParams interrupt a turn by its number, so that a late interrupt does not hit the next one; or, with Active, whatever is active when the call arrives."""

    turn: int
    active: bool
    author: str
    request: str  # as StartParams has it


class _InterruptReply(TypedDict):
    result: Literal["idle", "waiting", "pending", "stale", "not running"]


class InterruptReply(_InterruptReply, total=False):
    """An InterruptReply says what came of an interrupt."""

    pass


class _Line(TypedDict):
    number: int  # from 1
    text: str


class Line(_Line, total=False):
    """A Line is a line of the output file."""

    pass


class _LiveEvent(TypedDict):
    subscription: str
    session: str
    event: "Event"


class LiveEvent(_LiveEvent, total=False):
    """A LiveEvent is one event as it happens."""

    pass


class _Match(TypedDict):
    seq: int  # the event in which the line begins
    turn: int
    text: str  # at most 500 bytes of the line, around what was found


class Match(_Match, total=False):
    """A Match is a line in which something was found."""

    line: int  # of the rendered output, from 1; 0 for input, and without a file
    input: bool  # it is a line of code or of an answer, not of output


class _NameParams(TypedDict):
    session: str


class NameParams(_NameParams, total=False):
    """NameParams name a session."""

    pass


class _OutlineParams(TypedDict):
    session: str


class OutlineParams(_OutlineParams, total=False):
    """OutlineParams ask for summaries of a session's turns."""

    after: int
    before: int
    # from: int (a Python keyword: read it by its name in brackets)
    backward: bool
    limit: int  # at most MaxSummaries; 0 means DefaultSummaries


class _Output(TypedDict):
    lines: List["Line"]
    total: int  # number of finished lines


class Output(_Output, total=False):
    """Output holds lines of the rendered output."""

    pass


class _OutputParams(TypedDict):
    session: str


class OutputParams(_OutputParams, total=False):
    """OutputParams look into the rendered output."""

    grep: str
    max: int  # matches, at most MaxMatches; 0 means DefaultMatches
    # from: int (a Python keyword: read it by its name in brackets)
    to: int


class _ParseReply(TypedDict):
    status: Literal["complete", "incomplete", "invalid", "unknown"]


class ParseReply(_ParseReply, total=False):
    """A ParseReply says whether text is a whole input."""

    pass


class _PendingCall(TypedDict):
    name: str
    running: int  # how many calls of it run
    since: str  # since when at least one did


class PendingCall(_PendingCall, total=False):
    """PendingCall is a function of the host that code in the session has called, and that runs."""

    pass


class _PermissionRequest(TypedDict):
    id: int
    op: str  # "write", "create", "remove", "rename", "change" (a mode), "set" (a setting of git), "read", "connect" or "call"
    grant: "Grant"  # Grant would let the call go on.


class PermissionRequest(_PermissionRequest, total=False):
    """A PermissionRequest is asked for what the sandbox refuses to a program, or for a function of the host that nobody has allowed. The program or function is held until a person has decided. A wait of kind timeline.InputKindPermission has it. The ID never repeats in a session. A call that begins again after an interrupt asks under its former ID."""

    path: str  # the file
    host: str  # "name:port"
    child_program: str  # the program's name, if it was a child
    call: str  # the function of the host, "github.search_issues"
    detail: str  # its arguments, in short; for "set" the name of the setting
    destructive: bool  # only a right that names Call in full lets it go on
    hint: str  # Hint is the command with which a person allows it; "" if nothing does.
    wider: "Grant"  # Wider would, too, and other calls with it. It is nil if there is no such right.


class _PreparationProgress(TypedDict):
    progressToken: Any
    progress: int


class PreparationProgress(_PreparationProgress, total=False):
    """PreparationProgress tells how far the preparation of sessions is."""

    total: int  # 0: not known; equal to Progress: over
    message: str


class _QueryParams(TypedDict):
    session: str
    text: str


class QueryParams(_QueryParams, total=False):
    """QueryParams ask about text, while the session is idle."""

    cursor: int  # bytes


class _ReadCursor(TypedDict):
    seq: int
    reader: str


class ReadCursor(_ReadCursor, total=False):
    """A ReadCursor is how far a reader has read; 0 when it was never here. Reader is its name: another one than was asked for, with a number, when Own wanted that."""

    pass


class _ReadCursorParams(TypedDict):
    session: str
    reader: str


class ReadCursorParams(_ReadCursorParams, total=False):
    """ReadCursorParams remember how far a reader has read, so that it can go on there after it was restarted. Without Seq they only ask."""

    seq: int
    own: bool  # not a name under which another connection reads


class _ReadParams(TypedDict):
    session: str


class ReadParams(_ReadParams, total=False):
    """ReadParams ask for a window of a session's events."""

    after: int
    before: int
    turn: int
    backward: bool
    limit: int  # events, at most MaxReadEvents; 0 means DefaultReadEvents
    bytes: int  # about the most of text and data, at most MaxReadBytes; 0 means that
    inline_bytes: int  # data with more bytes is left out and named by its digest; DefaultInlineBytes at least, MaxInlineBytes at most


class _Reply(TypedDict):
    session: str
    generation: int
    turn: int
    state: Literal["preparing", "starting", "idle", "running", "waiting", "stopping", "ended"]
    output_bytes: int  # text that Turn has written so far
    events: List["Event"]
    next: int  # the caller's new cursor
    elapsed_ms: int


class Reply(_Reply, total=False):
    """A Reply holds what happened between a caller's cursor and now."""

    outcome: Literal["ok", "error", "interrupted", "ended"]  # of Turn; "" while it runs
    input_request: "InputRequest"  # set when State is StateWaiting
    prompt: str  # the prompt that the runtime would show now
    pending_calls: List["PendingCall"]  # functions of the host that run


class _ResizeParams(TypedDict):
    session: str
    rows: int
    cols: int


class ResizeParams(_ResizeParams, total=False):
    """ResizeParams say how large the terminal of a session is from now on, in characters."""

    pass


class _SearchParams(TypedDict):
    session: str


class SearchParams(_SearchParams, total=False):
    """SearchParams ask for lines of a session."""

    text: str  # found in upper and lower case
    regexp: str  # of package regexp
    # from: str  # Next of the search before; "" is the beginning (a Python keyword: read it by its name in brackets)
    limit: int  # matches, at most MaxSearchMatches; 0 means DefaultSearchMatches


class _SearchResult(TypedDict):
    matches: List["Match"]


class SearchResult(_SearchResult, total=False):
    """SearchResult is what a search has found so far. One search goes through about 8 MiB, or for 0.2 s."""

    next: str  # where to go on; "" when all was searched


class _Session(TypedDict):
    name: str
    language: str  # "" while it is not known
    state: Literal["preparing", "starting", "idle", "running", "waiting", "stopping", "ended"]
    state_since: str  # when State was reached
    generation: int
    turn: int  # the active turn, or the last one
    opened_at: str
    last_seq: int
    watchers: int  # in a daemon


class Session(_Session, total=False):
    """Info describes a session at one moment."""

    preparation_error: str  # why it could not be prepared
    packages: List[str]  # packages that it was asked to have
    input_request: "InputRequest"  # set when State is StateWaiting
    prompt: str
    pid: int  # of the worker; 0 when there is none
    memory_bytes: int
    runtime_version: str  # its version; "" until the worker is ready
    executable: str
    executable_source: str  # how Executable was chosen
    notice: str  # a warning about that choice; see workers.Spec
    dir: str  # the workers' directory
    sandbox: str  # what confines it; "" when nothing does
    accepted_mechanism: str  # the mechanism that its user accepted in place of namespaces, if its worker has that
    granted: List["Grant"]  # what persons gave it beside that; see Session.Allow
    limits: str  # in words; "" when there are none
    output_path: str  # the rendered transcript; "" when there is none
    crashed_transcript: str  # the transcript of an earlier session of this name whose program was killed
    write_lock_holder: str  # the author who holds the write lock, in a daemon
    continuation: str  # Continuation is the prompt for the further lines of an input, where it is not the usual one of the language.
    running_ms: int


class SessionLimits(TypedDict, total=False):
    """Limits bound what a session uses; zero fields bound nothing."""

    memory: int  # bytes
    processes: int  # with their threads
    cpus: int
    files: int  # open in each process
    disk: int  # bytes
    turn_ms: int


class _SessionList(TypedDict):
    sessions: List["Session"]


class SessionList(_SessionList, total=False):
    """All sessions, by name."""

    pass


class _Snapshot(TypedDict):
    subscription: str
    session: "Session"
    events: List["Event"]
    seq: int  # all up to it; live events follow behind it


class Snapshot(_Snapshot, total=False):
    """A Snapshot is what had happened when a subscription began. A large one comes in parts, of which the last has More false."""

    more: bool


class _StartParams(TypedDict):
    session: str
    input: str


class StartParams(_StartParams, total=False):
    """StartParams run code. With WaitMS the answer is that of a wait. With WriteLock no other client may write until the turn is over. With Request, a name that the client gives to this call and to its repetitions, the code runs once however often the call is made: the daemon remembers the last 256 of each client."""

    write_lock: bool
    silent: bool  # see session.Session.SubmitSilent
    may_exit: bool  # see session.Session.SubmitMayExit; not with Silent
    author: str
    wait_ms: int
    after: int
    read_cursor: int  # how far Author had read before, as ReadCursorParams have it
    continues: bool  # cancelling the call ends the waiting, not the turn
    request: str


class _SubscribeParams(TypedDict):
    session: str


class SubscribeParams(_SubscribeParams, total=False):
    """SubscribeParams watch a session from a cursor; 0 is its beginning. With ChangesOnly they watch only whether something changes, of one session, or of all with none."""

    after: int
    author: str  # who watches
    changes_only: bool
    blobs: str  # BlobsRef: data from 4 KiB on is left out and named by its digest


class _SubscribeReply(TypedDict):
    subscription: str
    seq: int


class SubscribeReply(_SubscribeReply, total=False):
    """A SubscribeReply names a subscription. A snapshot of everything up to Seq follows. A resumed subscription has the current question again, because its client may have forgotten it."""

    input_request: "InputRequest"


class _SubscriptionEnd(TypedDict):
    subscription: str
    session: str
    reason: str


class SubscriptionEnd(_SubscriptionEnd, total=False):
    """A SubscriptionEnd says that a subscription is over, and why: its session was closed, or its connection is ended by somebody else."""

    detached: bool


class _SubscriptionParams(TypedDict):
    subscription: str


class SubscriptionParams(_SubscriptionParams, total=False):
    """SubscriptionParams name a subscription."""

    pass


class _Tick(TypedDict):
    session: str
    last_seq: int
    state: Literal["preparing", "starting", "idle", "running", "waiting", "stopping", "ended"]
    generation: int
    turn: int  # the active turn, or the last one


class Tick(_Tick, total=False):
    """A Tick says how a session is now, in a few bytes: it tells a front end that there is something new to read."""

    input_request: "InputRequest"  # set when State is StateWaiting
    closed: bool  # for good; it is the last tick of the session


class _TurnAccepted(TypedDict):
    request: str
    session: str
    turn: int


class TurnAccepted(_TurnAccepted, total=False):
    """A TurnAccepted says which turn a call with a Request has started or answered, before it is over."""

    pass


class _TurnSummaries(TypedDict):
    turns: List["TurnSummary"]
    end: int  # the newest event of the session


class TurnSummaries(_TurnSummaries, total=False):
    """A TurnSummaries lists turns, and the start-ups of workers, in order. To learn what is new, ask for what is behind the cursor End: the turn that ran then is in the answer again."""

    has_earlier: bool  # what was asked for has turns before the first
    has_later: bool  # and after the last


class _TurnSummary(TypedDict):
    turn: int
    first: int  # its first event
    last: int  # its newest event
    at: str  # of the first event


class TurnSummary(_TurnSummary, total=False):
    """A TurnSummary says in short what a turn was. The start-up of each generation has one, too, as turn 0. Events between two turns belong to the one before."""

    generation: int
    author: str
    code: str  # the first line of its input that is not blank, at most 160 bytes
    code_lines: int  # of its input, as far as TurnStarted has it
    lines: int  # newlines in its text
    bytes: int  # of text and pictures
    displays: int  # pictures and other results that are shown; updates count once
    silent: bool  # a tool asked for it, see Event.IsUnseen
    outcome: Literal["ok", "error", "interrupted", "ended"]  # "" while it runs
    error: str  # the name of the error that ended it
    elapsed_ms: int


class _Variable(TypedDict):
    name: str
    type: str


class Variable(_Variable, total=False):
    """A Variable is a name with its value in short."""

    shape: str  # as the language counts: "12", "(3, 4)"; empty when it has none
    bytes: int  # size of the value itself; 0 when unknown


class _Variables(TypedDict):
    variables: List["Variable"]  # at most 200
    more: int  # how many are not in List


class Variables(_Variables, total=False):
    """Variables lists what user code has defined, newest first, data before functions and classes."""

    pass


class _Visibility(TypedDict):
    paths: List["VisiblePath"]  # sorted, at most MaxVisiblePaths
    withheld_variables: List[str]  # WithheldVariables are the names of variables, sorted, at most MaxVisiblePaths; "the login in NAME" for those of which only that was cut out.


class Visibility(_Visibility, total=False):
    """Visibility is what a session with a sandbox sees of the home directory, which is built for it, and what it does not have of the environment."""

    home: str  # "" if it is not built
    more_paths: int  # how many there are besides
    more_withheld: int


class _VisiblePath(TypedDict):
    path: str
    reason: str  # "document", "toolchain", "cache", "on PATH", …; see docs/sandbox-reference.md


class VisiblePath(_VisiblePath, total=False):
    """A VisiblePath is a file or directory there."""

    pass


class _WaitParams(TypedDict):
    session: str


class WaitParams(_WaitParams, total=False):
    """WaitParams wait until a turn ends or asks for input, for WaitMS at most; 0 does not wait. Turn is one that was started or fed here, and not long ago; 0 is whatever is active."""

    turn: int
    wait_ms: int
    after: int


class _WarmPool(TypedDict):
    language: str
    ready: int
    count: int  # how many it would keep
    dir: str  # where they work; only sessions that start alike are given


class WarmPool(_WarmPool, total=False):
    """WarmPool are the sessions of one language that a daemon keeps ready for those who create one."""

    failure: str  # why no more are made


class _WriteLockParams(TypedDict):
    session: str
    author: str


class WriteLockParams(_WriteLockParams, total=False):
    """WriteLockParams take or release the write lock of a session. A lock with Long is announced in the session; a lock for one turn is not."""

    long: bool
