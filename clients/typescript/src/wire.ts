// Types of the daemon's protocol.
// Written by go run ./clients/generate from the Go types of package client/protocol. Do not edit.

export const protocol = 1;

/** AccessDenied reports an access that the sandbox denied or, for a Call, that no user has allowed. Exactly one of Path, Host and Call is set. */
export interface AccessDeniedEvent extends EventHeader {
  type: "access_denied";
  op?: string;
  path?: string;
  host?: string;
  child_program?: string;
  hint?: string;
  call?: string;
  detail?: string;
  destructive?: boolean;
  author?: string;
}

/** AccessGranted records that a user has granted the session access. Exactly one of Read, Write, Host and Call is set. */
export interface AccessGrantedEvent extends EventHeader {
  type: "access_granted";
  write?: string;
  host?: string;
  call?: string;
  always?: boolean;
  author?: string;
  read?: string;
}

/** AnswerPermissionParams answer a permission request by its number. */
export interface AnswerPermissionParams {
  session: string;
  permission: number;
  ok: boolean;
  author?: string;
}

/** ArgumentsParams ask for a part of the arguments of a call, which is a part of their JSON text. */
export interface ArgumentsParams {
  call: string;
  /** bytes of UTF-8 */
  offset?: number;
}

/** An ArgumentsPart is a part of the arguments of a call. */
export interface ArgumentsPart {
  text: string;
  /** offset of the next part; the size of all if this is the last one */
  next: number;
  more?: boolean;
}

/** An Attachment describes how a connection uses a session. */
export interface Attachment {
  session: string;
  watches?: boolean;
  /** name under which it reads */
  reader?: string;
  /** no other client may write */
  write_lock?: boolean;
  /** the lock lasts until it is released, not just for a turn */
  long_lock?: boolean;
  /** number of calls that wait for the session */
  calls?: number;
}

/** base64JSON holds bytes of a display that are not UTF-8. */
export interface Base64 {
  base64: string;
}

/** A Blob names data that was left out of a display. */
export interface Blob {
  bytes: number;
  /** argument of Log.Blob; "" if the data is gone */
  digest?: string;
}

/** BlobParams ask for data of an event by its digest, including data that was left out of the event. */
export interface BlobParams {
  session: string;
  digest: string;
  offset?: number;
  /** bytes, at most session.MaxPartBytes, which 0 means */
  limit?: number;
  /** the data follows the line of the answer */
  buffer?: boolean;
}

/** A BlobPart is a part of data that a page left out and named by its digest. */
export interface BlobPart {
  /** at most MaxPartBytes */
  data: string;
  offset: number;
  /** of the whole data */
  bytes: number;
}

/** Call reports calls of one host function and how they ended: all calls of that function that ended since the last such event. */
export interface CallEvent extends EventHeader {
  type: "call";
  name?: string;
  count?: number;
  failed?: number;
  cancelled?: number;
  sent?: number;
  received?: number;
  elapsed_ms?: number;
}

/** A ChangeNotice reports that a session has changed. */
export interface ChangeNotice {
  subscription: string;
  change: Tick;
}

/** ClientList lists the connected clients, in the order in which they connected. */
export interface ClientList {
  clients: ConnectedClient[];
}

/** A CommBuffer is the binary value at a path of a state, such as ["image", 0]. */
export interface CommBuffer {
  path: unknown;
  data: string;
}

/** CommChanges is the answer to a CommsQuery. Of several updates of one comm it has the newest values. A new worker has no comms of the one before. */
export interface CommChanges {
  /** the cursor after these messages */
  next: number;
  /** of the last event before the answer: they belong to its turn */
  seq?: number;
  messages?: CommMessage[];
}

/** A CommMessage is a message about a comm of Jupyter: a named object in the worker, such as a widget, whose state front ends of notebooks mirror. */
export interface CommMessage {
  op: "open" | "update" | "close";
  id: string;
  /** of CommOpen: what handles it in a front end */
  target?: string;
  /** Data is a JSON object: for CommOpen the data with which the comm was opened, for CommUpdate the members of the state that have changed. */
  data?: unknown;
  /** of CommOpen: a JSON object */
  metadata?: unknown;
  buffers?: CommBuffer[];
}

/** CommsParams ask for changes of the comms of notebooks. */
export interface CommsParams {
  session: string;
  after?: number;
  /** waits for a change, and then returns only the cursor */
  wait_ms?: number;
}

/** A Completion lists texts that can replace text[Start:cursor]. */
export interface Completion {
  /** bytes */
  start: number;
  matches: string[];
}

/** ConnectedClient is one connection to the daemon. */
export interface ConnectedClient {
  client: string;
  /** its process, if the system reports it */
  pid?: number;
  /** the last name that it used */
  author?: string;
  since: string;
  /** it is the caller */
  self?: boolean;
  sessions: Attachment[];
}

/** A CrashedSession is a session whose daemon was killed. Its files are kept for a day. */
export interface CrashedSession {
  /** unique, unlike the name */
  id: string;
  name: string;
  language: string;
  /** when it was found; its files are kept for a day from then on */
  found: string;
  inputs: number;
  bytes: number;
  output_path: string;
}

/** CrashedSessions lists the sessions that crashed in the last day, the newest first. */
export interface CrashedSessions {
  sessions: CrashedSession[];
}

/** CreateParams are the parameters of session/create, which opens a session. If something has to be prepared first, the answer comes at once. The state of the session is then preparing, its input is queued, and progress is sent with Token. */
export interface CreateParams {
  /** "" generates one */
  name?: string;
  /** "" is the daemon's default */
  language?: string;
  /** starts the caller's own worker, for a language that the daemon does not have; the first element is an absolute path */
  command?: string[];
  /** absolute; "" is the daemon's working directory */
  dir?: string;
  /** which interpreter, as in the option --python */
  runtime?: string;
  /** packages to prepare */
  packages?: string[];
  /** conditions for the version of Python, such as >=3.11 */
  requires_python?: string;
  /** environment variables, in addition to those of the daemon */
  env?: Record<string, string>;
  /** read-only, workspace or full; "" is full */
  sandbox?: string;
  /** what a sandbox shows of the home directory: documents or tools; "" is documents */
  home?: string;
  /** more files and directories that a sandboxed session can read, absolute */
  readable?: string[];
  /** files and directories that a sandboxed session can write, absolute */
  writable?: string[];
  /** repeats the real paths of writable files that programs outside the sandbox run or read */
  accepted?: string[];
  /** paths in writable directories that cannot be changed, absolute */
  protected?: string[];
  /** network access of a sandbox: none, list or full; "" is none */
  network?: string;
  /** for the network list: patterns of hosts */
  hosts?: string[];
  /** the weaker mechanism that a sandbox may use: landlock */
  accept?: string;
  /** block calls that a sandbox refuses until the user has decided */
  ask_user?: boolean;
  /** the TERM of programs, see workers.Spec.Term; "" is dumb */
  term?: string;
  limits?: SessionLimits;
  /** the session is closed when unused for this long; 0 is the daemon's default */
  session_idle_timeout_ms?: number;
  progressToken?: unknown;
  /** as in StartParams */
  request?: string;
}

/** DaemonInfo describes the daemon: its program, its process and how much it serves. */
export interface Daemon {
  version: string;
  /** [Protocol] */
  protocol: number;
  pid: number;
  started: string;
  languages: string[];
  sessions: number;
  connections: number;
  draining?: boolean;
  paused?: boolean;
  warm_pools?: WarmPool[];
}

/** Destination counts the connections of a session with a sandbox to one host and port. */
export interface Destination {
  /** "example.org:443" */
  address: string;
  connections: number;
  /** bytes; an open connection is counted by the megabyte */
  sent: number;
  received: number;
  /** number of refused connections */
  refused?: number;
  last: string;
}

/** Destinations lists the network destinations that a session has connected to, or tried to. */
export interface Destinations {
  destinations: Destination[];
}

/** DetachParams end another connection. */
export interface DetachParams {
  client: string;
  /** the author who ends it; the other client gets this name */
  author?: string;
}

/** Display is content to show, in several equivalent types. An image is a Display with one type. */
export interface DisplayEvent extends EventHeader {
  type: "display";
  /** by MIME type: text, or bytes that are not UTF-8 */
  data?: Record<string, string | Base64>;
  /** by MIME type */
  meta?: Record<string, unknown>;
  /** names it for updates */
  id?: string;
  /** it replaces the last display with this id */
  update?: boolean;
  /** it is the value of the turn */
  result?: boolean;
  title?: string;
  /** types that are not in data; read them with blob/get */
  omitted?: Record<string, Blob>;
  /** names it in one line */
  message?: string;
}

/** EndParams name the session to close or to reset. */
export interface EndParams {
  session: string;
  /** as in StartParams */
  request?: string;
}

/** The fields of every event. */
export interface EventHeader {
  seq: number;
  at?: string;
  generation?: number;
  turn: number;
  between_turns?: boolean;
  silent?: boolean;
  line?: number;
}

/** An EventPage is a window of a session's events, in order. Lost events are a timeline.Gap. The next page is after Last, and the previous one before First. */
export interface EventPage {
  events: Event[];
  /** of the events, including those of a gap; 0 if there are none */
  first: number;
  last: number;
  /** the query matches events before First */
  has_earlier?: boolean;
  /** the query matches events after Last */
  has_later?: boolean;
  /** the newest event of the session */
  end: number;
}

/** A File is a name in a session's working directory, or in its own directory. */
export interface File {
  /** to show; bytes that are not UTF-8 are replaced */
  name: string;
  /** to use in calls; it always leads to the file */
  path: string;
  type?: "directory" | "link" | "other";
  bytes: number;
  modified: string;
  executable?: boolean;
}

/** A FileList lists a directory, by name. With More, the directory has more names than are listed. */
export interface FileList {
  files: File[];
  more?: boolean;
}

/** FileParams ask for a part of a file. */
export interface FileParams {
  session?: string;
  crashed?: string;
  /** "" is the working directory */
  path?: string;
  offset?: number;
  /** bytes, at most session.MaxPartBytes, which 0 means */
  limit?: number;
  /** the data follows the line of the answer */
  buffer?: boolean;
}

/** A FilePart is a part of a file. Bytes is the current size of the file. A file of the session's own directory may grow, and it starts over when it is full. */
export interface FilePart {
  /** at most MaxPartBytes */
  data: string;
  offset: number;
  /** of the whole data */
  bytes: number;
  /** ID changes with the file. In the working directory that is each change. In the session's own directory it is another file of the same name, and "" where the system cannot tell. */
  id?: string;
  executable?: boolean;
}

/** FilesParams name a directory or a file of a session: an open one by name, or a crashed one by the ID of its CrashedSession. For the form of a path, see session.FileTransfer. Only the own directory of a crashed session is left, session.OwnFiles. */
export interface FilesParams {
  session?: string;
  crashed?: string;
  /** "" is the working directory */
  path?: string;
}

/** A Form is a question of an MCP server for the user while code calls one of its tools. The form is part of an input request of kind timeline.InputKindForm. Answer takes a FormAnswer as JSON. Only the user may give it: a program must never fill in a form on its own, or because a model wants it. */
export interface Form {
  /** the server that asks */
  server: string;
  /** its question, without control characters but newlines */
  message: string;
  /** Schema is a JSON Schema of an object whose properties are strings, numbers, booleans, and lists of choices. See Fields. */
  schema?: unknown;
  /** URL, if set, is the address that the user is asked to open. Then there is no Schema, and to accept means that the user agrees to open it. */
  url?: string;
}

/** FullScreenChanged records that a program has taken over the keys of the user's terminal, or given them back. Text between the two events belongs to a full-screen program. */
export interface FullScreenChangedEvent extends EventHeader {
  type: "full_screen_changed";
  on?: boolean;
}

/** A FunctionCall is a request of the daemon: code in a session calls a function of the client. The client answers with a FunctionResult, or with an error that may have a name. */
export interface FunctionCall {
  session: string;
  generation: number;
  /** 0 between turns */
  turn: number;
  /** its name, with its group */
  function: string;
  /** names the call in function/arguments */
  call: string;
  /** an object of values; missing if it has more than 1 MiB */
  arguments?: unknown;
  /** size of its text */
  arguments_bytes: number;
}

/** A FunctionDoc describes a function of a client, as session.Function does. */
export interface FunctionDoc {
  name: string;
  group?: string;
  description?: string;
  /** a JSON Schema of type object */
  parameters?: unknown;
  /** a JSON Schema */
  returns?: unknown;
}

/** FunctionList lists the functions that clients give to the code of a session, by name. */
export interface FunctionList {
  functions: GivenFunction[];
}

/** A FunctionResult is the result of a FunctionCall. */
export interface FunctionResult {
  value: unknown;
}

/** FunctionsParams give functions of a client to the code of a session. They replace the functions that this client has given before. */
export interface FunctionsParams {
  session: string;
  functions: FunctionDoc[];
  author?: string;
}

/** Gap stands for events that were dropped. Readers create it; it is never appended. */
export interface GapEvent extends EventHeader {
  type: "gap";
  from?: number;
  to?: number;
  bytes?: number;
}

/** A GivenFunction is a function that a client gives to the code of a session. */
export interface GivenFunction {
  /** with its group */
  name: string;
  description?: string;
  /** as in ConnectedClient */
  client: string;
  author?: string;
  /** the client has disconnected, so calls fail */
  gone?: boolean;
}

/** A Grant is access that a user grants to a session. Exactly one of Read, Write, Host and Call is set. Read, Write and Host are for a session with a sandbox. */
export interface Grant {
  /** the absolute, real path of a file or directory to read */
  read?: string;
  /** the absolute, real path of a file or directory to write */
  write?: string;
  /** "example.org", "*.example.org", "example.org:5432" */
  host?: string;
  /** "github.search_issues", or "github.*" for all that are not destructive */
  call?: string;
  /** later sessions of the workspace get it, too */
  always?: boolean;
  /** Accept repeats the real path of Write. It is required if programs outside the sandbox would run or read what is written there; see KindUnconfirmed. */
  accept?: string;
  /** Identity distinguishes the file or directory from a later one at the same path; "" accepts either. An error of KindUnconfirmed contains it. */
  identity?: string;
}

/** GrantParams grant a session access: one of Read, Write and Host. */
export interface GrantParams {
  session: string;
  /** the absolute, real path of a file or directory to read */
  read?: string;
  /** the absolute, real path of a file or directory to write */
  write?: string;
  /** "example.org", "*.example.org", "example.org:5432" */
  host?: string;
  /** "github.search_issues", or "github.*" for all that are not destructive */
  call?: string;
  /** later sessions of the workspace get it, too */
  always?: boolean;
  /** Accept repeats the real path of Write. It is required if programs outside the sandbox would run or read what is written there; see KindUnconfirmed. */
  accept?: string;
  /** Identity distinguishes the file or directory from a later one at the same path; "" accepts either. An error of KindUnconfirmed contains it. */
  identity?: string;
  author?: string;
}

/** HelloParams say who calls, as the first call of a connection. A connection with a higher epoch of the same client replaces the previous one: see docs/daemon-protocol.md. */
export interface HelloParams {
  /** random, one for each process: 16 to 64 letters, digits, hyphens and underscores */
  id: string;
  /** counts the connections that the process makes, from 1 */
  epoch: number;
}

/** A HelloReply describes the daemon. */
export interface HelloReply {
  version: string;
  /** [Protocol] */
  protocol: number;
  pid: number;
  started: string;
  languages: string[];
  sessions: number;
  connections: number;
  draining?: boolean;
  paused?: boolean;
  warm_pools?: WarmPool[];
  /** the daemon knows the client, which keeps its state */
  known?: boolean;
}

/** A Highlight is text that a program has drawn in reverse video or with a background of its own. */
export interface Highlight {
  /** from 1 */
  row: number;
  /** from 1 */
  col: number;
  text: string;
}

/** InputLine marks where a line of input, or keys, were passed to the program. Text is empty when Secret. */
export interface InputLineEvent extends EventHeader {
  type: "input_line";
  prompt?: string;
  text?: string;
  secret?: boolean;
  author?: string;
  keys?: boolean;
}

/** InputParams are the parameters of turn/input, which answers an input request. */
export interface InputParams {
  session: string;
  input_request: number;
  input: string;
  eof?: boolean;
  author?: string;
  wait_ms?: number;
  after?: number;
  /** as in StartParams */
  read_cursor?: number;
  continues?: boolean;
  request?: string;
}

/** An InputRequest says that the active turn asks for standard input, or asks the user for a permission or to fill in the form of an MCP server. */
export interface InputRequest {
  id: number;
  turn: number;
  prompt: string;
  kind: "line" | "secret" | "continue" | "debugger" | "permission" | "form";
  /** the answer must not be shown or logged */
  secret?: boolean;
  /** a program reads the terminal; the runtime did not ask */
  terminal?: boolean;
  /** Terminal: that program's name */
  reader?: string;
  /** Terminal: it reads each key, not lines; see Keys */
  raw?: boolean;
  /** Terminal: judged, because the program polls; it may continue without input */
  polls?: boolean;
  /** set if Kind is timeline.InputKindPermission */
  permission?: PermissionRequest;
  /** set if Kind is timeline.InputKindForm */
  form?: Form;
}

/** InputRequestEnded records that the input request with this ID is over. */
export interface InputRequestEndedEvent extends EventHeader {
  type: "input_request_ended";
  input_request?: number;
}

/** InputRequested records that a program asks for standard input, or the session for a decision of the user. The Seq of the event is the public ID of the request. */
export interface InputRequestedEvent extends EventHeader {
  type: "input_requested";
  prompt?: string;
  kind?: "line" | "secret" | "continue" | "debugger" | "permission" | "form";
  terminal?: boolean;
  reader?: string;
  permission_id?: number;
  op?: string;
  path?: string;
  host?: string;
  child_program?: string;
  hint?: string;
  call?: string;
  detail?: string;
  destructive?: boolean;
  author?: string;
  raw?: boolean;
  polls?: boolean;
}

/** An Inspection describes one name in a runtime. */
export interface Inspection {
  found: boolean;
  /** by MIME type, text/plain at least */
  data?: Record<string, string>;
}

/** Interrupt records that a client asked to interrupt the turn. */
export interface InterruptEvent extends EventHeader {
  type: "interrupt";
  level?: number;
  author?: string;
}

/** InterruptParams interrupt a turn by its number, so that a late interrupt does not hit the next one; or, with Active, the turn that is active when the call arrives. */
export interface InterruptParams {
  session: string;
  turn?: number;
  active?: boolean;
  author?: string;
  /** as in StartParams */
  request?: string;
}

/** An InterruptReply reports the effect of an interrupt. */
export interface InterruptReply {
  result: "idle" | "waiting" | "pending" | "stale" | "not running";
}

/** A Library is a published build of a chart library. Only such files are released. */
export interface Library {
  name: string;
  version: string;
  /** SHA-256, in hexadecimal */
  digest: string;
  /** of the whole script, if a part was asked for */
  bytes?: number;
  /** at most session.MaxPartBytes */
  script?: string;
}

/** LibraryParams ask for a chart library on the daemon's machine, by the path that a display names in its metadata. */
export interface LibraryParams {
  /** absolute */
  path: string;
  /** also return a part of the script */
  script?: boolean;
  /** of that part, in bytes */
  offset?: number;
}

/** Limit records that the session came close to one of its limits, or reached it. */
export interface LimitEvent extends EventHeader {
  type: "limit";
  kind?: "memory" | "processes" | "turn";
  used?: number;
  max?: number;
  all_sessions?: boolean;
  step?: "warned" | "refused" | "interrupted" | "ended";
  program?: string;
  /** says it in one line */
  message?: string;
}

/** A Line is one numbered line of the output file. */
export interface Line {
  /** from 1 */
  number: number;
  text: string;
}

/** A Listener is a program that would read keys now, although it does not wait for them. */
export interface Listener {
  /** its name, of at most 15 bytes */
  program: string;
  /** it reads each key, not lines */
  raw?: boolean;
}

/** A LiveEvent is one event as it happens. */
export interface LiveEvent {
  subscription: string;
  session: string;
  event: Event;
}

/** A Match is a line that a search found. */
export interface Match {
  /** the event in which the line begins */
  seq: number;
  turn: number;
  /** of the rendered output, from 1; 0 for input, and without a file */
  line?: number;
  /** the line is code or an answer, not output */
  input?: boolean;
  /** at most 500 bytes of the line, around the match */
  text: string;
}

/** Metrics are the metrics of the daemon. */
export interface Metrics {
  /** in the text format of Prometheus, version 0.0.4 */
  text: string;
}

/** NameParams name a session. */
export interface NameParams {
  session: string;
}

/** Notice is a message of the supervisor to the readers of the session. */
export interface NoticeEvent extends EventHeader {
  type: "notice";
  message?: string;
}

/** Omitted stands for events that a Window left out on purpose and that are still on disk. Only Window creates it; it is never appended. */
export interface OmittedEvent extends EventHeader {
  type: "omitted";
  from?: number;
  to?: number;
  bytes?: number;
  first_line?: number;
  end_line?: number;
}

/** OutlineParams ask for summaries of a session's turns. */
export interface OutlineParams {
  session: string;
  after?: number;
  before?: number;
  from?: number;
  backward?: boolean;
  /** at most MaxSummaries; 0 means DefaultSummaries */
  limit?: number;
}

/** Output contains lines of the rendered output. */
export interface Output {
  lines: Line[];
  /** number of finished lines */
  total: number;
}

/** OutputCleared asks to remove the turn's output so far. Readers that keep a record ignore it. */
export interface OutputClearedEvent extends EventHeader {
  type: "output_cleared";
  wait?: boolean;
}

/** OutputParams select lines of the rendered output. */
export interface OutputParams {
  session: string;
  grep?: string;
  /** matches, at most MaxMatches; 0 means DefaultMatches */
  max?: number;
  from?: number;
  to?: number;
}

/** ParseParams ask whether text is a complete input. */
export interface ParseParams {
  session: string;
  text: string;
  /** of Text; see session.Session.InDialect */
  dialect?: "notebook";
}

/** A ParseReply says whether text is a complete input. */
export interface ParseReply {
  status: "complete" | "incomplete" | "invalid" | "unknown";
}

/** PendingCall is a host function with running calls from code in the session. */
export interface PendingCall {
  name: string;
  /** number of running calls */
  running: number;
  /** start of the time in which at least one is running */
  since: string;
}

/** A PermissionRequest asks for access that the sandbox denies to a program, or for a host function that no user has allowed. The program or function is blocked until the user has decided. The request is part of an InputRequest of kind timeline.InputKindPermission. The ID never repeats in a session. A call that starts again after an interrupt asks under its former ID. */
export interface PermissionRequest {
  id: number;
  /** "write", "create", "remove", "rename", "change" (a mode), "set" (a setting of git), "read", "connect" or "call" */
  op: string;
  /** the file */
  path?: string;
  /** "name:port" */
  host?: string;
  /** the program's name, if it was a child */
  child_program?: string;
  /** the host function, "github.search_issues" */
  call?: string;
  /** its arguments, abbreviated; for "set" the name of the setting */
  detail?: string;
  /** only a grant that names Call in full allows it */
  destructive?: boolean;
  /** Hint is the command with which a user can allow it; "" if no command can. */
  hint?: string;
  /** Author is the user who refused it; "" if no user was asked. */
  author?: string;
  /** Grant is the access that would let the call continue. */
  grant: Grant;
  /** Wider is access that would also allow similar calls. It is nil if there is none. */
  wider?: Grant;
}

/** Preparation reports progress of the work that must be done before a worker can start. It is over when Done equals Total, or when its worker generation ends. Done never decreases. */
export interface PreparationEvent extends EventHeader {
  type: "preparation";
  name?: string;
  message?: string;
  progress?: number;
  total?: number;
}

/** PreparationProgress reports the progress of preparing sessions. */
export interface PreparationProgress {
  progressToken: unknown;
  progress: number;
  /** 0: unknown; equal to Progress: complete */
  total?: number;
  message?: string;
}

/** Progress says how far a turn is, as the runtime reports it. */
export interface ProgressEvent extends EventHeader {
  type: "progress";
  progress?: number;
  total?: number;
  message?: string;
}

/** PutFileParams send a piece of a file. */
export interface PutFileParams {
  session: string;
  path: string;
  /** random, one for each file that is put: 16 to 64 letters, digits, hyphens and underscores */
  transfer: string;
  /** where the piece begins; 0 begins the transfer */
  offset?: number;
  /** at most MaxPartBytes */
  data?: string;
  last?: boolean;
  /** CRC32 may be given with Last: the CRC-32 of the file as in gzip (RFC 1952), as 8 hexadecimal digits. A file with another one is not written. */
  crc32?: string;
  /** replace a file of that name */
  overwrite?: boolean;
  /** the user may execute the file */
  executable?: boolean;
  /** create missing directories of the path */
  parents?: boolean;
  /** give the transfer up, and remove what has arrived */
  abort?: boolean;
}

/** PutProgress says how much of a file has arrived. */
export interface PutProgress {
  bytes: number;
  /** the file has its name */
  done?: boolean;
}

/** QueryParams ask about text while the session is idle. */
export interface QueryParams {
  session: string;
  text: string;
  /** bytes */
  cursor?: number;
}

/** A ReadCursor is how far a reader has read; 0 if the reader is new. Reader is its name: with Own, it may differ from the requested one by a number. */
export interface ReadCursor {
  seq: number;
  reader: string;
}

/** ReadCursorParams store how far a reader has read, so that it can continue there after a restart. Without Seq they only ask for the stored position. */
export interface ReadCursorParams {
  session: string;
  reader: string;
  seq?: number;
  /** do not share the name with another connection */
  own?: boolean;
}

/** ReadParams ask for a window of a session's events. */
export interface ReadParams {
  session: string;
  after?: number;
  before?: number;
  turn?: number;
  backward?: boolean;
  /** events, at most MaxReadEvents; 0 means DefaultReadEvents */
  limit?: number;
  /** approximate maximum of text and data, at most MaxReadBytes; 0 means MaxReadBytes */
  bytes?: number;
  /** data with more bytes is left out and named by its digest; from DefaultInlineBytes to MaxInlineBytes */
  inline_bytes?: number;
}

/** RemoveFileParams name a file of the working directory that is removed. */
export interface RemoveFileParams {
  session: string;
  path: string;
  /** ID of the request, for repetitions */
  request?: string;
}

/** A Reply contains what happened between a caller's cursor and now. */
export interface Reply {
  session: string;
  generation: number;
  turn: number;
  state: "preparing" | "starting" | "idle" | "running" | "waiting" | "stopping" | "ended";
  /** of Turn; "" while it runs */
  outcome?: "ok" | "error" | "interrupted" | "ended";
  /** set when State is StateWaiting */
  input_request?: InputRequest;
  /** the prompt that the runtime would show now */
  prompt?: string;
  /** a program that would read keys now; nil if none is seen */
  listener?: Listener;
  /** bytes that were typed and that no program has read so far */
  unread_keys?: number;
  /** host functions that are running */
  pending_calls?: PendingCall[];
  /** size of the text that Turn has written so far */
  output_bytes: number;
  events: Event[];
  /** the caller's new cursor */
  next: number;
  elapsed_ms: number;
}

/** ResizeParams set the size of a session's terminal, in characters. */
export interface ResizeParams {
  session: string;
  rows: number;
  cols: number;
}

/** A Screen is what the programs of a turn show on the terminal. */
export interface Screen {
  /** from the top, without trailing blanks and without blank lines at the bottom */
  lines: string[];
  /** the size of the terminal in characters */
  rows: number;
  cols: number;
  /** from 1 */
  cursor_row: number;
  /** from 1 */
  cursor_col: number;
  cursor_hidden?: boolean;
  /** a program has switched to the alternate screen */
  full_screen?: boolean;
  /** such as the selected entry of a menu; at most 16 */
  highlights?: Highlight[];
  /** the program that reads the terminal, if it is seen */
  program?: string;
}

/** SearchParams search for lines of a session. */
export interface SearchParams {
  session: string;
  /** case is ignored */
  text?: string;
  /** in the syntax of package regexp */
  regexp?: string;
  /** Next of the previous search; "" is the beginning */
  from?: string;
  /** matches, at most MaxSearchMatches; 0 means DefaultSearchMatches */
  limit?: number;
}

/** SearchResult has the matches of one search, which covers about 8 MiB or takes up to 0.2 s. */
export interface SearchResult {
  matches: Match[];
  /** where to continue; "" when everything was searched */
  next?: string;
}

/** Info describes a session at one moment. */
export interface Session {
  name: string;
  /** "" while unknown */
  language: string;
  state: "preparing" | "starting" | "idle" | "running" | "waiting" | "stopping" | "ended";
  /** when State was reached */
  state_since: string;
  /** why the preparation failed */
  preparation_error?: string;
  /** packages that were requested for it */
  packages?: string[];
  generation: number;
  /** the active turn, or the last one */
  turn: number;
  /** set when State is StateWaiting */
  input_request?: InputRequest;
  /** how many wait for their turn; see TurnQueuer */
  queued_inputs?: number;
  /** a program that would read keys now; nil if none is seen */
  listener?: Listener;
  prompt?: string;
  opened_at: string;
  /** of the worker; 0 when there is none */
  pid?: number;
  memory_bytes?: number;
  /** its version; "" until the worker is ready */
  runtime_version?: string;
  executable?: string;
  /** how Executable was chosen */
  executable_source?: string;
  /** a warning about that choice; see workers.Spec */
  notice?: string;
  /** the working directory of its workers */
  dir?: string;
  /** its sandbox; "" when it has none */
  sandbox?: string;
  /** the mechanism that its user accepted in place of namespaces, if its worker uses it */
  accepted_mechanism?: string;
  /** access that users granted in addition; see Session.Allow */
  granted?: Grant[];
  /** the limits as text; "" when there are none */
  limits?: string;
  /** the rendered transcript; "" when there is none */
  output_path?: string;
  /** the transcript of an earlier session with this name whose program was killed */
  crashed_transcript?: string;
  last_seq: number;
  /** in a daemon */
  watchers: number;
  /** the author who holds the write lock, in a daemon */
  write_lock_holder?: string;
  /** how many functions clients give to its code, in a daemon */
  functions?: number;
  /** Continuation is the prompt for the further lines of an input, if it is not the default one of the language. */
  continuation?: string;
  running_ms?: number;
}

/** SessionLimits bound the resources of a session; zero fields bound nothing. */
export interface SessionLimits {
  /** bytes */
  memory?: number;
  /** including their threads */
  processes?: number;
  cpus?: number;
  /** open files of each process */
  files?: number;
  /** bytes */
  disk?: number;
  turn_ms?: number;
}

/** All sessions, by name. */
export interface SessionList {
  sessions: Session[];
}

/** A Snapshot contains what happened before a subscription started. A large snapshot comes in parts; the last one has More false. */
export interface Snapshot {
  subscription: string;
  session: Session;
  events: Event[];
  /** the snapshot reaches up to it; live events follow */
  seq: number;
  more?: boolean;
}

/** StartParams are the parameters of turn/start, which runs code. With WaitMS the call answers as turn/wait does. With WriteLock no other client may write until the turn is over. Request is a name that the client gives to this call and to its repetitions: with it, the code runs only once. The daemon remembers the last 256 requests of each client. */
export interface StartParams {
  session: string;
  input: string;
  write_lock?: boolean;
  /** see session.Session.SubmitSilent */
  silent?: boolean;
  /** see session.Session.SubmitMayExit; not with Silent */
  may_exit?: boolean;
  /** see session.Session.InDialect */
  dialect?: "notebook";
  author?: string;
  wait_ms?: number;
  after?: number;
  /** how far Author had read before, as in ReadCursorParams */
  read_cursor?: number;
  /** cancelling the call ends the wait, not the turn */
  continues?: boolean;
  /** wait while the session is busy; see session.TurnQueuer */
  queue?: boolean;
  request?: string;
  /** the span of the caller, as a traceparent of the W3C; see session.WithTraceParent */
  traceparent?: string;
}

/** SubscribeParams watch a session from a cursor; 0 is its beginning. With ChangesOnly, they watch only whether the session changes, or any session if none is named. */
export interface SubscribeParams {
  session: string;
  after?: number;
  /** who watches */
  author?: string;
  changes_only?: boolean;
  /** BlobsRef: data of 4 KiB or more is left out and named by its digest */
  blobs?: string;
}

/** A SubscribeReply identifies the subscription that a call has made or resumed. A snapshot of everything up to Seq follows. A resumed subscription gets the current input request again, because its client may have forgotten it. */
export interface SubscribeReply {
  subscription: string;
  seq: number;
  input_request?: InputRequest;
}

/** A SubscriptionEnd says that a subscription is over, and why: its session was closed, or another client ended the connection. */
export interface SubscriptionEnd {
  subscription: string;
  session: string;
  reason: string;
  detached?: boolean;
}

/** SubscriptionParams name a subscription. */
export interface SubscriptionParams {
  subscription: string;
}

/** A Table is a part of a data frame: some rows of its first columns, as text. Displays of data frames have their first rows in this form, as the type timeline.MIMETable. */
export interface Table {
  /** 1 */
  v: number;
  columns: TableColumn[];
  /** the names of Rows, if the table has names for them */
  index?: string[];
  /** a text for each of Columns */
  rows: string[][];
  /** the rows and columns of the whole table */
  total: number[];
  /** Handle is what a TableQuery needs for more rows. It is empty if there are no more to have. */
  handle?: string;
  /** how many rows are before Rows, in the order of the query */
  from?: number;
  /** of a TableQuery: how many rows it found; without Find, all */
  matched?: number;
  /** the number of texts that are cut; "…" or "..." is where */
  cut?: number;
  /** the table is no longer the one that was shown */
  changed?: boolean;
  /** Unsorted says that the rows are not in the order of the query. Note has the reason. */
  unsorted?: boolean;
  /** what a user should know about this answer, in one sentence */
  note?: string;
}

/** A TableColumn describes a column of a Table. */
export interface TableColumn {
  /** need not be unique */
  name: string;
  /** in the terms of the language */
  type: string;
  align?: string;
}

/** A TablePage is the answer to a TableQuery. Table is nil if the table is no longer there: the code has deleted or replaced it, or its worker has ended. */
export interface TablePage {
  table?: Table;
}

/** TablePageParams ask for rows of a data frame while the session is idle. */
export interface TablePageParams {
  session: string;
  handle: string;
  /** the rows before the first one to return */
  from?: number;
  /** at most MaxTableRows */
  count: number;
  sort?: TableSort;
  /** only rows that have this text, or a number that equals it */
  find?: string;
}

/** A TableSort is an order of rows. Missing values are last in both directions. */
export interface TableSort {
  /** index in Table.Columns */
  column: number;
  descending?: boolean;
}

/** Text is raw bytes, exactly as written; a chunk may end inside a character. */
export interface TextEvent extends EventHeader {
  type: "text";
  /** missing for standard output */
  stream?: "stderr";
  text?: string;
  /** in base64, instead of text that is not UTF-8 */
  data?: string;
  /** the echo of a value, or the error report that ended the turn; missing for other text */
  kind?: "result" | "traceback";
  /** the echo of a value begins here; some workers do not tell */
  begins?: boolean;
}

/** A Tick is a short summary of the current state of a session. It notifies a front end that there is something new to read. */
export interface Tick {
  session: string;
  last_seq: number;
  state: "preparing" | "starting" | "idle" | "running" | "waiting" | "stopping" | "ended";
  generation: number;
  /** the active turn, or the last one */
  turn: number;
  /** set when State is StateWaiting */
  input_request?: InputRequest;
  /** a program that would read keys now; nil if none is seen */
  listener?: Listener;
  /** for good; it is the last tick of the session */
  closed?: boolean;
}

/** A TurnAccepted says which turn a call with a Request has started or answered, before the turn is over. */
export interface TurnAccepted {
  request: string;
  session: string;
  turn: number;
}

/** TurnEnded says that a turn is over, and how it ended. */
export interface TurnEndedEvent extends EventHeader {
  type: "turn_ended";
  outcome?: "ok" | "error" | "interrupted" | "ended";
  name?: string;
  message?: string;
  prompt?: string;
  elapsed_ms?: number;
  exit_code?: number;
  signal?: string;
}

/** TurnStarted says that the worker begins to run an input. */
export interface TurnStartedEvent extends EventHeader {
  type: "turn_started";
  input?: string;
  bytes?: number;
  author?: string;
  traceparent?: string;
}

/** A TurnSummaries lists turns, and the start-ups of workers, in order. To learn what is new, ask for the summaries after the cursor End: a turn that was running then is in the answer again. */
export interface TurnSummaries {
  turns: TurnSummary[];
  /** the query matches turns before the first */
  has_earlier?: boolean;
  /** the query matches turns after the last */
  has_later?: boolean;
  /** the newest event of the session */
  end: number;
}

/** A TurnSummary describes one turn in a few fields, without its output. The start-up of each generation has a summary, too, as turn 0. Events between two turns belong to the earlier one. */
export interface TurnSummary {
  turn: number;
  generation?: number;
  /** its first event */
  first: number;
  /** its newest event */
  last: number;
  /** of the first event */
  at: string;
  author?: string;
  /** the first non-blank line of its input, at most 160 bytes */
  code?: string;
  /** of its input, as far as TurnStarted has it */
  code_lines?: number;
  /** newlines in its text */
  lines?: number;
  /** of text and images */
  bytes?: number;
  /** images and other displays; updates count once */
  displays?: number;
  /** a tool asked for it, see Event.IsUnseen */
  silent?: boolean;
  /** "" while it runs */
  outcome?: "ok" | "error" | "interrupted" | "ended";
  /** the name of the error that ended it */
  error?: string;
  elapsed_ms?: number;
}

/** TypeParams type keys for the programs at a session's terminal, as session.Keys says. */
export interface TypeParams {
  session: string;
  author?: string;
  /** Text is text with named keys, such as "yes<Enter>" or "<Down><Down><C-c>". The names come from Vim. They are: <Enter> <Tab> <S-Tab> <Esc> <Space> <BS> <Del> <Ins> <F1> to <F12> <Up> <Down> <Left> <Right> <Home> <End> <PgUp> <PgDn> <C-x> for Ctrl and a character, <M-x> for Alt, <lt> for "<" Nothing is added, such as an Enter. A line break is an Enter, unless the program takes several lines as one paste. */
  text?: string;
  /** Bytes are typed as they are. */
  bytes?: string;
  /** Secret keeps the keys out of the timeline. */
  secret?: boolean;
  /** Live is for the keys of a user, while they are pressed. They are typed at once, and only if a program listens or waits; otherwise the error is ErrStale. Live keys without Text and Bytes only ask whether one does. */
  live?: boolean;
  /** as in StartParams */
  request?: string;
}

/** TypeReply names the turn whose programs get the keys. */
export interface TypeReply {
  turn: number;
}

/** A Variable is a name with an abbreviated value. */
export interface Variable {
  name: string;
  type: string;
  /** in the terms of the language: "12", "(3, 4)"; empty when it has none */
  shape?: string;
  /** size of the value itself; 0 when unknown */
  bytes?: number;
}

/** Variables lists what user code has defined: the newest first, data before functions and classes. */
export interface Variables {
  /** at most 200 */
  variables: Variable[];
  /** how many are not in List */
  more: number;
}

/** Visibility describes what a sandboxed session sees of the home directory, which is built for it, and which environment variables it does not get. */
export interface Visibility {
  /** "" if no home directory is built */
  home?: string;
  /** sorted, at most MaxVisiblePaths */
  paths: VisiblePath[];
  /** number of paths that are not listed */
  more_paths?: number;
  /** WithheldVariables are the names of variables, sorted, at most MaxVisiblePaths; "the login in NAME" for those from which only the login was removed. */
  withheld_variables: string[];
  more_withheld?: number;
}

/** A VisiblePath is a file or directory that the session sees in its home directory. */
export interface VisiblePath {
  path: string;
  /** "document", "toolchain or library", "on PATH, or next to it", …; see docs/sandbox-reference.md */
  reason: string;
}

/** WaitParams wait until a turn ends or asks for input, for at most WaitMS; 0 does not wait. Turn is a recent turn of this session; 0 is the active one. */
export interface WaitParams {
  session: string;
  turn?: number;
  wait_ms?: number;
  after?: number;
}

/** WarmPool describes the sessions of one language that a daemon keeps ready for clients. */
export interface WarmPool {
  language: string;
  ready: number;
  /** number of sessions to keep */
  count: number;
  /** their working directory; a client gets one of them only if it asks for the same settings */
  dir: string;
  /** why no more are created */
  failure?: string;
}

/** WorkerExited reports how and why a worker ended. */
export interface WorkerExitedEvent extends EventHeader {
  type: "worker_exited";
  reason?: string;
  exit_code?: number;
  signal?: string;
  message?: string;
  clean?: boolean;
  never_ready?: boolean;
  last_line?: string;
  peak_rss_bytes?: number;
}

/** WorkerStarted says that a worker is starting. */
export interface WorkerStartedEvent extends EventHeader {
  type: "worker_started";
  worker?: string;
}

/** WriteLockParams take or release the write lock of a session. A lock with Long is announced in the session; a lock for one turn is not. */
export interface WriteLockParams {
  session: string;
  author: string;
  long?: boolean;
}

/** An entry of a session's timeline. Its type says which fields it has. A later version may send other types: ignore those. */
export type Event =
  | TextEvent
  | DisplayEvent
  | OutputClearedEvent
  | FullScreenChangedEvent
  | TurnStartedEvent
  | TurnEndedEvent
  | InputRequestedEvent
  | InputRequestEndedEvent
  | InputLineEvent
  | InterruptEvent
  | ProgressEvent
  | PreparationEvent
  | NoticeEvent
  | LimitEvent
  | AccessDeniedEvent
  | AccessGrantedEvent
  | CallEvent
  | WorkerStartedEvent
  | WorkerExitedEvent
  | GapEvent
  | OmittedEvent;

/** Methods with their params and results. */
export interface Methods {
  "server/info": { params: Record<string, never>; result: Daemon };
  "server/ping": { params: Record<string, never>; result: Record<string, never> };
  "server/metrics": { params: Record<string, never>; result: Metrics };
  "client/hello": { params: HelloParams; result: HelloReply };
  "session/create": { params: CreateParams; result: Session };
  "session/list": { params: Record<string, never>; result: SessionList };
  "session/get": { params: NameParams; result: Session };
  "session/resize": { params: ResizeParams; result: Record<string, never> };
  "session/screen": { params: NameParams; result: Screen };
  "session/reset": { params: EndParams; result: Session };
  "session/close": { params: EndParams; result: Record<string, never> };
  "session/functions": { params: FunctionsParams; result: Record<string, never> };
  "function/list": { params: NameParams; result: FunctionList };
  "function/arguments": { params: ArgumentsParams; result: ArgumentsPart };
  "turn/start": { params: StartParams; result: Reply };
  "turn/input": { params: InputParams; result: Reply };
  "turn/type": { params: TypeParams; result: TypeReply };
  "turn/wait": { params: WaitParams; result: Reply };
  "turn/interrupt": { params: InterruptParams; result: InterruptReply };
  "permission/grant": { params: GrantParams; result: Record<string, never> };
  "permission/answer": { params: AnswerPermissionParams; result: Record<string, never> };
  "query/complete": { params: QueryParams; result: Completion };
  "query/parse": { params: ParseParams; result: ParseReply };
  "query/variables": { params: NameParams; result: Variables };
  "query/inspect": { params: QueryParams; result: Inspection };
  "table/page": { params: TablePageParams; result: TablePage };
  "comms/read": { params: CommsParams; result: CommChanges };
  "query/destinations": { params: NameParams; result: Destinations };
  "query/visible_home": { params: NameParams; result: Visibility };
  "output/query": { params: OutputParams; result: Output };
  "timeline/read": { params: ReadParams; result: EventPage };
  "timeline/outline": { params: OutlineParams; result: TurnSummaries };
  "timeline/search": { params: SearchParams; result: SearchResult };
  "blob/get": { params: BlobParams; result: BlobPart };
  "file/list": { params: FilesParams; result: FileList };
  "file/get": { params: FileParams; result: FilePart };
  "file/put": { params: PutFileParams; result: PutProgress };
  "file/remove": { params: RemoveFileParams; result: Record<string, never> };
  "session/list_crashed": { params: Record<string, never>; result: CrashedSessions };
  "library/get": { params: LibraryParams; result: Library };
  "write_lock/take": { params: WriteLockParams; result: Record<string, never> };
  "write_lock/release": { params: WriteLockParams; result: Record<string, never> };
  "reader/cursor": { params: ReadCursorParams; result: ReadCursor };
  "connection/list": { params: NameParams; result: ClientList };
  "connection/detach": { params: DetachParams; result: Record<string, never> };
  "stream/subscribe": { params: SubscribeParams; result: SubscribeReply };
  "stream/pause": { params: SubscriptionParams; result: SubscribeReply };
  "stream/resume": { params: SubscriptionParams; result: SubscribeReply };
  "stream/unsubscribe": { params: SubscriptionParams; result: Record<string, never> };
}

/** Notifications that the daemon sends. */
export interface Notifications {
  "stream/snapshot": { params: Snapshot; result: Record<string, never> };
  "stream/event": { params: LiveEvent; result: Record<string, never> };
  "stream/change": { params: ChangeNotice; result: Record<string, never> };
  "stream/ended": { params: SubscriptionEnd; result: Record<string, never> };
  "preparation/progress": { params: PreparationProgress; result: Record<string, never> };
  "turn/accepted": { params: TurnAccepted; result: Record<string, never> };
}

/** Requests that the daemon sends, with their results. */
export interface Requests {
  "function/call": { params: FunctionCall; result: FunctionResult };
}
