package ipc

// Each fields method lists a message's fields with their bounds, in the order in which
// they are written. Reading and writing both use the list. schema.json says the same; a
// test compares the two.

func (m *TurnStart) fields(w *walk) {
	w.uint("turn", &m.Turn, required, 1)
	w.bytes("input", &m.Input, required, MaxFrameBytes)
	w.bool("silent", &m.Silent, optional)
	w.bool("no_exit", &m.NoExit, optional)
}

func (m *TurnInput) fields(w *walk) {
	w.uint("turn", &m.Turn, required, 0)
	w.uint("wait", &m.Wait, required, 1)
	w.bytes("input", &m.Input, required, MaxFrameBytes)
	w.bool("eof", &m.EOF, required)
}

func (m *Interrupt) fields(w *walk) {
	w.uint("turn", &m.Turn, required, 0)
	w.uint("seq", &m.Seq, required, 1)
	w.level("level", &m.Level)
}

func (m *Query) fields(w *walk) {
	w.uint("id", &m.ID, required, 0)
	enum(w, "kind", &m.Kind, QueryComplete, QueryParse, QueryVariables, QueryInspect)
	w.text("text", &m.Text, required, MaxFrameBytes)
	w.uint("cursor", &m.Cursor, required, 0)
}

func (m *Shutdown) fields(w *walk) {
	w.uint("grace_ms", &m.GraceMS, required, 0)
}

func (m *Functions) fields(w *walk) {
	w.uint("revision", &m.Revision, required, 1)
	w.bytes("list", &m.List, required, MaxFrameBytes)
}

func (m *CallResult) fields(w *walk) {
	w.uint("id", &m.ID, required, 1)
	w.bytes("value", &m.Value, required, MaxFrameBytes)
	w.bool("more", &m.More, required)
	w.bool("failed", &m.Failed, required)
}

func (m *WorkerReady) fields(w *walk) {
	w.object("protocol", &m.Protocol)
	w.object("worker", &m.Worker)
	w.object("capabilities", &m.Capabilities)
}

func (p *Protocol) fields(w *walk) {
	w.text("name", &p.Name, required, MaxTextBytes)
	w.uint("version", &p.Version, required, 0)
}

func (k *Worker) fields(w *walk) {
	w.text("name", &k.Name, required, MaxTextBytes)
	w.text("version", &k.Version, required, MaxTextBytes)
	w.text("language", &k.Language, required, MaxTextBytes)
	w.text("runtime_version", &k.RuntimeVersion, required, MaxTextBytes)
	w.text("executable", &k.Executable, required, MaxTextBytes)
	w.uint("pid", &k.PID, required, 0)
}

func (c *Capabilities) fields(w *walk) {
	w.bool("images", &c.Images, required)
	w.bool("display", &c.Display, optional)
	w.bool("fence", &c.Fence, required)
	w.bool("query", &c.Query, required)
	w.bool("variables", &c.Variables, optional)
	w.bool("functions", &c.Functions, optional)
	enum(w, "interrupt", &c.Interrupt, InterruptBySignal, InterruptBySelf)
}

func (m *Output) fields(w *walk) {
	enum(w, "stream", &m.Stream, Stdout, Stderr)
	w.bytes("data", &m.Data, required, MaxOutputBytes)
	optionalEnum(w, "kind", &m.Kind, TextResult, TextTraceback)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *Image) fields(w *walk) {
	w.text("mime", &m.MIME, required, MaxTextBytes)
	w.bytes("data", &m.Data, required, MaxFrameBytes)
	w.text("source", &m.Source, optional, MaxTextBytes)
	w.bool("update", &m.Update, required)
	w.text("title", &m.Title, optional, MaxTextBytes)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *Display) fields(w *walk) {
	w.bundle("data", &m.Data, required)
	w.bytes("meta", &m.Meta, optional, MaxMetaBytes)
	w.text("id", &m.ID, optional, MaxTextBytes)
	w.bool("update", &m.Update, required)
	enum(w, "kind", &m.Kind, DisplayShown, DisplayResult)
	w.text("title", &m.Title, optional, MaxTextBytes)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *Clear) fields(w *walk) {
	w.bool("wait", &m.Wait, required)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *InputLine) fields(w *walk) {
	text := required
	if m.Secret {
		text = forbidden
	}
	w.uint("turn", &m.Turn, required, 0)
	w.text("prompt", &m.Prompt, required, MaxTextBytes)
	w.text("text", &m.Text, text, MaxFrameBytes)
	w.bool("secret", &m.Secret, required)
	w.uint("line", &m.Line, optional, 0)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *StdinWait) fields(w *walk) {
	w.uint("turn", &m.Turn, required, 0)
	w.uint("wait", &m.Wait, required, 1)
	w.text("prompt", &m.Prompt, required, MaxTextBytes)
	enum(w, "kind", &m.Kind, WaitLine, WaitSecret, WaitContinue, WaitDebugger)
	enum(w, "want", &m.Want, WantLine, WantAll)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *Idle) fields(w *walk) {
	failure := optional // the fields of a turn that did not end well
	if m.Outcome == OutcomeOK {
		failure = forbidden
	}
	w.uint("turn", &m.Turn, required, 0)
	w.text("prompt", &m.Prompt, required, MaxTextBytes)
	w.text("continuation", &m.Continuation, optional, MaxTextBytes)
	enum(w, "outcome", &m.Outcome, OutcomeOK, OutcomeError, OutcomeInterrupted)
	objectOrNil(w, "error", &m.Error, failure)
	w.uint("unrun", &m.Unrun, failure, 0)
	w.uint("mark", &m.Mark, optional, 0)
}

func (e *RuntimeError) fields(w *walk) {
	w.text("name", &e.Name, required, MaxTextBytes)
	w.text("message", &e.Message, required, MaxTextBytes)
}

func (m *InterruptAck) fields(w *walk) {
	w.uint("turn", &m.Turn, required, 0)
	w.uint("seq", &m.Seq, required, 1)
	enum(w, "result", &m.Result, InterruptRaised, InterruptPending, InterruptStale)
}

func (m *Sigint) fields(w *walk) {
	enum(w, "owner", &m.Owner, SigintOurs, SigintUser, SigintIgnored)
}

func (m *Progress) fields(w *walk) {
	w.uint("turn", &m.Turn, required, 0)
	w.number("progress", &m.Progress)
	w.numberOrNil("total", &m.Total)
	w.text("message", &m.Message, optional, MaxTextBytes)
}

func (m *QueryResult) fields(w *walk) {
	w.uint("id", &m.ID, required, 0)
	enum(w, "status", &m.Status, StatusOK, StatusComplete, StatusIncomplete, StatusInvalid, StatusTimeout)
	w.uint("start", &m.Start, optional, 0)
	w.texts("matches", &m.Matches, MaxMatches, MaxTextBytes)
	objects(w, "variables", &m.Variables, MaxVariables)
	w.uint("more", &m.More, optional, 0)
	w.bundle("data", &m.Data, optional)
}

func (v *Variable) fields(w *walk) {
	w.text("name", &v.Name, required, MaxBriefBytes)
	w.text("type", &v.Type, required, MaxBriefBytes)
	w.text("shape", &v.Shape, optional, MaxBriefBytes)
	w.uint("bytes", &v.Bytes, optional, 0)
}

func (m *Call) fields(w *walk) {
	w.uint("id", &m.ID, required, 1)
	w.uint("turn", &m.Turn, required, 0)
	w.text("name", &m.Name, required, MaxBriefBytes)
	w.bytes("args", &m.Args, required, MaxFrameBytes)
	w.uint("mark", &m.Mark, optional, 0)
}

func (m *CallCancel) fields(w *walk) {
	w.uint("id", &m.ID, required, 1)
}

func (m *SessionEnd) fields(w *walk) {
	enum(w, "reason", &m.Reason, EndShutdown, EndExit, EndCrash, EndProtocolError)
	w.intOrNil("code", &m.Code)
	w.text("message", &m.Message, optional, MaxTextBytes)
	w.uint("mark", &m.Mark, optional, 0)
}
