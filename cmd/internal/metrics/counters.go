package metrics

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxLanguages bounds the languages that are counted one by one. A client chooses the name of a
// custom worker, so their number has no other bound. Further languages are counted as otherLanguage.
const maxLanguages, otherLanguage = 32, "other"

// plainName matches the name of a language that can be a label.
var plainName = text.Pattern(`^[A-Za-z0-9_.:+-]{1,64}$`)

// turnBounds are the upper bounds of the histogram of turns, in seconds.
var turnBounds = [...]float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600, 3600}

// outcomes are the ways in which a turn ends.
var outcomes = [...]timeline.Outcome{timeline.OutcomeOK, timeline.OutcomeError, timeline.OutcomeInterrupted, timeline.OutcomeEnded}

// These are the reasons for which a worker has ended.
const (
	endClosed   = iota // its session was closed
	endReset           // it was replaced
	endExit            // it exited on its own
	endSignal          // a signal killed it
	endNotReady        // it ended before it could take an input
	endFailure         // it crashed, or broke the protocol
)

var endReasons = [...]string{endClosed: "closed", endReset: "reset", endExit: "exit", endSignal: "signal", endNotReady: "never_ready", endFailure: "failure"}

// Counters counts events. It is safe for concurrent use.
type Counters struct {
	mu        sync.Mutex
	languages atomic.Pointer[map[string]*languageCounters] // replaced under mu
}

// A languageCounters holds the counters of one language.
type languageCounters struct {
	turns       [len(outcomes)]atomic.Int64
	durations   [len(turnBounds) + 1]atomic.Int64 // the last one counts longer turns
	totalMicros atomic.Int64
	starts      atomic.Int64
	ends        [len(endReasons)]atomic.Int64
	outputBytes atomic.Int64
	denials     atomic.Int64
	limits      atomic.Int64
}

// NewCounters returns counters that are zero.
func NewCounters() *Counters {
	c := &Counters{}
	c.languages.Store(&map[string]*languageCounters{})
	return c
}

// CountEvent counts an event of a session in this language. It does not block.
func (c *Counters) CountEvent(language string, e timeline.Event) {
	switch b := e.Body.(type) {
	case timeline.Text:
		c.ofLanguage(language).outputBytes.Add(int64(len(b.Data)))
	case timeline.TurnEnded:
		if e.Turn > 0 { // turn 0 is the start-up
			c.ofLanguage(language).countTurn(b)
		}
	case timeline.WorkerStarted:
		c.ofLanguage(language).starts.Add(1)
	case timeline.WorkerExited:
		c.ofLanguage(language).ends[endReason(b)].Add(1)
	case timeline.AccessDenied:
		c.ofLanguage(language).denials.Add(1)
	case timeline.Limit:
		c.ofLanguage(language).limits.Add(1)
	}
}

// ofLanguage returns the counters of a language, and creates them if they are missing.
func (c *Counters) ofLanguage(language string) *languageCounters {
	if l := (*c.languages.Load())[language]; l != nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *c.languages.Load()
	if len(known) >= maxLanguages || !plainName().MatchString(language) {
		language = otherLanguage
	}
	if l := known[language]; l != nil {
		return l
	}
	more := make(map[string]*languageCounters, len(known)+1)
	for name, l := range known {
		more[name] = l
	}
	l := &languageCounters{}
	more[language] = l
	c.languages.Store(&more)
	return l
}

// labelOf returns the label of a language: its name, or otherLanguage if it is not counted by itself.
func (c *Counters) labelOf(language string) string {
	c.ofLanguage(language)
	if (*c.languages.Load())[language] == nil {
		return otherLanguage
	}
	return language
}

// countTurn counts a turn that has ended.
func (l *languageCounters) countTurn(b timeline.TurnEnded) {
	if i := slices.Index(outcomes[:], b.Outcome); i >= 0 {
		l.turns[i].Add(1)
	}
	at, _ := slices.BinarySearch(turnBounds[:], b.Elapsed.Seconds()) // the first bound that is not smaller
	l.durations[at].Add(1)
	l.totalMicros.Add(b.Elapsed.Microseconds())
}

// endReason returns the reason for which a worker has ended, as an index of endReasons.
func endReason(b timeline.WorkerExited) int {
	switch {
	case b.Reason == endReasons[endClosed]:
		return endClosed
	case b.Reason == endReasons[endReset]:
		return endReset
	case b.NeverReady:
		return endNotReady
	case strings.HasPrefix(b.Reason, "worker failed: "):
		return endFailure
	case b.Signal != "":
		return endSignal
	case b.Clean, b.ExitCode >= 0:
		return endExit
	}
	return endFailure
}

// Gauges are the values that are read when a text is written.
type Gauges struct {
	Version     string
	StartedUnix float64 // when the daemon was started
	Connections int64
	Draining    bool
	Paused      bool
	DaemonBytes int64 // memory of the daemon itself
	Sessions    []SessionGauge
}

// A SessionGauge is what the gauges show of one open session, without its name.
type SessionGauge struct {
	Language    string
	State       session.State
	MemoryBytes int64
}

// Format returns all metrics in the text format of Prometheus, version 0.0.4.
func (c *Counters) Format(g Gauges) string {
	var w textWriter
	w.family("turnstone_build_info", gauge, "The version of the daemon. The value is always 1.")
	w.sample("turnstone_build_info", 1, "version", g.Version)
	w.family("turnstone_daemon_start_time_seconds", gauge, "When the daemon was started, in seconds since 1970.")
	w.sample("turnstone_daemon_start_time_seconds", g.StartedUnix)
	w.family("turnstone_daemon_memory_bytes", gauge, "Memory of the daemon itself, without its workers.")
	w.sample("turnstone_daemon_memory_bytes", float64(g.DaemonBytes))
	w.family("turnstone_connections", gauge, "Connected clients.")
	w.sample("turnstone_connections", float64(g.Connections))
	w.family("turnstone_accepts_work", gauge, "1 if the daemon accepts new sessions and turns, and 0 if it is paused or drains.")
	w.sample("turnstone_accepts_work", boolValue(!g.Draining && !g.Paused))
	c.writeSessions(&w, g.Sessions)
	c.writeTurns(&w)
	c.writeWorkers(&w)
	return w.String()
}

// boolValue returns 1 for true.
func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// writeSessions writes the gauges of the open sessions, added up by language.
func (c *Counters) writeSessions(w *textWriter, sessions []SessionGauge) {
	type total struct {
		states [session.NumStates]int
		memory int64
	}
	totals := make(map[string]*total)
	for _, s := range sessions {
		label := c.labelOf(s.Language)
		if totals[label] == nil {
			totals[label] = &total{}
		}
		if s.State < session.NumStates {
			totals[label].states[s.State]++
		}
		totals[label].memory += s.MemoryBytes
	}
	w.family("turnstone_sessions", gauge, "Open sessions.")
	for _, language := range sortedKeys(totals) {
		for state, n := range totals[language].states {
			w.sample("turnstone_sessions", float64(n), "language", language, "state", session.State(state).String())
		}
	}
	w.family("turnstone_session_memory_bytes", gauge, "Memory of the processes of all sessions. Memory that several processes share counts for each.")
	for _, language := range sortedKeys(totals) {
		w.sample("turnstone_session_memory_bytes", float64(totals[language].memory), "language", language)
	}
}

// writeTurns writes the counters of turns.
func (c *Counters) writeTurns(w *textWriter) {
	known := *c.languages.Load()
	names := sortedKeys(known)
	w.family("turnstone_turns_total", counter, "Turns that have ended, including silent ones.")
	for _, name := range names {
		for i, outcome := range outcomes {
			w.sample("turnstone_turns_total", float64(known[name].turns[i].Load()), "language", name, "outcome", string(outcome))
		}
	}
	w.family("turnstone_turn_duration_seconds", histogram, "How long turns took, including the time in which they waited for input.")
	for _, name := range names {
		l := known[name]
		total := l.totalMicros.Load() // before the counts: a turn that ends now may be missing in the sum
		count := int64(0)
		for i := range l.durations {
			bound := math.Inf(1)
			if i < len(turnBounds) {
				bound = turnBounds[i]
			}
			count += l.durations[i].Load()
			w.sample("turnstone_turn_duration_seconds_bucket", float64(count), "language", name, "le", formatValue(bound))
		}
		w.sample("turnstone_turn_duration_seconds_sum", float64(total)/1e6, "language", name)
		w.sample("turnstone_turn_duration_seconds_count", float64(count), "language", name)
	}
	w.family("turnstone_output_bytes_total", counter, "Bytes of text that workers have printed.")
	for _, name := range names {
		w.sample("turnstone_output_bytes_total", float64(known[name].outputBytes.Load()), "language", name)
	}
}

// writeWorkers writes the counters of workers and sandboxes.
func (c *Counters) writeWorkers(w *textWriter) {
	known := *c.languages.Load()
	names := sortedKeys(known)
	w.family("turnstone_worker_starts_total", counter, "Workers that were started.")
	for _, name := range names {
		w.sample("turnstone_worker_starts_total", float64(known[name].starts.Load()), "language", name)
	}
	w.family("turnstone_worker_exits_total", counter, "Workers that have ended, by reason.")
	for _, name := range names {
		for i, reason := range endReasons {
			w.sample("turnstone_worker_exits_total", float64(known[name].ends[i].Load()), "language", name, "reason", reason)
		}
	}
	w.family("turnstone_access_denials_total", counter, "Calls that a sandbox refused and that a session reported. A turn reports the first five.")
	for _, name := range names {
		w.sample("turnstone_access_denials_total", float64(known[name].denials.Load()), "language", name)
	}
	w.family("turnstone_limit_events_total", counter, "Times that a session reached a limit, such as its memory.")
	for _, name := range names {
		w.sample("turnstone_limit_events_total", float64(known[name].limits.Load()), "language", name)
	}
}
