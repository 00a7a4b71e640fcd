package client

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Protocol is the version of the methods, which daemon and client must share.
const Protocol = 1

// The methods of the daemon.
const (
	MethodInfo = "server/info"
	MethodPing = "server/ping"

	MethodHello = "client/hello"

	MethodCreate = "session/create"
	MethodList   = "session/list"
	MethodGet    = "session/get"
	MethodResize = "session/resize"
	MethodReset  = "session/reset"
	MethodClose  = "session/close"

	MethodStart     = "turn/start"
	MethodInput     = "turn/input"
	MethodWait      = "turn/wait"
	MethodInterrupt = "turn/interrupt"

	MethodGrant            = "permission/grant"
	MethodAnswerPermission = "permission/answer"

	MethodComplete     = "query/complete"
	MethodParse        = "query/parse"
	MethodVariables    = "query/variables"
	MethodInspect      = "query/inspect"
	MethodDestinations = "query/destinations"
	MethodVisibleHome  = "query/visible_home"
	MethodOutput       = "output/query"

	MethodRead    = "timeline/read"
	MethodOutline = "timeline/outline"
	MethodSearch  = "timeline/search"
	MethodBlob    = "blob/get"

	MethodFiles       = "file/list"
	MethodFile        = "file/read"
	MethodListCrashed = "session/list_crashed"

	MethodTakeWriteLock    = "write_lock/take"
	MethodReleaseWriteLock = "write_lock/release"

	MethodReadCursor = "reader/cursor"

	MethodClients = "connection/list"
	MethodDetach  = "connection/detach"

	MethodSubscribe   = "stream/subscribe"
	MethodPause       = "stream/pause"
	MethodResume      = "stream/resume"
	MethodUnsubscribe = "stream/unsubscribe"

	// Notifications, from the daemon.
	MethodSnapshot     = "stream/snapshot"
	MethodEvent        = "stream/event"
	MethodChange       = "stream/change"
	MethodEnded        = "stream/ended"
	MethodProgress     = "preparation/progress"
	MethodTurnAccepted = "turn/accepted"
)

// The kinds of errors that a daemon, or the way to it, adds to those of a session.
const (
	KindLocked              session.Kind = "locked"               // another client has the write lock
	KindDraining            session.Kind = "draining"             // the daemon takes no new work
	KindUnreachable         session.Kind = "unreachable"          // made by this package: the daemon is gone
	KindShuttingDown        session.Kind = "shutting_down"        // the daemon ended before the call did
	KindProtocol            session.Kind = "protocol"             // made by this package: the daemon is of another version
	KindCancelled           session.Kind = "cancelled"            // the call was
	KindDetached            session.Kind = "detached"             // made by this package: somebody has ended the connection
	KindOutcomeUnknown      session.Kind = "outcome_unknown"      // made by this package: the daemon was restarted, and whether a call was carried out is not known
	KindUnknownLanguage     session.Kind = "unknown_language"     // there is no such language
	KindUnknownSubscription session.Kind = "unknown_subscription" // there is no such subscription
)

// Info describes the daemon.
type Info struct {
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

// WarmPool are the sessions of one language that a daemon keeps ready for those who create one.
type WarmPool struct {
	Language string `json:"language"`
	Ready    int    `json:"ready"`
	Count    int    `json:"count"`             // how many it would keep
	Dir      string `json:"dir"`               // where they work; only sessions that start alike are given
	Failure  string `json:"failure,omitempty"` // why no more are made
}

// MaxRequestIDBytes bounds the id of a request that may be repeated.
const MaxRequestIDBytes = 64

// HelloParams say who calls, as the first call of a connection. A connection with a higher epoch
// of the same client takes the place of the one before: see docs/daemon.md.
type HelloParams struct {
	ID    string `json:"id"`    // random, of this process: 16 to 64 letters, digits, hyphens and underscores
	Epoch uint64 `json:"epoch"` // counts the connections that the process makes, from 1
}

// A HelloReply describes the daemon.
type HelloReply struct {
	Info
	Known bool `json:"known,omitempty"` // the client was here before, and has again what it had
}

// CreateParams open a session. The answer comes at once when something has to be
// prepared first: its state is preparing then, input for it is held, and
// progress goes to Token.
type CreateParams struct {
	Name                 string            `json:"name,omitempty"`      // "" makes one up
	Language             string            `json:"language,omitempty"`  // "" is the daemon's default
	Command              []string          `json:"command,omitempty"`   // starts a worker of the caller's own, as a language that the daemon does not have; the first is an absolute path
	Dir                  string            `json:"dir,omitempty"`       // absolute; "" is the daemon's own
	Runtime              string            `json:"runtime,omitempty"`   // which interpreter, as --python has it
	Packages             []string          `json:"packages,omitempty"`  // packages to prepare
	Env                  map[string]string `json:"env,omitempty"`       // variables of its environment, beside those of the daemon's
	Sandbox              string            `json:"sandbox,omitempty"`   // read-only, workspace or full; "" is full
	Home                 string            `json:"home,omitempty"`      // what a sandbox shows of the home directory: documents or tools; "" is documents
	Readable             []string          `json:"readable,omitempty"`  // more files and directories that a sandbox shows it, absolute
	Writable             []string          `json:"writable,omitempty"`  // files and directories that it lets it write, absolute
	Accepted             []string          `json:"accepted,omitempty"`  // real paths of those that programs outside run or read, once more
	Protected            []string          `json:"protected,omitempty"` // paths in what it writes that stay as they are, absolute
	Network              string            `json:"network,omitempty"`   // of a sandbox: none, list or full; "" is none
	Hosts                []string          `json:"hosts,omitempty"`     // of the network list: patterns of hosts
	Accept               string            `json:"accept,omitempty"`    // the weaker mechanism that a sandbox may have: landlock
	AskUser              bool              `json:"ask_user,omitempty"`  // hold what a sandbox refuses and a person could allow
	Limits               Limits            `json:"limits,omitzero"`
	SessionIdleTimeoutMS int64             `json:"session_idle_timeout_ms,omitempty"` // unused for so long it is closed; 0 is as the daemon has it
	Token                json.RawMessage   `json:"progressToken,omitempty"`
	Request              string            `json:"request,omitempty"` // as StartParams has it
}

// Limits bound what a session uses; zero fields bound nothing.
type Limits struct {
	Memory    int64 `json:"memory,omitempty"`    // bytes
	Processes int   `json:"processes,omitempty"` // with their threads
	CPUs      int   `json:"cpus,omitempty"`
	Files     int   `json:"files,omitempty"` // open in each process
	Disk      int64 `json:"disk,omitempty"`  // bytes
	TurnMS    int64 `json:"turn_ms,omitempty"`
}

// Destinations lists the hosts in the network that a session has connected to, or tried to.
type Destinations struct {
	Destinations []session.Destination `json:"destinations"`
}

// MaxAuthorBytes bounds the name of an author.
const MaxAuthorBytes = 128

// IsAuthor reports whether the daemon accepts name as an author's. "" is one. The name stands
// before each input, at terminals and in replies to models. So it has no control characters,
// no invisible ones, and none that reverse the order of others.
func IsAuthor(name string) bool {
	unseen := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	return len(name) <= MaxAuthorBytes && utf8.ValidString(name) && !strings.ContainsFunc(name, unseen)
}

// NameParams name a session.
type NameParams struct {
	Session string `json:"session"`
}

// ResizeParams say how large the terminal of a session is from now on, in characters.
type ResizeParams struct {
	Session string `json:"session"`
	Rows    int    `json:"rows"`
	Cols    int    `json:"cols"`
}

// EndParams end a session's worker, or the session.
type EndParams struct {
	Session string `json:"session"`
	Request string `json:"request,omitempty"` // as StartParams has it
}

// StartParams run code. With WaitMS the answer is that of a wait. With WriteLock
// no other client may write until the turn is over. With Request, a name that the client gives to
// this call and to its repetitions, the code runs once however often the call is made: the
// daemon remembers the last 256 of each client.
type StartParams struct {
	Session    string       `json:"session"`
	Input      string       `json:"input"`
	WriteLock  bool         `json:"write_lock,omitempty"`
	Silent     bool         `json:"silent,omitempty"`   // see session.Session.SubmitSilent
	MayExit    bool         `json:"may_exit,omitempty"` // see session.Session.SubmitMayExit; not with Silent
	Author     string       `json:"author,omitempty"`
	WaitMS     int64        `json:"wait_ms,omitempty"`
	After      timeline.Seq `json:"after,omitempty"`
	ReadCursor timeline.Seq `json:"read_cursor,omitempty"` // how far Author had read before, as ReadCursorParams have it
	Continues  bool         `json:"continues,omitempty"`   // cancelling the call ends the waiting, not the turn
	Request    string       `json:"request,omitempty"`
}

// A TurnAccepted says which turn a call with a Request has started or answered, before it is over.
type TurnAccepted struct {
	Request string `json:"request"`
	Session string `json:"session"`
	Turn    uint64 `json:"turn"`
}

// InputParams answer an input request.
type InputParams struct {
	Session      string       `json:"session"`
	InputRequest timeline.Seq `json:"input_request"`
	Input        string       `json:"input"`
	EOF          bool         `json:"eof,omitempty"`
	Author       string       `json:"author,omitempty"`
	WaitMS       int64        `json:"wait_ms,omitempty"`
	After        timeline.Seq `json:"after,omitempty"`
	ReadCursor   timeline.Seq `json:"read_cursor,omitempty"` // as StartParams has them
	Continues    bool         `json:"continues,omitempty"`   //
	Request      string       `json:"request,omitempty"`     //
}

// WaitParams wait until a turn ends or asks for input, for WaitMS at most; 0 does
// not wait. Turn is one that was started or fed here, and not long ago; 0 is
// whatever is active.
type WaitParams struct {
	Session string       `json:"session"`
	Turn    uint64       `json:"turn,omitempty"`
	WaitMS  int64        `json:"wait_ms,omitempty"`
	After   timeline.Seq `json:"after,omitempty"`
}

// InterruptParams interrupt a turn by its number, so that a late interrupt does not
// hit the next one; or, with Active, whatever is active when the call arrives.
type InterruptParams struct {
	Session string `json:"session"`
	Turn    uint64 `json:"turn,omitempty"`
	Active  bool   `json:"active,omitempty"`
	Author  string `json:"author,omitempty"`
	Request string `json:"request,omitempty"` // as StartParams has it
}

// An InterruptReply says what came of an interrupt.
type InterruptReply struct {
	Result session.InterruptResult `json:"result"`
}

// GrantParams give a session a right, one of Read, Write and Host.
type GrantParams struct {
	Session string `json:"session"`
	session.Grant
	Author string `json:"author,omitempty"`
}

// AnswerPermissionParams answer a permission by its number.
type AnswerPermissionParams struct {
	Session    string `json:"session"`
	Permission uint64 `json:"permission"`
	OK         bool   `json:"ok"`
	Author     string `json:"author,omitempty"`
}

// QueryParams ask about text, while the session is idle.
type QueryParams struct {
	Session string `json:"session"`
	Text    string `json:"text"`
	Cursor  int    `json:"cursor,omitempty"` // bytes
}

// A ParseReply says whether text is a whole input.
type ParseReply struct {
	Status session.ParseStatus `json:"status"`
}

// OutputParams look into the rendered output.
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

// SearchParams ask for lines of a session.
type SearchParams struct {
	Session string `json:"session"`
	session.SearchQuery
}

// BlobParams ask for data that an event of the session has, or had left out, by its digest.
type BlobParams struct {
	Session string `json:"session"`
	Digest  string `json:"digest"`
	Offset  int64  `json:"offset,omitempty"`
	Limit   int    `json:"limit,omitempty"` // bytes, at most session.MaxPartBytes, which 0 means
}

// FilesParams name a session whose own directory has files: one that is open, or one that was
// crashed, by the ID of its CrashedSession.
type FilesParams struct {
	Session string `json:"session,omitempty"`
	Crashed string `json:"crashed,omitempty"`
}

// FileList are the plain files of a session's own directory, by name.
type FileList struct {
	Files []session.File `json:"files"`
}

// FileParams ask for a part of a file in a session's own directory.
type FileParams struct {
	FilesParams
	Path   string `json:"path"` // its name, or its whole path as the daemon tells it
	Offset int64  `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"` // bytes, at most session.MaxPartBytes, which 0 means
}

// CrashedSessions are those that were lost in the last day, the newest first.
type CrashedSessions struct {
	Sessions []CrashedSession `json:"sessions"`
}

// A CrashedSession is a session whose daemon was killed. Its files are kept for a day.
type CrashedSession struct {
	ID         string    `json:"id"` // unique, unlike the name
	Name       string    `json:"name"`
	Language   string    `json:"language"`
	Found      time.Time `json:"found"` // when it was found; it is kept from then on
	Inputs     int       `json:"inputs"`
	Bytes      int64     `json:"bytes"`
	OutputPath string    `json:"output_path"`
}

// WriteLockParams take or release the write lock of a session. A lock with Long is announced
// in the session; a lock for one turn is not.
type WriteLockParams struct {
	Session string `json:"session"`
	Author  string `json:"author"`
	Long    bool   `json:"long,omitempty"`
}

// ReadCursorParams remember how far a reader has read, so that it can go on there after
// it was restarted. Without Seq they only ask.
type ReadCursorParams struct {
	Session string       `json:"session"`
	Reader  string       `json:"reader"`
	Seq     timeline.Seq `json:"seq,omitempty"`
	Own     bool         `json:"own,omitempty"` // not a name under which another connection reads
}

// A ReadCursor is how far a reader has read; 0 when it was never here. Reader is its
// name: another one than was asked for, with a number, when Own wanted that.
type ReadCursor struct {
	Seq    timeline.Seq `json:"seq"`
	Reader string       `json:"reader"`
}

// ClientList are those who are connected, by when they came.
type ClientList struct {
	Clients []ConnectedClient `json:"clients"`
}

// ConnectedClient is one connection to the daemon.
type ConnectedClient struct {
	Client   string       `json:"client"`
	PID      int          `json:"pid,omitempty"`    // its process, where the system tells
	Author   string       `json:"author,omitempty"` // the last name that it gave
	Since    time.Time    `json:"since"`
	Self     bool         `json:"self,omitempty"` // it is the one that asks
	Sessions []Attachment `json:"sessions"`
}

// An Attachment is what a connection has to do with a session.
type Attachment struct {
	Session   string `json:"session"`
	Watches   bool   `json:"watches,omitempty"`
	Reader    string `json:"reader,omitempty"`     // under that name
	WriteLock bool   `json:"write_lock,omitempty"` // no other client may write
	LongLock  bool   `json:"long_lock,omitempty"`  // until it is released, not for a turn
	Calls     int    `json:"calls,omitempty"`      // that wait for it
}

// DetachParams end another connection.
type DetachParams struct {
	Client string `json:"client"`
	Author string `json:"author,omitempty"` // the author who ends it; the other client learns this
}

// SubscribeParams watch a session from a cursor; 0 is its beginning. With ChangesOnly they watch only
// whether something changes, of one session, or of all with none.
type SubscribeParams struct {
	Session     string       `json:"session"`
	After       timeline.Seq `json:"after,omitempty"`
	Author      string       `json:"author,omitempty"` // who watches
	ChangesOnly bool         `json:"changes_only,omitempty"`
	Blobs       string       `json:"blobs,omitempty"` // BlobsRef: data from 4 KiB on is left out and named by its digest
}

// BlobsRef is for SubscribeParams.Blobs.
const BlobsRef = "ref"

// A SubscribeReply names a subscription. A snapshot of everything up to Seq follows. A resumed
// subscription has the current question again, because its client may have forgotten it.
type SubscribeReply struct {
	Subscription string                `json:"subscription"`
	Seq          timeline.Seq          `json:"seq"`
	InputRequest *session.InputRequest `json:"input_request,omitempty"`
}

// SubscriptionParams name a subscription.
type SubscriptionParams struct {
	Subscription string `json:"subscription"`
}

// A Snapshot is what had happened when a subscription began. A large one comes in
// parts, of which the last has More false.
type Snapshot struct {
	Subscription string           `json:"subscription"`
	Session      session.Info     `json:"session"`
	Events       []timeline.Event `json:"events"`
	Seq          timeline.Seq     `json:"seq"` // all up to it; live events follow behind it
	More         bool             `json:"more,omitempty"`
}

// A LiveEvent is one event as it happens.
type LiveEvent struct {
	Subscription string         `json:"subscription"`
	Session      string         `json:"session"`
	Event        timeline.Event `json:"event"`
}

// A ChangeNotice says that a session has changed.
type ChangeNotice struct {
	Subscription string       `json:"subscription"`
	Change       session.Tick `json:"change"`
}

// A SubscriptionEnd says that a subscription is over, and why: its session was closed, or its
// connection is ended by somebody else.
type SubscriptionEnd struct {
	Subscription string `json:"subscription"`
	Session      string `json:"session"`
	Reason       string `json:"reason"`
	Detached     bool   `json:"detached,omitempty"`
}

// PreparationProgress tells how far the preparation of sessions is.
type PreparationProgress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress int64           `json:"progress"`
	Total    int64           `json:"total,omitempty"` // 0: not known; equal to Progress: over
	Message  string          `json:"message,omitempty"`
}
