// Types of the daemon's protocol.
// Written by go run ./clients/generate from the Go types of package client. Do not edit.

export const protocol = 1;

/** AnswerPermissionParams answer a permission by its number. */
export interface AnswerPermissionParams {
  session: string;
  permission: number;
  ok: boolean;
  author?: string;
}

/** An Attachment is what a connection has to do with a session. */
export interface Attachment {
  session: string;
  watches?: boolean;
  /** under that name */
  reader?: string;
  /** no other client may write */
  write_lock?: boolean;
  /** until it is released, not for a turn */
  long_lock?: boolean;
  /** that wait for it */
  calls?: number;
}

/** A Blob names data of a display that is not here. */
export interface Blob {
  bytes: number;
  /** with which Log.Blob has it; "" if nothing has */
  digest?: string;
}

/** BlobParams ask for data that an event of the session has, or had left out, by its digest. */
export interface BlobParams {
  session: string;
  digest: string;
  offset?: number;
  /** bytes, at most session.MaxPartBytes, which 0 means */
  limit?: number;
}

/** A BlobPart is a part of data that a page has left out and named by its digest. */
export interface BlobPart {
  /** at most MaxPartBytes */
  data: string;
  offset: number;
  /** of the whole data */
  bytes: number;
}

/** A ChangeNotice says that a session has changed. */
export interface ChangeNotice {
  subscription: string;
  change: Tick;
}

/** ClientList are those who are connected, by when they came. */
export interface ClientList {
  clients: ConnectedClient[];
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
  /** its process, where the system tells */
  pid?: number;
  /** the last name that it gave */
  author?: string;
  since: string;
  /** it is the one that asks */
  self?: boolean;
  sessions: Attachment[];
}

/** A CrashedSession is a session whose daemon was killed. Its files are kept for a day. */
export interface CrashedSession {
  /** unique, unlike the name */
  id: string;
  name: string;
  language: string;
  /** when it was found; it is kept from then on */
  found: string;
  inputs: number;
  bytes: number;
  output_path: string;
}

/** CrashedSessions are those that were lost in the last day, the newest first. */
export interface CrashedSessions {
  sessions: CrashedSession[];
}

/** CreateParams open a session. The answer comes at once when something has to be prepared first: its state is preparing then, input for it is held, and progress goes to Token. */
export interface CreateParams {
  /** "" makes one up */
  name?: string;
  /** "" is the daemon's default */
  language?: string;
  /** starts a worker of the caller's own, as a language that the daemon does not have; the first is an absolute path */
  command?: string[];
  /** absolute; "" is the daemon's own */
  dir?: string;
  /** which interpreter, as --python has it */
  runtime?: string;
  /** packages to prepare */
  packages?: string[];
  /** variables of its environment, beside those of the daemon's */
  env?: Record<string, string>;
  /** read-only, workspace or full; "" is full */
  sandbox?: string;
  /** what a sandbox shows of the home directory: documents or tools; "" is documents */
  home?: string;
  /** more files and directories that a sandbox shows it, absolute */
  readable?: string[];
  /** files and directories that it lets it write, absolute */
  writable?: string[];
  /** real paths of those that programs outside run or read, once more */
  accepted?: string[];
  /** paths in what it writes that stay as they are, absolute */
  protected?: string[];
  /** of a sandbox: none, list or full; "" is none */
  network?: string;
  /** of the network list: patterns of hosts */
  hosts?: string[];
  /** the weaker mechanism that a sandbox may have: landlock */
  accept?: string;
  /** hold what a sandbox refuses and a person could allow */
  ask_user?: boolean;
  limits?: SessionLimits;
  /** unused for so long it is closed; 0 is as the daemon has it */
  session_idle_timeout_ms?: number;
  progressToken?: unknown;
  /** as StartParams has it */
  request?: string;
}

/** Info describes the daemon. */
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
  /** bytes; those of a connection that lasts are counted by the megabyte */
  sent: number;
  received: number;
  /** how often it was not let through */
  refused?: number;
  last: string;
}

/** Destinations lists the hosts in the network that a session has connected to, or tried to. */
export interface Destinations {
  destinations: Destination[];
}

/** DetachParams end another connection. */
export interface DetachParams {
  client: string;
  /** the author who ends it; the other client learns this */
  author?: string;
}

/** EndParams end a session's worker, or the session. */
export interface EndParams {
  session: string;
  /** as StartParams has it */
  request?: string;
}

/** eventJSON is an Event in JSON. Type says which of the other fields there are. */
export interface Event {
  seq: number;
  at?: string;
  generation?: number;
  turn: number;
  between_turns?: boolean;
  silent?: boolean;
  line?: number;
  type: string;
  /** "stderr"; else it is stdout */
  stream?: string;
  /** of text, input_line */
  text?: string;
  /** of a display, and of text that is not UTF-8 */
  data?: unknown;
  meta?: unknown;
  id?: string;
  update?: boolean;
  result?: boolean;
  title?: string;
  omitted?: Record<string, Blob>;
  input?: string;
  bytes?: number;
  author?: string;
  prompt?: string;
  /** of an input request, of text, of a limit */
  kind?: string;
  secret?: boolean;
  terminal?: boolean;
  reader?: string;
  wait?: boolean;
  /** the id of one that has ended */
  input_request?: number;
  on?: boolean;
  permission_id?: number;
  op?: string;
  path?: string;
  host?: string;
  child_program?: string;
  hint?: string;
  call?: string;
  detail?: string;
  destructive?: boolean;
  read?: string;
  write?: string;
  always?: boolean;
  outcome?: "ok" | "error" | "interrupted" | "ended";
  name?: string;
  message?: string;
  elapsed_ms?: number;
  used?: number;
  max?: number;
  all_sessions?: boolean;
  step?: "warned" | "refused" | "interrupted" | "ended";
  program?: string;
  count?: number;
  failed?: number;
  cancelled?: number;
  sent?: number;
  received?: number;
  level?: number;
  progress?: number;
  total?: number;
  worker?: string;
  reason?: string;
  exit_code?: number;
  signal?: string;
  clean?: boolean;
  last_line?: string;
  never_ready?: boolean;
  peak_rss_bytes?: number;
  from?: number;
  to?: number;
  first_line?: number;
  end_line?: number;
}

/** An EventPage is a window of a session's events, in order. Lost ones are a timeline.Gap. The page after it is behind Last, and the one before it before First. */
export interface EventPage {
  events: Event[];
  /** of the events, also those of a gap; 0 without any */
  first: number;
  last: number;
  /** what was asked for has events before First */
  has_earlier?: boolean;
  /** and behind Last */
  has_later?: boolean;
  /** the newest event of the session */
  end: number;
}

/** A File is one in a session's own directory: its transcript, what it records, and pictures. */
export interface File {
  name: string;
  bytes: number;
  modified: string;
}

/** FileList are the plain files of a session's own directory, by name. */
export interface FileList {
  files: File[];
}

/** FileParams ask for a part of a file in a session's own directory. */
export interface FileParams {
  session?: string;
  crashed?: string;
  /** its name, or its whole path as the daemon tells it */
  path: string;
  offset?: number;
  /** bytes, at most session.MaxPartBytes, which 0 means */
  limit?: number;
}

/** A FilePart is a part of a file in a session's own directory. Bytes is the size of the file at that moment: it may grow, and begins anew when it is full. */
export interface FilePart {
  /** at most MaxPartBytes */
  data: string;
  offset: number;
  /** of the whole data */
  bytes: number;
  /** another one means another file of that name; "" where the system does not tell */
  id?: string;
}

/** FilesParams name a session whose own directory has files: one that is open, or one that was crashed, by the ID of its CrashedSession. */
export interface FilesParams {
  session?: string;
  crashed?: string;
}

/** A Form is what a server of tools asks of a person while code calls one of its tools. A wait of kind timeline.InputKindForm has it. Answer takes a FormAnswer as JSON. Only a person may give it: a program must never fill in a form by itself, or because a model wants it. */
export interface Form {
  /** the server that asks */
  server: string;
  /** its question, without control characters but newlines */
  message: string;
  /** Schema is a JSON Schema of an object whose properties are texts, numbers, truth values, and lists of choices. See Fields. */
  schema?: unknown;
  /** URL, if set, is where the person shall go. Then there is no Schema, and to accept means that the person agrees to go there. */
  url?: string;
}

/** A Grant is a right that a person gives to a session. Read, Write and Host are for one with a sandbox. One of Read, Write, Host and Call is set. */
export interface Grant {
  /** the absolute, real path of a file or directory to see */
  read?: string;
  /** of one to write */
  write?: string;
  /** "example.org", "*.example.org", "example.org:5432" */
  host?: string;
  /** "github.search_issues", or "github.*" for all that are not destructive */
  call?: string;
  /** later sessions of the workspace have it, too */
  always?: boolean;
  /** Accept is the real path of Write once more. It is needed where programs outside would run or read what is written there; see KindUnconfirmed. */
  accept?: string;
  /** Identity tells the file or directory from any other that has its path later; "" is whatever is there. An error of KindUnconfirmed has it. */
  identity?: string;
}

/** GrantParams give a session a right, one of Read, Write and Host. */
export interface GrantParams {
  session: string;
  /** the absolute, real path of a file or directory to see */
  read?: string;
  /** of one to write */
  write?: string;
  /** "example.org", "*.example.org", "example.org:5432" */
  host?: string;
  /** "github.search_issues", or "github.*" for all that are not destructive */
  call?: string;
  /** later sessions of the workspace have it, too */
  always?: boolean;
  /** Accept is the real path of Write once more. It is needed where programs outside would run or read what is written there; see KindUnconfirmed. */
  accept?: string;
  /** Identity tells the file or directory from any other that has its path later; "" is whatever is there. An error of KindUnconfirmed has it. */
  identity?: string;
  author?: string;
}

/** HelloParams say who calls, as the first call of a connection. A connection with a higher epoch of the same client takes the place of the one before: see docs/daemon.md. */
export interface HelloParams {
  /** random, of this process: 16 to 64 letters, digits, hyphens and underscores */
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
  /** the client was here before, and has again what it had */
  known?: boolean;
}

/** InputParams answer an input request. */
export interface InputParams {
  session: string;
  input_request: number;
  input: string;
  eof?: boolean;
  author?: string;
  wait_ms?: number;
  after?: number;
  /** as StartParams has them */
  read_cursor?: number;
  continues?: boolean;
  request?: string;
}

/** An InputRequest says that the active turn asks for standard input, or of a person: for a permission, or with the form of a server of tools. */
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
  /** set when Kind is timeline.InputKindPermission */
  permission?: PermissionRequest;
  /** set when Kind is timeline.InputKindForm */
  form?: Form;
}

/** An Inspection describes one thing in a runtime. */
export interface Inspection {
  found: boolean;
  /** by MIME type, text/plain at least */
  data?: Record<string, string>;
}

/** InterruptParams interrupt a turn by its number, so that a late interrupt does not hit the next one; or, with Active, whatever is active when the call arrives. */
export interface InterruptParams {
  session: string;
  turn?: number;
  active?: boolean;
  author?: string;
  /** as StartParams has it */
  request?: string;
}

/** An InterruptReply says what came of an interrupt. */
export interface InterruptReply {
  result: "idle" | "waiting" | "pending" | "stale" | "not running";
}

/** A Line is a line of the output file. */
export interface Line {
  /** from 1 */
  number: number;
  text: string;
}

/** A LiveEvent is one event as it happens. */
export interface LiveEvent {
  subscription: string;
  session: string;
  event: Event;
}

/** A Match is a line in which something was found. */
export interface Match {
  /** the event in which the line begins */
  seq: number;
  turn: number;
  /** of the rendered output, from 1; 0 for input, and without a file */
  line?: number;
  /** it is a line of code or of an answer, not of output */
  input?: boolean;
  /** at most 500 bytes of the line, around what was found */
  text: string;
}

/** NameParams name a session. */
export interface NameParams {
  session: string;
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

/** Output holds lines of the rendered output. */
export interface Output {
  lines: Line[];
  /** number of finished lines */
  total: number;
}

/** OutputParams look into the rendered output. */
export interface OutputParams {
  session: string;
  grep?: string;
  /** matches, at most MaxMatches; 0 means DefaultMatches */
  max?: number;
  from?: number;
  to?: number;
}

/** A ParseReply says whether text is a whole input. */
export interface ParseReply {
  status: "complete" | "incomplete" | "invalid" | "unknown";
}

/** PendingCall is a function of the host that code in the session has called, and that runs. */
export interface PendingCall {
  name: string;
  /** how many calls of it run */
  running: number;
  /** since when at least one did */
  since: string;
}

/** A PermissionRequest is asked for what the sandbox refuses to a program, or for a function of the host that nobody has allowed. The program or function is held until a person has decided. A wait of kind timeline.InputKindPermission has it. The ID never repeats in a session. A call that begins again after an interrupt asks under its former ID. */
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
  /** the function of the host, "github.search_issues" */
  call?: string;
  /** its arguments, in short; for "set" the name of the setting */
  detail?: string;
  /** only a right that names Call in full lets it go on */
  destructive?: boolean;
  /** Hint is the command with which a person allows it; "" if nothing does. */
  hint?: string;
  /** Grant would let the call go on. */
  grant: Grant;
  /** Wider would, too, and other calls with it. It is nil if there is no such right. */
  wider?: Grant;
}

/** PreparationProgress tells how far the preparation of sessions is. */
export interface PreparationProgress {
  progressToken: unknown;
  progress: number;
  /** 0: not known; equal to Progress: over */
  total?: number;
  message?: string;
}

/** QueryParams ask about text, while the session is idle. */
export interface QueryParams {
  session: string;
  text: string;
  /** bytes */
  cursor?: number;
}

/** A ReadCursor is how far a reader has read; 0 when it was never here. Reader is its name: another one than was asked for, with a number, when Own wanted that. */
export interface ReadCursor {
  seq: number;
  reader: string;
}

/** ReadCursorParams remember how far a reader has read, so that it can go on there after it was restarted. Without Seq they only ask. */
export interface ReadCursorParams {
  session: string;
  reader: string;
  seq?: number;
  /** not a name under which another connection reads */
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
  /** about the most of text and data, at most MaxReadBytes; 0 means that */
  bytes?: number;
  /** data with more bytes is left out and named by its digest; DefaultInlineBytes at least, MaxInlineBytes at most */
  inline_bytes?: number;
}

/** A Reply holds what happened between a caller's cursor and now. */
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
  /** functions of the host that run */
  pending_calls?: PendingCall[];
  /** text that Turn has written so far */
  output_bytes: number;
  events: Event[];
  /** the caller's new cursor */
  next: number;
  elapsed_ms: number;
}

/** ResizeParams say how large the terminal of a session is from now on, in characters. */
export interface ResizeParams {
  session: string;
  rows: number;
  cols: number;
}

/** SearchParams ask for lines of a session. */
export interface SearchParams {
  session: string;
  /** found in upper and lower case */
  text?: string;
  /** of package regexp */
  regexp?: string;
  /** Next of the search before; "" is the beginning */
  from?: string;
  /** matches, at most MaxSearchMatches; 0 means DefaultSearchMatches */
  limit?: number;
}

/** SearchResult is what a search has found so far. One search goes through about 8 MiB, or for 0.2 s. */
export interface SearchResult {
  matches: Match[];
  /** where to go on; "" when all was searched */
  next?: string;
}

/** Info describes a session at one moment. */
export interface Session {
  name: string;
  /** "" while it is not known */
  language: string;
  state: "preparing" | "starting" | "idle" | "running" | "waiting" | "stopping" | "ended";
  /** when State was reached */
  state_since: string;
  /** why it could not be prepared */
  preparation_error?: string;
  /** packages that it was asked to have */
  packages?: string[];
  generation: number;
  /** the active turn, or the last one */
  turn: number;
  /** set when State is StateWaiting */
  input_request?: InputRequest;
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
  /** the workers' directory */
  dir?: string;
  /** what confines it; "" when nothing does */
  sandbox?: string;
  /** the mechanism that its user accepted in place of namespaces, if its worker has that */
  accepted_mechanism?: string;
  /** what persons gave it beside that; see Session.Allow */
  granted?: Grant[];
  /** in words; "" when there are none */
  limits?: string;
  /** the rendered transcript; "" when there is none */
  output_path?: string;
  /** the transcript of an earlier session of this name whose program was killed */
  crashed_transcript?: string;
  last_seq: number;
  /** in a daemon */
  watchers: number;
  /** the author who holds the write lock, in a daemon */
  write_lock_holder?: string;
  /** Continuation is the prompt for the further lines of an input, where it is not the usual one of the language. */
  continuation?: string;
  running_ms?: number;
}

/** Limits bound what a session uses; zero fields bound nothing. */
export interface SessionLimits {
  /** bytes */
  memory?: number;
  /** with their threads */
  processes?: number;
  cpus?: number;
  /** open in each process */
  files?: number;
  /** bytes */
  disk?: number;
  turn_ms?: number;
}

/** All sessions, by name. */
export interface SessionList {
  sessions: Session[];
}

/** A Snapshot is what had happened when a subscription began. A large one comes in parts, of which the last has More false. */
export interface Snapshot {
  subscription: string;
  session: Session;
  events: Event[];
  /** all up to it; live events follow behind it */
  seq: number;
  more?: boolean;
}

/** StartParams run code. With WaitMS the answer is that of a wait. With WriteLock no other client may write until the turn is over. With Request, a name that the client gives to this call and to its repetitions, the code runs once however often the call is made: the daemon remembers the last 256 of each client. */
export interface StartParams {
  session: string;
  input: string;
  write_lock?: boolean;
  /** see session.Session.SubmitSilent */
  silent?: boolean;
  /** see session.Session.SubmitMayExit; not with Silent */
  may_exit?: boolean;
  author?: string;
  wait_ms?: number;
  after?: number;
  /** how far Author had read before, as ReadCursorParams have it */
  read_cursor?: number;
  /** cancelling the call ends the waiting, not the turn */
  continues?: boolean;
  request?: string;
}

/** SubscribeParams watch a session from a cursor; 0 is its beginning. With ChangesOnly they watch only whether something changes, of one session, or of all with none. */
export interface SubscribeParams {
  session: string;
  after?: number;
  /** who watches */
  author?: string;
  changes_only?: boolean;
  /** BlobsRef: data from 4 KiB on is left out and named by its digest */
  blobs?: string;
}

/** A SubscribeReply names a subscription. A snapshot of everything up to Seq follows. A resumed subscription has the current question again, because its client may have forgotten it. */
export interface SubscribeReply {
  subscription: string;
  seq: number;
  input_request?: InputRequest;
}

/** A SubscriptionEnd says that a subscription is over, and why: its session was closed, or its connection is ended by somebody else. */
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

/** A Tick says how a session is now, in a few bytes: it tells a front end that there is something new to read. */
export interface Tick {
  session: string;
  last_seq: number;
  state: "preparing" | "starting" | "idle" | "running" | "waiting" | "stopping" | "ended";
  generation: number;
  /** the active turn, or the last one */
  turn: number;
  /** set when State is StateWaiting */
  input_request?: InputRequest;
  /** for good; it is the last tick of the session */
  closed?: boolean;
}

/** A TurnAccepted says which turn a call with a Request has started or answered, before it is over. */
export interface TurnAccepted {
  request: string;
  session: string;
  turn: number;
}

/** A TurnSummaries lists turns, and the start-ups of workers, in order. To learn what is new, ask for what is behind the cursor End: the turn that ran then is in the answer again. */
export interface TurnSummaries {
  turns: TurnSummary[];
  /** what was asked for has turns before the first */
  has_earlier?: boolean;
  /** and after the last */
  has_later?: boolean;
  /** the newest event of the session */
  end: number;
}

/** A TurnSummary says in short what a turn was. The start-up of each generation has one, too, as turn 0. Events between two turns belong to the one before. */
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
  /** the first line of its input that is not blank, at most 160 bytes */
  code?: string;
  /** of its input, as far as TurnStarted has it */
  code_lines?: number;
  /** newlines in its text */
  lines?: number;
  /** of text and pictures */
  bytes?: number;
  /** pictures and other results that are shown; updates count once */
  displays?: number;
  /** a tool asked for it, see Event.IsUnseen */
  silent?: boolean;
  /** "" while it runs */
  outcome?: "ok" | "error" | "interrupted" | "ended";
  /** the name of the error that ended it */
  error?: string;
  elapsed_ms?: number;
}

/** A Variable is a name with its value in short. */
export interface Variable {
  name: string;
  type: string;
  /** as the language counts: "12", "(3, 4)"; empty when it has none */
  shape?: string;
  /** size of the value itself; 0 when unknown */
  bytes?: number;
}

/** Variables lists what user code has defined, newest first, data before functions and classes. */
export interface Variables {
  /** at most 200 */
  variables: Variable[];
  /** how many are not in List */
  more: number;
}

/** Visibility is what a session with a sandbox sees of the home directory, which is built for it, and what it does not have of the environment. */
export interface Visibility {
  /** "" if it is not built */
  home?: string;
  /** sorted, at most MaxVisiblePaths */
  paths: VisiblePath[];
  /** how many there are besides */
  more_paths?: number;
  /** WithheldVariables are the names of variables, sorted, at most MaxVisiblePaths; "the login in NAME" for those of which only that was cut out. */
  withheld_variables: string[];
  more_withheld?: number;
}

/** A VisiblePath is a file or directory there. */
export interface VisiblePath {
  path: string;
  /** "document", "toolchain", "cache", "on PATH", …; see docs/sandbox-reference.md */
  reason: string;
}

/** WaitParams wait until a turn ends or asks for input, for WaitMS at most; 0 does not wait. Turn is one that was started or fed here, and not long ago; 0 is whatever is active. */
export interface WaitParams {
  session: string;
  turn?: number;
  wait_ms?: number;
  after?: number;
}

/** WarmPool are the sessions of one language that a daemon keeps ready for those who create one. */
export interface WarmPool {
  language: string;
  ready: number;
  /** how many it would keep */
  count: number;
  /** where they work; only sessions that start alike are given */
  dir: string;
  /** why no more are made */
  failure?: string;
}

/** WriteLockParams take or release the write lock of a session. A lock with Long is announced in the session; a lock for one turn is not. */
export interface WriteLockParams {
  session: string;
  author: string;
  long?: boolean;
}

/** Methods with their params and results. */
export interface Methods {
  "server/info": { params: Record<string, never>; result: Daemon };
  "server/ping": { params: Record<string, never>; result: Record<string, never> };
  "client/hello": { params: HelloParams; result: HelloReply };
  "session/create": { params: CreateParams; result: Session };
  "session/list": { params: Record<string, never>; result: SessionList };
  "session/get": { params: NameParams; result: Session };
  "session/resize": { params: ResizeParams; result: Record<string, never> };
  "session/reset": { params: EndParams; result: Session };
  "session/close": { params: EndParams; result: Record<string, never> };
  "turn/start": { params: StartParams; result: Reply };
  "turn/input": { params: InputParams; result: Reply };
  "turn/wait": { params: WaitParams; result: Reply };
  "turn/interrupt": { params: InterruptParams; result: InterruptReply };
  "permission/grant": { params: GrantParams; result: Record<string, never> };
  "permission/answer": { params: AnswerPermissionParams; result: Record<string, never> };
  "query/complete": { params: QueryParams; result: Completion };
  "query/parse": { params: QueryParams; result: ParseReply };
  "query/variables": { params: NameParams; result: Variables };
  "query/inspect": { params: QueryParams; result: Inspection };
  "query/destinations": { params: NameParams; result: Destinations };
  "query/visible_home": { params: NameParams; result: Visibility };
  "output/query": { params: OutputParams; result: Output };
  "timeline/read": { params: ReadParams; result: EventPage };
  "timeline/outline": { params: OutlineParams; result: TurnSummaries };
  "timeline/search": { params: SearchParams; result: SearchResult };
  "blob/get": { params: BlobParams; result: BlobPart };
  "file/list": { params: FilesParams; result: FileList };
  "file/read": { params: FileParams; result: FilePart };
  "session/list_crashed": { params: Record<string, never>; result: CrashedSessions };
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
