"""Types of the daemon's protocol.

Written by go run ./clients/generate from the Go types of package client/protocol. Do not edit.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

PROTOCOL = 1


class _EventHeader(TypedDict):
    seq: int
    turn: int


class EventHeader(_EventHeader, total=False):
    """The fields of every event."""

    at: str
    generation: int
    between_turns: bool
    silent: bool
    line: int


class _AccessDeniedEvent(EventHeader):
    type: Literal["access_denied"]


class AccessDeniedEvent(_AccessDeniedEvent, total=False):
    """AccessDenied reports an access that the sandbox denied or, for a Call, that no user has allowed. Exactly one of Path, Host and Call is set."""

    op: str
    path: str
    host: str
    child_program: str
    hint: str
    call: str
    detail: str
    destructive: bool
    author: str


class _AccessGrantedEvent(EventHeader):
    type: Literal["access_granted"]


class AccessGrantedEvent(_AccessGrantedEvent, total=False):
    """AccessGranted records that a user has granted the session access. Exactly one of Read, Write, Host and Call is set."""

    write: str
    host: str
    call: str
    always: bool
    author: str
    read: str


class _AnswerPermissionParams(TypedDict):
    session: str
    permission: int
    ok: bool


class AnswerPermissionParams(_AnswerPermissionParams, total=False):
    """AnswerPermissionParams answer a permission request by its number."""

    author: str


class _ArgumentsParams(TypedDict):
    call: str


class ArgumentsParams(_ArgumentsParams, total=False):
    """ArgumentsParams ask for a part of the arguments of a call, which is a part of their JSON text."""

    offset: int  # bytes of UTF-8


class _ArgumentsPart(TypedDict):
    text: str
    next: int  # offset of the next part; the size of all if this is the last one


class ArgumentsPart(_ArgumentsPart, total=False):
    """An ArgumentsPart is a part of the arguments of a call."""

    more: bool


class _Attachment(TypedDict):
    session: str


class Attachment(_Attachment, total=False):
    """An Attachment describes how a connection uses a session."""

    watches: bool
    reader: str  # name under which it reads
    write_lock: bool  # no other client may write
    long_lock: bool  # the lock lasts until it is released, not just for a turn
    calls: int  # number of calls that wait for the session


class _Base64(TypedDict):
    base64: str


class Base64(_Base64, total=False):
    """base64JSON holds bytes of a display that are not UTF-8."""

    pass


class _Blob(TypedDict):
    bytes: int


class Blob(_Blob, total=False):
    """A Blob names data that was left out of a display."""

    digest: str  # argument of Log.Blob; "" if the data is gone


class _BlobParams(TypedDict):
    session: str
    digest: str


class BlobParams(_BlobParams, total=False):
    """BlobParams ask for data of an event by its digest, including data that was left out of the event."""

    offset: int
    limit: int  # bytes, at most session.MaxPartBytes, which 0 means
    buffer: bool  # the data follows the line of the answer


class _BlobPart(TypedDict):
    data: str  # at most MaxPartBytes
    offset: int
    bytes: int  # of the whole data


class BlobPart(_BlobPart, total=False):
    """A BlobPart is a part of data that a page left out and named by its digest."""

    pass


class _CallEvent(EventHeader):
    type: Literal["call"]


class CallEvent(_CallEvent, total=False):
    """Call reports calls of one host function and how they ended: all calls of that function that ended since the last such event."""

    name: str
    count: int
    failed: int
    cancelled: int
    sent: int
    received: int
    elapsed_ms: int


class _ChangeNotice(TypedDict):
    subscription: str
    change: "Tick"


class ChangeNotice(_ChangeNotice, total=False):
    """A ChangeNotice reports that a session has changed."""

    pass


class _ClientList(TypedDict):
    clients: List["ConnectedClient"]


class ClientList(_ClientList, total=False):
    """ClientList lists the connected clients, in the order in which they connected."""

    pass


class _CommBuffer(TypedDict):
    path: Any
    data: str


class CommBuffer(_CommBuffer, total=False):
    """A CommBuffer is the binary value at a path of a state, such as ['image', 0]."""

    pass


class _CommChanges(TypedDict):
    next: int  # the cursor after these messages


class CommChanges(_CommChanges, total=False):
    """CommChanges is the answer to a CommsQuery. Of several updates of one comm it has the newest values. A new worker has no comms of the one before."""

    seq: int  # of the last event before the answer: they belong to its turn
    messages: List["CommMessage"]


class _CommMessage(TypedDict):
    op: Literal["open", "update", "close"]
    id: str


class CommMessage(_CommMessage, total=False):
    """A CommMessage is a message about a comm of Jupyter: a named object in the worker, such as a widget, whose state front ends of notebooks mirror."""

    target: str  # of CommOpen: what handles it in a front end
    data: Any  # Data is a JSON object: for CommOpen the data with which the comm was opened, for CommUpdate the members of the state that have changed.
    metadata: Any  # of CommOpen: a JSON object
    buffers: List["CommBuffer"]


class _CommsParams(TypedDict):
    session: str


class CommsParams(_CommsParams, total=False):
    """CommsParams ask for changes of the comms of notebooks."""

    after: int
    wait_ms: int  # waits for a change, and then returns only the cursor


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

    pid: int  # its process, if the system reports it
    author: str  # the last name that it used
    self: bool  # it is the caller


class _CrashedSession(TypedDict):
    id: str  # unique, unlike the name
    name: str
    language: str
    found: str  # when it was found; its files are kept for a day from then on
    inputs: int
    bytes: int
    output_path: str


class CrashedSession(_CrashedSession, total=False):
    """A CrashedSession is a session whose daemon was killed. Its files are kept for a day."""

    pass


class _CrashedSessions(TypedDict):
    sessions: List["CrashedSession"]


class CrashedSessions(_CrashedSessions, total=False):
    """CrashedSessions lists the sessions that crashed in the last day, the newest first."""

    pass


class CreateParams(TypedDict, total=False):
    """CreateParams are the parameters of session/create, which opens a session. If something has to be prepared first, the answer comes at once. The state of the session is then preparing, its input is queued, and progress is sent with Token."""

    name: str  # "" generates one
    language: str  # "" is the daemon's default
    command: List[str]  # starts the caller's own worker, for a language that the daemon does not have; the first element is an absolute path
    dir: str  # absolute; "" is the daemon's working directory
    runtime: str  # which interpreter, as in the option --python
    packages: List[str]  # packages to prepare
    requires_python: str  # conditions for the version of Python, such as >=3.11
    env: Dict[str, str]  # environment variables, in addition to those of the daemon
    sandbox: str  # read-only, workspace or full; "" is full
    home: str  # what a sandbox shows of the home directory: documents or tools; "" is documents
    readable: List[str]  # more files and directories that a sandboxed session can read, absolute
    writable: List[str]  # files and directories that a sandboxed session can write, absolute
    accepted: List[str]  # repeats the real paths of writable files that programs outside the sandbox run or read
    protected: List[str]  # paths in writable directories that cannot be changed, absolute
    network: str  # network access of a sandbox: none, list or full; "" is none
    hosts: List[str]  # for the network list: patterns of hosts
    accept: str  # the weaker mechanism that a sandbox may use: landlock
    ask_user: bool  # block calls that a sandbox refuses until the user has decided
    term: str  # the TERM of programs, see workers.Spec.Term; "" is dumb
    limits: "SessionLimits"
    session_idle_timeout_ms: int  # the session is closed when unused for this long; 0 is the daemon's default
    progressToken: Any
    request: str  # as in StartParams


class _Daemon(TypedDict):
    version: str
    protocol: int  # [Protocol]
    pid: int
    started: str
    languages: List[str]
    sessions: int
    connections: int


class Daemon(_Daemon, total=False):
    """DaemonInfo describes the daemon: its program, its process and how much it serves."""

    draining: bool
    paused: bool
    warm_pools: List["WarmPool"]


class _Destination(TypedDict):
    address: str  # "example.org:443"
    connections: int
    sent: int  # bytes; an open connection is counted by the megabyte
    received: int
    last: str


class Destination(_Destination, total=False):
    """Destination counts the connections of a session with a sandbox to one host and port."""

    refused: int  # number of refused connections


class _Destinations(TypedDict):
    destinations: List["Destination"]


class Destinations(_Destinations, total=False):
    """Destinations lists the network destinations that a session has connected to, or tried to."""

    pass


class _DetachParams(TypedDict):
    client: str


class DetachParams(_DetachParams, total=False):
    """DetachParams end another connection."""

    author: str  # the author who ends it; the other client gets this name


class _DisplayEvent(EventHeader):
    type: Literal["display"]


class DisplayEvent(_DisplayEvent, total=False):
    """Display is content to show, in several equivalent types. An image is a Display with one type."""

    data: Dict[str, Union[str, "Base64"]]  # by MIME type: text, or bytes that are not UTF-8
    meta: Dict[str, Any]  # by MIME type
    id: str  # names it for updates
    update: bool  # it replaces the last display with this id
    result: bool  # it is the value of the turn
    title: str
    omitted: Dict[str, "Blob"]  # types that are not in data; read them with blob/get
    message: str  # names it in one line


class _EndParams(TypedDict):
    session: str


class EndParams(_EndParams, total=False):
    """EndParams name the session to close or to reset."""

    request: str  # as in StartParams


class _EventPage(TypedDict):
    events: List["Event"]
    first: int  # of the events, including those of a gap; 0 if there are none
    last: int
    end: int  # the newest event of the session


class EventPage(_EventPage, total=False):
    """An EventPage is a window of a session's events, in order. Lost events are a timeline.Gap. The next page is after Last, and the previous one before First."""

    has_earlier: bool  # the query matches events before First
    has_later: bool  # the query matches events after Last


class _File(TypedDict):
    name: str  # to show; bytes that are not UTF-8 are replaced
    path: str  # to use in calls; it always leads to the file
    bytes: int
    modified: str


class File(_File, total=False):
    """A File is a name in a session's working directory, or in its own directory."""

    type: Literal["directory", "link", "other"]
    executable: bool


class _FileList(TypedDict):
    files: List["File"]


class FileList(_FileList, total=False):
    """A FileList lists a directory, by name. With More, the directory has more names than are listed."""

    more: bool


class FileParams(TypedDict, total=False):
    """FileParams ask for a part of a file."""

    session: str
    crashed: str
    path: str  # "" is the working directory
    offset: int
    limit: int  # bytes, at most session.MaxPartBytes, which 0 means
    buffer: bool  # the data follows the line of the answer


class _FilePart(TypedDict):
    data: str  # at most MaxPartBytes
    offset: int
    bytes: int  # of the whole data


class FilePart(_FilePart, total=False):
    """A FilePart is a part of a file. Bytes is the current size of the file. A file of the session's own directory may grow, and it starts over when it is full."""

    id: str  # ID changes with the file. In the working directory that is each change. In the session's own directory it is another file of the same name, and "" where the system cannot tell.
    executable: bool


class FilesParams(TypedDict, total=False):
    """FilesParams name a directory or a file of a session: an open one by name, or a crashed one by the ID of its CrashedSession. For the form of a path, see session.FileTransfer. Only the own directory of a crashed session is left, session.OwnFiles."""

    session: str
    crashed: str
    path: str  # "" is the working directory


class _Form(TypedDict):
    server: str  # the server that asks
    message: str  # its question, without control characters but newlines


class Form(_Form, total=False):
    """A Form is a question of an MCP server for the user while code calls one of its tools. The form is part of an input request of kind timeline.InputKindForm. Answer takes a FormAnswer as JSON. Only the user may give it: a program must never fill in a form on its own, or because a model wants it."""

    schema: Any  # Schema is a JSON Schema of an object whose properties are strings, numbers, booleans, and lists of choices. See Fields.
    url: str  # URL, if set, is the address that the user is asked to open. Then there is no Schema, and to accept means that the user agrees to open it.


class _FullScreenChangedEvent(EventHeader):
    type: Literal["full_screen_changed"]


class FullScreenChangedEvent(_FullScreenChangedEvent, total=False):
    """FullScreenChanged records that a program has taken over the keys of the user's terminal, or given them back. Text between the two events belongs to a full-screen program."""

    on: bool


class _FunctionCall(TypedDict):
    session: str
    generation: int
    turn: int  # 0 between turns
    function: str  # its name, with its group
    call: str  # names the call in function/arguments
    arguments_bytes: int  # size of its text


class FunctionCall(_FunctionCall, total=False):
    """A FunctionCall is a request of the daemon: code in a session calls a function of the client. The client answers with a FunctionResult, or with an error that may have a name."""

    arguments: Any  # an object of values; missing if it has more than 1 MiB


class _FunctionDoc(TypedDict):
    name: str


class FunctionDoc(_FunctionDoc, total=False):
    """A FunctionDoc describes a function of a client, as session.Function does."""

    group: str
    description: str
    parameters: Any  # a JSON Schema of type object
    returns: Any  # a JSON Schema


class _FunctionList(TypedDict):
    functions: List["GivenFunction"]


class FunctionList(_FunctionList, total=False):
    """FunctionList lists the functions that clients give to the code of a session, by name."""

    pass


class _FunctionResult(TypedDict):
    value: Any


class FunctionResult(_FunctionResult, total=False):
    """A FunctionResult is the result of a FunctionCall."""

    pass


class _FunctionsParams(TypedDict):
    session: str
    functions: List["FunctionDoc"]


class FunctionsParams(_FunctionsParams, total=False):
    """FunctionsParams give functions of a client to the code of a session. They replace the functions that this client has given before."""

    author: str


class _GapEvent(EventHeader):
    type: Literal["gap"]


_GapEventKeywords = TypedDict("_GapEventKeywords", {"from": int}, total=False)


class GapEvent(_GapEventKeywords, _GapEvent, total=False):
    """Gap stands for events that were dropped. Readers create it; it is never appended."""

    to: int
    bytes: int


class _GivenFunction(TypedDict):
    name: str  # with its group
    client: str  # as in ConnectedClient


class GivenFunction(_GivenFunction, total=False):
    """A GivenFunction is a function that a client gives to the code of a session."""

    description: str
    author: str
    gone: bool  # the client has disconnected, so calls fail


class Grant(TypedDict, total=False):
    """A Grant is access that a user grants to a session. Exactly one of Read, Write, Host and Call is set. Read, Write and Host are for a session with a sandbox."""

    read: str  # the absolute, real path of a file or directory to read
    write: str  # the absolute, real path of a file or directory to write
    host: str  # "example.org", "*.example.org", "example.org:5432"
    call: str  # "github.search_issues", or "github.*" for all that are not destructive
    always: bool  # later sessions of the workspace get it, too
    accept: str  # Accept repeats the real path of Write. It is required if programs outside the sandbox would run or read what is written there; see KindUnconfirmed.
    identity: str  # Identity distinguishes the file or directory from a later one at the same path; "" accepts either. An error of KindUnconfirmed contains it.


class _GrantParams(TypedDict):
    session: str


class GrantParams(_GrantParams, total=False):
    """GrantParams grant a session access: one of Read, Write and Host."""

    read: str  # the absolute, real path of a file or directory to read
    write: str  # the absolute, real path of a file or directory to write
    host: str  # "example.org", "*.example.org", "example.org:5432"
    call: str  # "github.search_issues", or "github.*" for all that are not destructive
    always: bool  # later sessions of the workspace get it, too
    accept: str  # Accept repeats the real path of Write. It is required if programs outside the sandbox would run or read what is written there; see KindUnconfirmed.
    identity: str  # Identity distinguishes the file or directory from a later one at the same path; "" accepts either. An error of KindUnconfirmed contains it.
    author: str


class _HelloParams(TypedDict):
    id: str  # random, one for each process: 16 to 64 letters, digits, hyphens and underscores
    epoch: int  # counts the connections that the process makes, from 1


class HelloParams(_HelloParams, total=False):
    """HelloParams say who calls, as the first call of a connection. A connection with a higher epoch of the same client replaces the previous one: see docs/daemon-protocol.md."""

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
    known: bool  # the daemon knows the client, which keeps its state


class _Highlight(TypedDict):
    row: int  # from 1
    col: int  # from 1
    text: str


class Highlight(_Highlight, total=False):
    """A Highlight is text that a program has drawn in reverse video or with a background of its own."""

    pass


class _InputLineEvent(EventHeader):
    type: Literal["input_line"]


class InputLineEvent(_InputLineEvent, total=False):
    """InputLine marks where a line of input, or keys, were passed to the program. Text is empty when Secret."""

    prompt: str
    text: str
    secret: bool
    author: str
    keys: bool


class _InputParams(TypedDict):
    session: str
    input_request: int
    input: str


class InputParams(_InputParams, total=False):
    """InputParams are the parameters of turn/input, which answers an input request."""

    eof: bool
    author: str
    wait_ms: int
    after: int
    read_cursor: int  # as in StartParams
    continues: bool
    request: str


class _InputRequest(TypedDict):
    id: int
    turn: int
    prompt: str
    kind: Literal["line", "secret", "continue", "debugger", "permission", "form"]


class InputRequest(_InputRequest, total=False):
    """An InputRequest says that the active turn asks for standard input, or asks the user for a permission or to fill in the form of an MCP server."""

    secret: bool  # the answer must not be shown or logged
    terminal: bool  # a program reads the terminal; the runtime did not ask
    reader: str  # Terminal: that program's name
    raw: bool  # Terminal: it reads each key, not lines; see Keys
    polls: bool  # Terminal: judged, because the program polls; it may continue without input
    permission: "PermissionRequest"  # set if Kind is timeline.InputKindPermission
    form: "Form"  # set if Kind is timeline.InputKindForm


class _InputRequestEndedEvent(EventHeader):
    type: Literal["input_request_ended"]


class InputRequestEndedEvent(_InputRequestEndedEvent, total=False):
    """InputRequestEnded records that the input request with this ID is over."""

    input_request: int


class _InputRequestedEvent(EventHeader):
    type: Literal["input_requested"]


class InputRequestedEvent(_InputRequestedEvent, total=False):
    """InputRequested records that a program asks for standard input, or the session for a decision of the user. The Seq of the event is the public ID of the request."""

    prompt: str
    kind: Literal["line", "secret", "continue", "debugger", "permission", "form"]
    terminal: bool
    reader: str
    permission_id: int
    op: str
    path: str
    host: str
    child_program: str
    hint: str
    call: str
    detail: str
    destructive: bool
    author: str
    raw: bool
    polls: bool


class _Inspection(TypedDict):
    found: bool


class Inspection(_Inspection, total=False):
    """An Inspection describes one name in a runtime."""

    data: Dict[str, str]  # by MIME type, text/plain at least


class _InterruptEvent(EventHeader):
    type: Literal["interrupt"]


class InterruptEvent(_InterruptEvent, total=False):
    """Interrupt records that a client asked to interrupt the turn."""

    level: int
    author: str


class _InterruptParams(TypedDict):
    session: str


class InterruptParams(_InterruptParams, total=False):
    """InterruptParams interrupt a turn by its number, so that a late interrupt does not hit the next one; or, with Active, the turn that is active when the call arrives."""

    turn: int
    active: bool
    author: str
    request: str  # as in StartParams


class _InterruptReply(TypedDict):
    result: Literal["idle", "waiting", "pending", "stale", "not running"]


class InterruptReply(_InterruptReply, total=False):
    """An InterruptReply reports the effect of an interrupt."""

    pass


class _Library(TypedDict):
    name: str
    version: str
    digest: str  # SHA-256, in hexadecimal


class Library(_Library, total=False):
    """A Library is a published build of a chart library. Only such files are released."""

    bytes: int  # of the whole script, if a part was asked for
    script: str  # at most session.MaxPartBytes


class _LibraryParams(TypedDict):
    path: str  # absolute


class LibraryParams(_LibraryParams, total=False):
    """LibraryParams ask for a chart library on the daemon's machine, by the path that a display names in its metadata."""

    script: bool  # also return a part of the script
    offset: int  # of that part, in bytes


class _LimitEvent(EventHeader):
    type: Literal["limit"]


class LimitEvent(_LimitEvent, total=False):
    """Limit records that the session came close to one of its limits, or reached it."""

    kind: Literal["memory", "processes", "turn"]
    used: int
    max: int
    all_sessions: bool
    step: Literal["warned", "refused", "interrupted", "ended"]
    program: str
    message: str  # says it in one line


class _Line(TypedDict):
    number: int  # from 1
    text: str


class Line(_Line, total=False):
    """A Line is one numbered line of the output file."""

    pass


class _Listener(TypedDict):
    program: str  # its name, of at most 15 bytes


class Listener(_Listener, total=False):
    """A Listener is a program that would read keys now, although it does not wait for them."""

    raw: bool  # it reads each key, not lines


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
    text: str  # at most 500 bytes of the line, around the match


class Match(_Match, total=False):
    """A Match is a line that a search found."""

    line: int  # of the rendered output, from 1; 0 for input, and without a file
    input: bool  # the line is code or an answer, not output


class _Metrics(TypedDict):
    text: str  # in the text format of Prometheus, version 0.0.4


class Metrics(_Metrics, total=False):
    """Metrics are the metrics of the daemon."""

    pass


class _NameParams(TypedDict):
    session: str


class NameParams(_NameParams, total=False):
    """NameParams name a session."""

    pass


class _NoticeEvent(EventHeader):
    type: Literal["notice"]


class NoticeEvent(_NoticeEvent, total=False):
    """Notice is a message of the supervisor to the readers of the session."""

    message: str


class _OmittedEvent(EventHeader):
    type: Literal["omitted"]


_OmittedEventKeywords = TypedDict("_OmittedEventKeywords", {"from": int}, total=False)


class OmittedEvent(_OmittedEventKeywords, _OmittedEvent, total=False):
    """Omitted stands for events that a Window left out on purpose and that are still on disk. Only Window creates it; it is never appended."""

    to: int
    bytes: int
    first_line: int
    end_line: int


class _OutlineParams(TypedDict):
    session: str


_OutlineParamsKeywords = TypedDict("_OutlineParamsKeywords", {"from": int}, total=False)


class OutlineParams(_OutlineParamsKeywords, _OutlineParams, total=False):
    """OutlineParams ask for summaries of a session's turns."""

    after: int
    before: int
    backward: bool
    limit: int  # at most MaxSummaries; 0 means DefaultSummaries


class _Output(TypedDict):
    lines: List["Line"]
    total: int  # number of finished lines


class Output(_Output, total=False):
    """Output contains lines of the rendered output."""

    pass


class _OutputClearedEvent(EventHeader):
    type: Literal["output_cleared"]


class OutputClearedEvent(_OutputClearedEvent, total=False):
    """OutputCleared asks to remove the turn's output so far. Readers that keep a record ignore it."""

    wait: bool


class _OutputParams(TypedDict):
    session: str


_OutputParamsKeywords = TypedDict("_OutputParamsKeywords", {"from": int}, total=False)


class OutputParams(_OutputParamsKeywords, _OutputParams, total=False):
    """OutputParams select lines of the rendered output."""

    grep: str
    max: int  # matches, at most MaxMatches; 0 means DefaultMatches
    to: int


class _ParseParams(TypedDict):
    session: str
    text: str


class ParseParams(_ParseParams, total=False):
    """ParseParams ask whether text is a complete input."""

    dialect: Literal["notebook"]  # of Text; see session.Session.InDialect


class _ParseReply(TypedDict):
    status: Literal["complete", "incomplete", "invalid", "unknown"]


class ParseReply(_ParseReply, total=False):
    """A ParseReply says whether text is a complete input."""

    pass


class _PendingCall(TypedDict):
    name: str
    running: int  # number of running calls
    since: str  # start of the time in which at least one is running


class PendingCall(_PendingCall, total=False):
    """PendingCall is a host function with running calls from code in the session."""

    pass


class _PermissionRequest(TypedDict):
    id: int
    op: str  # "write", "create", "remove", "rename", "change" (a mode), "set" (a setting of git), "read", "connect" or "call"
    grant: "Grant"  # Grant is the access that would let the call continue.


class PermissionRequest(_PermissionRequest, total=False):
    """A PermissionRequest asks for access that the sandbox denies to a program, or for a host function that no user has allowed. The program or function is blocked until the user has decided. The request is part of an InputRequest of kind timeline.InputKindPermission. The ID never repeats in a session. A call that starts again after an interrupt asks under its former ID."""

    path: str  # the file
    host: str  # "name:port"
    child_program: str  # the program's name, if it was a child
    call: str  # the host function, "github.search_issues"
    detail: str  # its arguments, abbreviated; for "set" the name of the setting
    destructive: bool  # only a grant that names Call in full allows it
    hint: str  # Hint is the command with which a user can allow it; "" if no command can.
    author: str  # Author is the user who refused it; "" if no user was asked.
    wider: "Grant"  # Wider is access that would also allow similar calls. It is nil if there is none.


class _PreparationEvent(EventHeader):
    type: Literal["preparation"]


class PreparationEvent(_PreparationEvent, total=False):
    """Preparation reports progress of the work that must be done before a worker can start. It is over when Done equals Total, or when its worker generation ends. Done never decreases."""

    name: str
    message: str
    progress: int
    total: int


class _PreparationProgress(TypedDict):
    progressToken: Any
    progress: int


class PreparationProgress(_PreparationProgress, total=False):
    """PreparationProgress reports the progress of preparing sessions."""

    total: int  # 0: unknown; equal to Progress: complete
    message: str


class _ProgressEvent(EventHeader):
    type: Literal["progress"]


class ProgressEvent(_ProgressEvent, total=False):
    """Progress says how far a turn is, as the runtime reports it."""

    progress: float
    total: float
    message: str


class _PutFileParams(TypedDict):
    session: str
    path: str
    transfer: str  # random, one for each file that is put: 16 to 64 letters, digits, hyphens and underscores


class PutFileParams(_PutFileParams, total=False):
    """PutFileParams send a piece of a file."""

    offset: int  # where the piece begins; 0 begins the transfer
    data: str  # at most MaxPartBytes
    last: bool
    crc32: str  # CRC32 may be given with Last: the CRC-32 of the file as in gzip (RFC 1952), as 8 hexadecimal digits. A file with another one is not written.
    overwrite: bool  # replace a file of that name
    executable: bool  # the user may execute the file
    parents: bool  # create missing directories of the path
    abort: bool  # give the transfer up, and remove what has arrived


class _PutProgress(TypedDict):
    bytes: int


class PutProgress(_PutProgress, total=False):
    """PutProgress says how much of a file has arrived."""

    done: bool  # the file has its name


class _QueryParams(TypedDict):
    session: str
    text: str


class QueryParams(_QueryParams, total=False):
    """QueryParams ask about text while the session is idle."""

    cursor: int  # bytes


class _ReadCursor(TypedDict):
    seq: int
    reader: str


class ReadCursor(_ReadCursor, total=False):
    """A ReadCursor is how far a reader has read; 0 if the reader is new. Reader is its name: with Own, it may differ from the requested one by a number."""

    pass


class _ReadCursorParams(TypedDict):
    session: str
    reader: str


class ReadCursorParams(_ReadCursorParams, total=False):
    """ReadCursorParams store how far a reader has read, so that it can continue there after a restart. Without Seq they only ask for the stored position."""

    seq: int
    own: bool  # do not share the name with another connection


class _ReadParams(TypedDict):
    session: str


class ReadParams(_ReadParams, total=False):
    """ReadParams ask for a window of a session's events."""

    after: int
    before: int
    turn: int
    backward: bool
    limit: int  # events, at most MaxReadEvents; 0 means DefaultReadEvents
    bytes: int  # approximate maximum of text and data, at most MaxReadBytes; 0 means MaxReadBytes
    inline_bytes: int  # data with more bytes is left out and named by its digest; from DefaultInlineBytes to MaxInlineBytes


class _RemoveFileParams(TypedDict):
    session: str
    path: str


class RemoveFileParams(_RemoveFileParams, total=False):
    """RemoveFileParams name a file of the working directory that is removed."""

    request: str  # ID of the request, for repetitions


class _Reply(TypedDict):
    session: str
    generation: int
    turn: int
    state: Literal["preparing", "starting", "idle", "running", "waiting", "stopping", "ended"]
    output_bytes: int  # size of the text that Turn has written so far
    events: List["Event"]
    next: int  # the caller's new cursor
    elapsed_ms: int


class Reply(_Reply, total=False):
    """A Reply contains what happened between a caller's cursor and now."""

    outcome: Literal["ok", "error", "interrupted", "ended"]  # of Turn; "" while it runs
    input_request: "InputRequest"  # set when State is StateWaiting
    prompt: str  # the prompt that the runtime would show now
    listener: "Listener"  # a program that would read keys now; nil if none is seen
    unread_keys: int  # bytes that were typed and that no program has read so far
    pending_calls: List["PendingCall"]  # host functions that are running


class _ResizeParams(TypedDict):
    session: str
    rows: int
    cols: int


class ResizeParams(_ResizeParams, total=False):
    """ResizeParams set the size of a session's terminal, in characters."""

    pass


class _Screen(TypedDict):
    lines: List[str]  # from the top, without trailing blanks and without blank lines at the bottom
    rows: int  # the size of the terminal in characters
    cols: int
    cursor_row: int  # from 1
    cursor_col: int  # from 1


class Screen(_Screen, total=False):
    """A Screen is what the programs of a turn show on the terminal."""

    cursor_hidden: bool
    full_screen: bool  # a program has switched to the alternate screen
    highlights: List["Highlight"]  # such as the selected entry of a menu; at most 16
    program: str  # the program that reads the terminal, if it is seen


class _SearchParams(TypedDict):
    session: str


_SearchParamsKeywords = TypedDict("_SearchParamsKeywords", {"from": str}, total=False)


class SearchParams(_SearchParamsKeywords, _SearchParams, total=False):
    """SearchParams search for lines of a session."""

    text: str  # case is ignored
    regexp: str  # in the syntax of package regexp
    limit: int  # matches, at most MaxSearchMatches; 0 means DefaultSearchMatches


class _SearchResult(TypedDict):
    matches: List["Match"]


class SearchResult(_SearchResult, total=False):
    """SearchResult has the matches of one search, which covers about 8 MiB or takes up to 0.2 s."""

    next: str  # where to continue; "" when everything was searched


class _Session(TypedDict):
    name: str
    language: str  # "" while unknown
    state: Literal["preparing", "starting", "idle", "running", "waiting", "stopping", "ended"]
    state_since: str  # when State was reached
    generation: int
    turn: int  # the active turn, or the last one
    opened_at: str
    last_seq: int
    watchers: int  # in a daemon


class Session(_Session, total=False):
    """Info describes a session at one moment."""

    preparation_error: str  # why the preparation failed
    packages: List[str]  # packages that were requested for it
    input_request: "InputRequest"  # set when State is StateWaiting
    queued_inputs: int  # how many wait for their turn; see TurnQueuer
    listener: "Listener"  # a program that would read keys now; nil if none is seen
    prompt: str
    pid: int  # of the worker; 0 when there is none
    memory_bytes: int
    runtime_version: str  # its version; "" until the worker is ready
    executable: str
    executable_source: str  # how Executable was chosen
    notice: str  # a warning about that choice; see workers.Spec
    dir: str  # the working directory of its workers
    sandbox: str  # its sandbox; "" when it has none
    accepted_mechanism: str  # the mechanism that its user accepted in place of namespaces, if its worker uses it
    granted: List["Grant"]  # access that users granted in addition; see Session.Allow
    limits: str  # the limits as text; "" when there are none
    output_path: str  # the rendered transcript; "" when there is none
    crashed_transcript: str  # the transcript of an earlier session with this name whose program was killed
    write_lock_holder: str  # the author who holds the write lock, in a daemon
    functions: int  # how many functions clients give to its code, in a daemon
    continuation: str  # Continuation is the prompt for the further lines of an input, if it is not the default one of the language.
    running_ms: int


class SessionLimits(TypedDict, total=False):
    """SessionLimits bound the resources of a session; zero fields bound nothing."""

    memory: int  # bytes
    processes: int  # including their threads
    cpus: int
    files: int  # open files of each process
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
    seq: int  # the snapshot reaches up to it; live events follow


class Snapshot(_Snapshot, total=False):
    """A Snapshot contains what happened before a subscription started. A large snapshot comes in parts; the last one has More false."""

    more: bool


class _StartParams(TypedDict):
    session: str
    input: str


class StartParams(_StartParams, total=False):
    """StartParams are the parameters of turn/start, which runs code. With WaitMS the call answers as turn/wait does. With WriteLock no other client may write until the turn is over. Request is a name that the client gives to this call and to its repetitions: with it, the code runs only once. The daemon remembers the last 256 requests of each client."""

    write_lock: bool
    silent: bool  # see session.Session.SubmitSilent
    may_exit: bool  # see session.Session.SubmitMayExit; not with Silent
    dialect: Literal["notebook"]  # see session.Session.InDialect
    author: str
    wait_ms: int
    after: int
    read_cursor: int  # how far Author had read before, as in ReadCursorParams
    continues: bool  # cancelling the call ends the wait, not the turn
    queue: bool  # wait while the session is busy; see session.TurnQueuer
    request: str
    traceparent: str  # the span of the caller, as a traceparent of the W3C; see session.WithTraceParent


class _SubscribeParams(TypedDict):
    session: str


class SubscribeParams(_SubscribeParams, total=False):
    """SubscribeParams watch a session from a cursor; 0 is its beginning. With ChangesOnly, they watch only whether the session changes, or any session if none is named."""

    after: int
    author: str  # who watches
    changes_only: bool
    blobs: str  # BlobsRef: data of 4 KiB or more is left out and named by its digest


class _SubscribeReply(TypedDict):
    subscription: str
    seq: int


class SubscribeReply(_SubscribeReply, total=False):
    """A SubscribeReply identifies the subscription that a call has made or resumed. A snapshot of everything up to Seq follows. A resumed subscription gets the current input request again, because its client may have forgotten it."""

    input_request: "InputRequest"


class _SubscriptionEnd(TypedDict):
    subscription: str
    session: str
    reason: str


class SubscriptionEnd(_SubscriptionEnd, total=False):
    """A SubscriptionEnd says that a subscription is over, and why: its session was closed, or another client ended the connection."""

    detached: bool


class _SubscriptionParams(TypedDict):
    subscription: str


class SubscriptionParams(_SubscriptionParams, total=False):
    """SubscriptionParams name a subscription."""

    pass


class _Table(TypedDict):
    v: int  # 1
    columns: List["TableColumn"]
    rows: List[List[str]]  # a text for each of Columns
    total: List[int]  # the rows and columns of the whole table


_TableKeywords = TypedDict("_TableKeywords", {"from": int}, total=False)


class Table(_TableKeywords, _Table, total=False):
    """A Table is a part of a data frame: some rows of its first columns, as text. Displays of data frames have their first rows in this form, as the type timeline.MIMETable."""

    index: List[str]  # the names of Rows, if the table has names for them
    handle: str  # Handle is what a TableQuery needs for more rows. It is empty if there are no more to have.
    matched: int  # of a TableQuery: how many rows it found; without Find, all
    cut: int  # the number of texts that are cut; "…" or "..." is where
    changed: bool  # the table is no longer the one that was shown
    unsorted: bool  # Unsorted says that the rows are not in the order of the query. Note has the reason.
    note: str  # what a user should know about this answer, in one sentence


class _TableColumn(TypedDict):
    name: str  # need not be unique
    type: str  # in the terms of the language


class TableColumn(_TableColumn, total=False):
    """A TableColumn describes a column of a Table."""

    align: str


class TablePage(TypedDict, total=False):
    """A TablePage is the answer to a TableQuery. Table is nil if the table is no longer there: the code has deleted or replaced it, or its worker has ended."""

    table: "Table"


class _TablePageParams(TypedDict):
    session: str
    handle: str
    count: int  # at most MaxTableRows


_TablePageParamsKeywords = TypedDict("_TablePageParamsKeywords", {"from": int}, total=False)


class TablePageParams(_TablePageParamsKeywords, _TablePageParams, total=False):
    """TablePageParams ask for rows of a data frame while the session is idle."""

    sort: "TableSort"
    find: str  # only rows that have this text, or a number that equals it


class _TableSort(TypedDict):
    column: int  # index in Table.Columns


class TableSort(_TableSort, total=False):
    """A TableSort is an order of rows. Missing values are last in both directions."""

    descending: bool


class _TextEvent(EventHeader):
    type: Literal["text"]


class TextEvent(_TextEvent, total=False):
    """Text is raw bytes, exactly as written; a chunk may end inside a character."""

    stream: Literal["stderr"]  # missing for standard output
    text: str
    data: str  # in base64, instead of text that is not UTF-8
    kind: Literal["result", "traceback"]  # the echo of a value, or the error report that ended the turn; missing for other text
    begins: bool  # the echo of a value begins here; some workers do not tell


class _Tick(TypedDict):
    session: str
    last_seq: int
    state: Literal["preparing", "starting", "idle", "running", "waiting", "stopping", "ended"]
    generation: int
    turn: int  # the active turn, or the last one


class Tick(_Tick, total=False):
    """A Tick is a short summary of the current state of a session. It notifies a front end that there is something new to read."""

    input_request: "InputRequest"  # set when State is StateWaiting
    listener: "Listener"  # a program that would read keys now; nil if none is seen
    closed: bool  # for good; it is the last tick of the session


class _TurnAccepted(TypedDict):
    request: str
    session: str
    turn: int


class TurnAccepted(_TurnAccepted, total=False):
    """A TurnAccepted says which turn a call with a Request has started or answered, before the turn is over."""

    pass


class _TurnEndedEvent(EventHeader):
    type: Literal["turn_ended"]


class TurnEndedEvent(_TurnEndedEvent, total=False):
    """TurnEnded says that a turn is over, and how it ended."""

    outcome: Literal["ok", "error", "interrupted", "ended"]
    name: str
    message: str
    prompt: str
    elapsed_ms: int
    exit_code: int
    signal: str


class _TurnStartedEvent(EventHeader):
    type: Literal["turn_started"]


class TurnStartedEvent(_TurnStartedEvent, total=False):
    """TurnStarted says that the worker begins to run an input."""

    input: str
    bytes: int
    author: str
    traceparent: str


class _TurnSummaries(TypedDict):
    turns: List["TurnSummary"]
    end: int  # the newest event of the session


class TurnSummaries(_TurnSummaries, total=False):
    """A TurnSummaries lists turns, and the start-ups of workers, in order. To learn what is new, ask for the summaries after the cursor End: a turn that was running then is in the answer again."""

    has_earlier: bool  # the query matches turns before the first
    has_later: bool  # the query matches turns after the last


class _TurnSummary(TypedDict):
    turn: int
    first: int  # its first event
    last: int  # its newest event
    at: str  # of the first event


class TurnSummary(_TurnSummary, total=False):
    """A TurnSummary describes one turn in a few fields, without its output. The start-up of each generation has a summary, too, as turn 0. Events between two turns belong to the earlier one."""

    generation: int
    author: str
    code: str  # the first non-blank line of its input, at most 160 bytes
    code_lines: int  # of its input, as far as TurnStarted has it
    lines: int  # newlines in its text
    bytes: int  # of text and images
    displays: int  # images and other displays; updates count once
    silent: bool  # a tool asked for it, see Event.IsUnseen
    outcome: Literal["ok", "error", "interrupted", "ended"]  # "" while it runs
    error: str  # the name of the error that ended it
    elapsed_ms: int


class _TypeParams(TypedDict):
    session: str


class TypeParams(_TypeParams, total=False):
    """TypeParams type keys for the programs at a session's terminal, as session.Keys says."""

    author: str
    text: str  # Text is text with named keys, such as "yes<Enter>" or "<Down><Down><C-c>". The names come from Vim. They are: <Enter> <Tab> <S-Tab> <Esc> <Space> <BS> <Del> <Ins> <F1> to <F12> <Up> <Down> <Left> <Right> <Home> <End> <PgUp> <PgDn> <C-x> for Ctrl and a character, <M-x> for Alt, <lt> for "<" Nothing is added, such as an Enter. A line break is an Enter, unless the program takes several lines as one paste.
    bytes: str  # Bytes are typed as they are.
    secret: bool  # Secret keeps the keys out of the timeline.
    live: bool  # Live is for the keys of a user, while they are pressed. They are typed at once, and only if a program listens or waits; otherwise the error is ErrStale. Live keys without Text and Bytes only ask whether one does.
    request: str  # as in StartParams


class _TypeReply(TypedDict):
    turn: int


class TypeReply(_TypeReply, total=False):
    """TypeReply names the turn whose programs get the keys."""

    pass


class _Variable(TypedDict):
    name: str
    type: str


class Variable(_Variable, total=False):
    """A Variable is a name with an abbreviated value."""

    shape: str  # in the terms of the language: "12", "(3, 4)"; empty when it has none
    bytes: int  # size of the value itself; 0 when unknown


class _Variables(TypedDict):
    variables: List["Variable"]  # at most 200
    more: int  # how many are not in List


class Variables(_Variables, total=False):
    """Variables lists what user code has defined: the newest first, data before functions and classes."""

    pass


class _Visibility(TypedDict):
    paths: List["VisiblePath"]  # sorted, at most MaxVisiblePaths
    withheld_variables: List[str]  # WithheldVariables are the names of variables, sorted, at most MaxVisiblePaths; "the login in NAME" for those from which only the login was removed.


class Visibility(_Visibility, total=False):
    """Visibility describes what a sandboxed session sees of the home directory, which is built for it, and which environment variables it does not get."""

    home: str  # "" if no home directory is built
    more_paths: int  # number of paths that are not listed
    more_withheld: int


class _VisiblePath(TypedDict):
    path: str
    reason: str  # "document", "toolchain or library", "on PATH, or next to it", …; see docs/sandbox-reference.md


class VisiblePath(_VisiblePath, total=False):
    """A VisiblePath is a file or directory that the session sees in its home directory."""

    pass


class _WaitParams(TypedDict):
    session: str


class WaitParams(_WaitParams, total=False):
    """WaitParams wait until a turn ends or asks for input, for at most WaitMS; 0 does not wait. Turn is a recent turn of this session; 0 is the active one."""

    turn: int
    wait_ms: int
    after: int


class _WarmPool(TypedDict):
    language: str
    ready: int
    count: int  # number of sessions to keep
    dir: str  # their working directory; a client gets one of them only if it asks for the same settings


class WarmPool(_WarmPool, total=False):
    """WarmPool describes the sessions of one language that a daemon keeps ready for clients."""

    failure: str  # why no more are created


class _WorkerExitedEvent(EventHeader):
    type: Literal["worker_exited"]


class WorkerExitedEvent(_WorkerExitedEvent, total=False):
    """WorkerExited reports how and why a worker ended."""

    reason: str
    exit_code: int
    signal: str
    message: str
    clean: bool
    never_ready: bool
    last_line: str
    peak_rss_bytes: int


class _WorkerStartedEvent(EventHeader):
    type: Literal["worker_started"]


class WorkerStartedEvent(_WorkerStartedEvent, total=False):
    """WorkerStarted says that a worker is starting."""

    worker: str


class _WriteLockParams(TypedDict):
    session: str
    author: str


class WriteLockParams(_WriteLockParams, total=False):
    """WriteLockParams take or release the write lock of a session. A lock with Long is announced in the session; a lock for one turn is not."""

    long: bool


# An entry of a session's timeline. Its type says which fields it has. A later version may send other types: ignore those.
Event = Union[
    TextEvent,
    DisplayEvent,
    OutputClearedEvent,
    FullScreenChangedEvent,
    TurnStartedEvent,
    TurnEndedEvent,
    InputRequestedEvent,
    InputRequestEndedEvent,
    InputLineEvent,
    InterruptEvent,
    ProgressEvent,
    PreparationEvent,
    NoticeEvent,
    LimitEvent,
    AccessDeniedEvent,
    AccessGrantedEvent,
    CallEvent,
    WorkerStartedEvent,
    WorkerExitedEvent,
    GapEvent,
    OmittedEvent,
]
