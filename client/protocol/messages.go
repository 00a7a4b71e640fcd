package protocol

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Version is the version of the daemon protocol, which must be equal in daemon and client.
const Version = 1

// The methods of the daemon.
const (
	MethodInfo = "server/info"
	MethodPing = "server/ping"

	MethodMetrics = "server/metrics"

	MethodHello = "client/hello"

	MethodCreate = "session/create"
	MethodList   = "session/list"
	MethodGet    = "session/get"
	MethodResize = "session/resize"
	MethodScreen = "session/screen"
	MethodReset  = "session/reset"
	MethodClose  = "session/close"

	MethodSetFunctions  = "session/functions"
	MethodListFunctions = "function/list"
	MethodArguments     = "function/arguments"

	MethodStart     = "turn/start"
	MethodInput     = "turn/input"
	MethodType      = "turn/type"
	MethodWait      = "turn/wait"
	MethodInterrupt = "turn/interrupt"

	MethodGrant            = "permission/grant"
	MethodAnswerPermission = "permission/answer"

	MethodComplete     = "query/complete"
	MethodParse        = "query/parse"
	MethodVariables    = "query/variables"
	MethodInspect      = "query/inspect"
	MethodTablePage    = "table/page"
	MethodComms        = "comms/read"
	MethodDestinations = "query/destinations"
	MethodVisibleHome  = "query/visible_home"
	MethodOutput       = "output/query"

	MethodRead    = "timeline/read"
	MethodOutline = "timeline/outline"
	MethodSearch  = "timeline/search"
	MethodBlob    = "blob/get"

	MethodFiles       = "file/list"
	MethodFile        = "file/get"
	MethodPutFile     = "file/put"
	MethodRemoveFile  = "file/remove"
	MethodListCrashed = "session/list_crashed"

	MethodLibrary = "library/get"

	MethodTakeWriteLock    = "write_lock/take"
	MethodReleaseWriteLock = "write_lock/release"

	MethodReadCursor = "reader/cursor"

	MethodClients = "connection/list"
	MethodDetach  = "connection/detach"

	MethodSubscribe   = "stream/subscribe"
	MethodPause       = "stream/pause"
	MethodResume      = "stream/resume"
	MethodUnsubscribe = "stream/unsubscribe"

	// Notifications from the daemon.
	MethodSnapshot     = "stream/snapshot"
	MethodEvent        = "stream/event"
	MethodChange       = "stream/change"
	MethodEnded        = "stream/ended"
	MethodProgress     = "preparation/progress"
	MethodTurnAccepted = "turn/accepted"

	// A request from the daemon.
	MethodCall = "function/call"
)

// DaemonInfo describes the daemon: its program, its process and how much it serves.
type DaemonInfo struct {
	Version     string     `json:"version"`
	Protocol    int        `json:"protocol"` // [Protocol]
	PID         int        `json:"pid"`
	Started     time.Time  `json:"started"`
	Languages   []string   `json:"languages"`
	Sessions    int        `json:"sessions"`
	Connections int64      `json:"connections"`
	Draining    bool       `json:"draining,omitempty"`
	Paused      bool       `json:"paused,omitempty"`
	WarmPools   []WarmPool `json:"warm_pools,omitempty"`
}

// Metrics are the metrics of the daemon.
type Metrics struct {
	Text string `json:"text"` // in the text format of Prometheus, version 0.0.4
}

// WarmPool describes the sessions of one language that a daemon keeps ready for clients.
type WarmPool struct {
	Language string `json:"language"`
	Ready    int    `json:"ready"`
	Count    int    `json:"count"`             // number of sessions to keep
	Dir      string `json:"dir"`               // their working directory; a client gets one of them only if it asks for the same settings
	Failure  string `json:"failure,omitempty"` // why no more are created
}

// MaxRequestIDBytes bounds the ID of a request that may be repeated.
const MaxRequestIDBytes = 64

// HelloParams say who calls, as the first call of a connection. A connection with a higher
// epoch of the same client replaces the previous one: see docs/daemon-protocol.md.
type HelloParams struct {
	ID    string `json:"id"`    // random, one for each process: 16 to 64 letters, digits, hyphens and underscores
	Epoch uint64 `json:"epoch"` // counts the connections that the process makes, from 1
}

// A HelloReply describes the daemon.
type HelloReply struct {
	DaemonInfo
	Known bool `json:"known,omitempty"` // the daemon knows the client, which keeps its state
}

// CreateParams are the parameters of session/create, which opens a session. If something has to be
// prepared first, the answer comes at once. The state of the session is then preparing, its input
// is queued, and progress is sent with Token.
type CreateParams struct {
	Name                 string            `json:"name,omitempty"`            // "" generates one
	Language             string            `json:"language,omitempty"`        // "" is the daemon's default
	Command              []string          `json:"command,omitempty"`         // starts the caller's own worker, for a language that the daemon does not have; the first element is an absolute path
	Dir                  string            `json:"dir,omitempty"`             // absolute; "" is the daemon's working directory
	Runtime              string            `json:"runtime,omitempty"`         // which interpreter, as in the option --python
	Packages             []string          `json:"packages,omitempty"`        // packages to prepare
	RequiresPython       string            `json:"requires_python,omitempty"` // conditions for the version of Python, such as >=3.11
	Env                  map[string]string `json:"env,omitempty"`             // environment variables, in addition to those of the daemon
	Sandbox              string            `json:"sandbox,omitempty"`         // read-only, workspace or full; "" is full
	Home                 string            `json:"home,omitempty"`            // what a sandbox shows of the home directory: documents or tools; "" is documents
	Readable             []string          `json:"readable,omitempty"`        // more files and directories that a sandboxed session can read, absolute
	Writable             []string          `json:"writable,omitempty"`        // files and directories that a sandboxed session can write, absolute
	Accepted             []string          `json:"accepted,omitempty"`        // repeats the real paths of writable files that programs outside the sandbox run or read
	Protected            []string          `json:"protected,omitempty"`       // paths in writable directories that cannot be changed, absolute
	Network              string            `json:"network,omitempty"`         // network access of a sandbox: none, list or full; "" is none
	Hosts                []string          `json:"hosts,omitempty"`           // for the network list: patterns of hosts
	Accept               string            `json:"accept,omitempty"`          // the weaker mechanism that a sandbox may use: landlock
	AskUser              bool              `json:"ask_user,omitempty"`        // block calls that a sandbox refuses until the user has decided
	Term                 string            `json:"term,omitempty"`            // the TERM of programs, see workers.Spec.Term; "" is dumb
	Limits               SessionLimits     `json:"limits,omitzero"`
	SessionIdleTimeoutMS int64             `json:"session_idle_timeout_ms,omitempty"` // the session is closed when unused for this long; 0 is the daemon's default
	Token                json.RawMessage   `json:"progressToken,omitempty"`
	Request              string            `json:"request,omitempty"` // as in StartParams
}

// SessionLimits bound the resources of a session; zero fields bound nothing.
type SessionLimits struct {
	Memory    int64 `json:"memory,omitempty"`    // bytes
	Processes int   `json:"processes,omitempty"` // including their threads
	CPUs      int   `json:"cpus,omitempty"`
	Files     int   `json:"files,omitempty"` // open files of each process
	Disk      int64 `json:"disk,omitempty"`  // bytes
	TurnMS    int64 `json:"turn_ms,omitempty"`
}

// Destinations lists the network destinations that a session has connected to, or tried to.
type Destinations struct {
	Destinations []session.Destination `json:"destinations"`
}

// MaxAuthorBytes bounds the name of an author.
const MaxAuthorBytes = 128

// IsAuthor reports whether the daemon accepts name as an author's. "" is accepted. The name is
// shown before each input, at terminals and in replies to models. It must not contain control
// characters, invisible characters, or characters that change the text direction.
func IsAuthor(name string) bool {
	unseen := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	return len(name) <= MaxAuthorBytes && utf8.ValidString(name) && !strings.ContainsFunc(name, unseen)
}

// NameParams name a session.
type NameParams struct {
	Session string `json:"session"`
}

// TypeParams type keys for the programs at a session's terminal, as session.Keys says.
type TypeParams struct {
	Session string `json:"session"`
	Author  string `json:"author,omitempty"`
	session.Keys
	Request string `json:"request,omitempty"` // as in StartParams
}

// TypeReply names the turn whose programs get the keys.
type TypeReply struct {
	Turn uint64 `json:"turn"`
}

// ResizeParams set the size of a session's terminal, in characters.
type ResizeParams struct {
	Session string `json:"session"`
	Rows    int    `json:"rows"`
	Cols    int    `json:"cols"`
}

// EndParams name the session to close or to reset.
type EndParams struct {
	Session string `json:"session"`
	Request string `json:"request,omitempty"` // as in StartParams
}

// StartParams are the parameters of turn/start, which runs code. With WaitMS the call answers as
// turn/wait does. With WriteLock no other client may write until the turn is over. Request is a
// name that the client gives to this call and to its repetitions: with it, the code runs only
// once. The daemon remembers the last 256 requests of each client.
type StartParams struct {
	Session     string               `json:"session"`
	Input       string               `json:"input"`
	WriteLock   bool                 `json:"write_lock,omitempty"`
	Silent      bool                 `json:"silent,omitempty"`   // see session.Session.SubmitSilent
	MayExit     bool                 `json:"may_exit,omitempty"` // see session.Session.SubmitMayExit; not with Silent
	Dialect     session.InputDialect `json:"dialect,omitempty"`  // see session.Session.InDialect
	Author      string               `json:"author,omitempty"`
	WaitMS      int64                `json:"wait_ms,omitempty"`
	After       timeline.Seq         `json:"after,omitempty"`
	ReadCursor  timeline.Seq         `json:"read_cursor,omitempty"` // how far Author had read before, as in ReadCursorParams
	Continues   bool                 `json:"continues,omitempty"`   // cancelling the call ends the wait, not the turn
	Queue       bool                 `json:"queue,omitempty"`       // wait while the session is busy; see session.TurnQueuer
	Request     string               `json:"request,omitempty"`
	TraceParent string               `json:"traceparent,omitempty"` // the span of the caller, as a traceparent of the W3C; see session.WithTraceParent
}

// A TurnAccepted says which turn a call with a Request has started or answered, before the turn
// is over.
type TurnAccepted struct {
	Request string `json:"request"`
	Session string `json:"session"`
	Turn    uint64 `json:"turn"`
}

// InputParams are the parameters of turn/input, which answers an input request.
type InputParams struct {
	Session      string       `json:"session"`
	InputRequest timeline.Seq `json:"input_request"`
	Input        string       `json:"input"`
	EOF          bool         `json:"eof,omitempty"`
	Author       string       `json:"author,omitempty"`
	WaitMS       int64        `json:"wait_ms,omitempty"`
	After        timeline.Seq `json:"after,omitempty"`
	ReadCursor   timeline.Seq `json:"read_cursor,omitempty"` // as in StartParams
	Continues    bool         `json:"continues,omitempty"`   //
	Request      string       `json:"request,omitempty"`     //
}

// WaitParams wait until a turn ends or asks for input, for at most WaitMS; 0 does not wait.
// Turn is a recent turn of this session; 0 is the active one.
type WaitParams struct {
	Session string       `json:"session"`
	Turn    uint64       `json:"turn,omitempty"`
	WaitMS  int64        `json:"wait_ms,omitempty"`
	After   timeline.Seq `json:"after,omitempty"`
}

// InterruptParams interrupt a turn by its number, so that a late interrupt does not hit the
// next one; or, with Active, the turn that is active when the call arrives.
type InterruptParams struct {
	Session string `json:"session"`
	Turn    uint64 `json:"turn,omitempty"`
	Active  bool   `json:"active,omitempty"`
	Author  string `json:"author,omitempty"`
	Request string `json:"request,omitempty"` // as in StartParams
}

// An InterruptReply reports the effect of an interrupt.
type InterruptReply struct {
	Result session.InterruptResult `json:"result"`
}

// GrantParams grant a session access: one of Read, Write and Host.
type GrantParams struct {
	Session string `json:"session"`
	session.Grant
	Author string `json:"author,omitempty"`
}

// AnswerPermissionParams answer a permission request by its number.
type AnswerPermissionParams struct {
	Session    string `json:"session"`
	Permission uint64 `json:"permission"`
	OK         bool   `json:"ok"`
	Author     string `json:"author,omitempty"`
}

// QueryParams ask about text while the session is idle.
type QueryParams struct {
	Session string `json:"session"`
	Text    string `json:"text"`
	Cursor  int    `json:"cursor,omitempty"` // bytes
}

// ParseParams ask whether text is a complete input.
type ParseParams struct {
	Session string               `json:"session"`
	Text    string               `json:"text"`
	Dialect session.InputDialect `json:"dialect,omitempty"` // of Text; see session.Session.InDialect
}

// TablePageParams ask for rows of a data frame while the session is idle.
type TablePageParams struct {
	Session string `json:"session"`
	session.TableQuery
}

// CommsParams ask for changes of the comms of notebooks.
type CommsParams struct {
	Session string `json:"session"`
	session.CommsQuery
}

// A ParseReply says whether text is a complete input.
type ParseReply struct {
	Status session.ParseStatus `json:"status"`
}

// OutputParams select lines of the rendered output.
type OutputParams struct {
	Session string `json:"session"`
	session.OutputQuery
}

// ReadParams ask for a window of a session's events.
type ReadParams struct {
	Session string `json:"session"`
	session.ReadQuery
}

// OutlineParams ask for summaries of a session's turns.
type OutlineParams struct {
	Session string `json:"session"`
	session.TurnSummariesQuery
}

// SearchParams search for lines of a session.
type SearchParams struct {
	Session string `json:"session"`
	session.SearchQuery
}

// BlobParams ask for data of an event by its digest, including data that was left out of the event.
type BlobParams struct {
	Session string `json:"session"`
	Digest  string `json:"digest"`
	Offset  int64  `json:"offset,omitempty"`
	Limit   int    `json:"limit,omitempty"`  // bytes, at most session.MaxPartBytes, which 0 means
	Buffer  bool   `json:"buffer,omitempty"` // the data follows the line of the answer
}

// FilesParams name a directory or a file of a session: an open one by name, or a crashed one by the
// ID of its CrashedSession. For the form of a path, see session.FileTransfer. Only the own
// directory of a crashed session is left, session.OwnFiles.
type FilesParams struct {
	Session string `json:"session,omitempty"`
	Crashed string `json:"crashed,omitempty"`
	Path    string `json:"path,omitempty"` // "" is the working directory
}

// FileParams ask for a part of a file.
type FileParams struct {
	FilesParams
	Offset int64 `json:"offset,omitempty"`
	Limit  int   `json:"limit,omitempty"`  // bytes, at most session.MaxPartBytes, which 0 means
	Buffer bool  `json:"buffer,omitempty"` // the data follows the line of the answer
}

// LibraryParams ask for a chart library on the daemon's machine, by the path that a display names in
// its metadata.
type LibraryParams struct {
	Path   string `json:"path"`             // absolute
	Script bool   `json:"script,omitempty"` // also return a part of the script
	Offset int64  `json:"offset,omitempty"` // of that part, in bytes
}

// A Library is a published build of a chart library. Only such files are released.
type Library struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`           // SHA-256, in hexadecimal
	Bytes   int64  `json:"bytes,omitempty"`  // of the whole script, if a part was asked for
	Script  []byte `json:"script,omitempty"` // at most session.MaxPartBytes
}

// PutFileParams send a piece of a file.
type PutFileParams struct {
	Session string `json:"session"`
	session.FilePiece
}

// SetData sets the data to the buffer of a request. It reports false if the data is set already.
func (p *PutFileParams) SetData(data []byte) bool {
	if p.Data != nil {
		return false
	}
	p.Data = data
	return true
}

// RemoveFileParams name a file of the working directory that is removed.
type RemoveFileParams struct {
	Session string `json:"session"`
	Path    string `json:"path"`
	Request string `json:"request,omitempty"` // ID of the request, for repetitions
}

// CrashedSessions lists the sessions that crashed in the last day, the newest first.
type CrashedSessions struct {
	Sessions []CrashedSession `json:"sessions"`
}

// A CrashedSession is a session whose daemon was killed. Its files are kept for a day.
type CrashedSession struct {
	ID         string    `json:"id"` // unique, unlike the name
	Name       string    `json:"name"`
	Language   string    `json:"language"`
	Found      time.Time `json:"found"` // when it was found; its files are kept for a day from then on
	Inputs     int       `json:"inputs"`
	Bytes      int64     `json:"bytes"`
	OutputPath string    `json:"output_path"`
}

// WriteLockParams take or release the write lock of a session. A lock with Long is announced in
// the session; a lock for one turn is not.
type WriteLockParams struct {
	Session string `json:"session"`
	Author  string `json:"author"`
	Long    bool   `json:"long,omitempty"`
}

// ReadCursorParams store how far a reader has read, so that it can continue there after a restart.
// Without Seq they only ask for the stored position.
type ReadCursorParams struct {
	Session string       `json:"session"`
	Reader  string       `json:"reader"`
	Seq     timeline.Seq `json:"seq,omitempty"`
	Own     bool         `json:"own,omitempty"` // do not share the name with another connection
}

// A ReadCursor is how far a reader has read; 0 if the reader is new. Reader is its name: with
// Own, it may differ from the requested one by a number.
type ReadCursor struct {
	Seq    timeline.Seq `json:"seq"`
	Reader string       `json:"reader"`
}

// ClientList lists the connected clients, in the order in which they connected.
type ClientList struct {
	Clients []ConnectedClient `json:"clients"`
}

// ConnectedClient is one connection to the daemon.
type ConnectedClient struct {
	Client   string       `json:"client"`
	PID      int          `json:"pid,omitempty"`    // its process, if the system reports it
	Author   string       `json:"author,omitempty"` // the last name that it used
	Since    time.Time    `json:"since"`
	Self     bool         `json:"self,omitempty"` // it is the caller
	Sessions []Attachment `json:"sessions"`
}

// An Attachment describes how a connection uses a session.
type Attachment struct {
	Session   string `json:"session"`
	Watches   bool   `json:"watches,omitempty"`
	Reader    string `json:"reader,omitempty"`     // name under which it reads
	WriteLock bool   `json:"write_lock,omitempty"` // no other client may write
	LongLock  bool   `json:"long_lock,omitempty"`  // the lock lasts until it is released, not just for a turn
	Calls     int    `json:"calls,omitempty"`      // number of calls that wait for the session
}

// DetachParams end another connection.
type DetachParams struct {
	Client string `json:"client"`
	Author string `json:"author,omitempty"` // the author who ends it; the other client gets this name
}

// SubscribeParams watch a session from a cursor; 0 is its beginning. With ChangesOnly, they
// watch only whether the session changes, or any session if none is named.
type SubscribeParams struct {
	Session     string       `json:"session"`
	After       timeline.Seq `json:"after,omitempty"`
	Author      string       `json:"author,omitempty"` // who watches
	ChangesOnly bool         `json:"changes_only,omitempty"`
	Blobs       string       `json:"blobs,omitempty"` // BlobsRef: data of 4 KiB or more is left out and named by its digest
}

// BlobsRef is the value of SubscribeParams.Blobs that leaves out large data.
const BlobsRef = "ref"

// A SubscribeReply identifies the subscription that a call has made or resumed. A snapshot of
// everything up to Seq follows. A resumed subscription gets the current input request again,
// because its client may have forgotten it.
type SubscribeReply struct {
	Subscription string                `json:"subscription"`
	Seq          timeline.Seq          `json:"seq"`
	InputRequest *session.InputRequest `json:"input_request,omitempty"`
}

// SubscriptionParams name a subscription.
type SubscriptionParams struct {
	Subscription string `json:"subscription"`
}

// A Snapshot contains what happened before a subscription started. A large snapshot comes in parts;
// the last one has More false.
type Snapshot struct {
	Subscription string           `json:"subscription"`
	Session      session.Info     `json:"session"`
	Events       []timeline.Event `json:"events"`
	Seq          timeline.Seq     `json:"seq"` // the snapshot reaches up to it; live events follow
	More         bool             `json:"more,omitempty"`
}

// A LiveEvent is one event as it happens.
type LiveEvent struct {
	Subscription string         `json:"subscription"`
	Session      string         `json:"session"`
	Event        timeline.Event `json:"event"`
}

// A ChangeNotice reports that a session has changed.
type ChangeNotice struct {
	Subscription string       `json:"subscription"`
	Change       session.Tick `json:"change"`
}

// A SubscriptionEnd says that a subscription is over, and why: its session was closed, or
// another client ended the connection.
type SubscriptionEnd struct {
	Subscription string `json:"subscription"`
	Session      string `json:"session"`
	Reason       string `json:"reason"`
	Detached     bool   `json:"detached,omitempty"`
}

// PreparationProgress reports the progress of preparing sessions.
type PreparationProgress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress int64           `json:"progress"`
	Total    int64           `json:"total,omitempty"` // 0: unknown; equal to Progress: complete
	Message  string          `json:"message,omitempty"`
}
