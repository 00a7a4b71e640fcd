package ipc

// Each visitFields method lists the fields of a message with their bounds, in the order in
// which they are written. Decoding and encoding both use the list. schema.json has the same
// contents; a test compares the two.

func (s *TurnStart) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &s.Turn, required, 1)
	w.visitBytes("input", &s.Input, required, MaxFrameBytes)
	w.visitBool("silent", &s.Silent, optional)
	w.visitBool("no_exit", &s.NoExit, optional)
	visitOptionalEnum(w, "dialect", &s.Dialect, DialectNotebook)
}

func (i *TurnInput) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &i.Turn, required, 0)
	w.visitUint("wait", &i.Wait, required, 1)
	w.visitBytes("input", &i.Input, required, MaxFrameBytes)
	w.visitBool("eof", &i.EOF, required)
}

func (i *Interrupt) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &i.Turn, required, 0)
	w.visitUint("seq", &i.Seq, required, 1)
	w.visitLevel("level", &i.Level)
}

func (q *Query) visitFields(w *fieldVisitor) {
	w.visitUint("id", &q.ID, required, 0)
	visitEnum(w, "kind", &q.Kind, QueryComplete, QueryParse, QueryVariables, QueryInspect, QueryTable)
	w.visitText("text", &q.Text, required, MaxFrameBytes)
	w.visitUint("cursor", &q.Cursor, required, 0)
	visitOptionalEnum(w, "dialect", &q.Dialect, DialectNotebook)
}

func (s *Shutdown) visitFields(w *fieldVisitor) {
	w.visitUint("grace_ms", &s.GraceMS, required, 0)
}

func (f *Functions) visitFields(w *fieldVisitor) {
	w.visitUint("revision", &f.Revision, required, 1)
	w.visitBytes("list", &f.List, required, MaxFrameBytes)
}

func (r *CallResult) visitFields(w *fieldVisitor) {
	w.visitUint("id", &r.ID, required, 1)
	w.visitBytes("value", &r.Value, required, MaxFrameBytes)
	w.visitBool("more", &r.More, required)
	w.visitBool("failed", &r.Failed, required)
}

func (r *WorkerReady) visitFields(w *fieldVisitor) {
	w.visitObject("protocol", &r.Protocol)
	w.visitObject("worker", &r.Worker)
	w.visitObject("capabilities", &r.Capabilities)
}

func (p *Protocol) visitFields(w *fieldVisitor) {
	w.visitText("name", &p.Name, required, MaxTextBytes)
	w.visitUint("version", &p.Version, required, 0)
}

func (worker *Worker) visitFields(w *fieldVisitor) {
	w.visitText("name", &worker.Name, required, MaxTextBytes)
	w.visitText("version", &worker.Version, required, MaxTextBytes)
	w.visitText("language", &worker.Language, required, MaxTextBytes)
	w.visitText("runtime_version", &worker.RuntimeVersion, required, MaxTextBytes)
	w.visitText("executable", &worker.Executable, required, MaxTextBytes)
	w.visitUint("pid", &worker.PID, required, 0)
}

func (c *Capabilities) visitFields(w *fieldVisitor) {
	w.visitBool("images", &c.Images, required)
	w.visitBool("display", &c.Display, optional)
	w.visitBool("fence", &c.Fence, required)
	w.visitBool("query", &c.Query, required)
	w.visitBool("variables", &c.Variables, optional)
	w.visitBool("functions", &c.Functions, optional)
	w.visitBool("tables", &c.Tables, optional)
	visitEnum(w, "interrupt", &c.Interrupt, InterruptBySignal, InterruptBySelf)
}

func (o *Output) visitFields(w *fieldVisitor) {
	visitEnum(w, "stream", &o.Stream, Stdout, Stderr)
	w.visitBytes("data", &o.Data, required, MaxOutputBytes)
	visitOptionalEnum(w, "kind", &o.Kind, TextResult, TextTraceback)
	w.visitBool("begins", &o.Begins, optional)
	w.visitUint("mark", &o.Mark, optional, 0)
}

func (i *Image) visitFields(w *fieldVisitor) {
	w.visitText("mime", &i.MIME, required, MaxTextBytes)
	w.visitBytes("data", &i.Data, required, MaxFrameBytes)
	w.visitText("source", &i.Source, optional, MaxTextBytes)
	w.visitBool("update", &i.Update, required)
	w.visitText("title", &i.Title, optional, MaxTextBytes)
	w.visitUint("mark", &i.Mark, optional, 0)
}

func (d *Display) visitFields(w *fieldVisitor) {
	w.visitBundle("data", &d.Data, required)
	w.visitBytes("meta", &d.Meta, optional, MaxMetaBytes)
	w.visitText("id", &d.ID, optional, MaxTextBytes)
	w.visitBool("update", &d.Update, required)
	visitEnum(w, "kind", &d.Kind, DisplayShown, DisplayResult)
	w.visitText("title", &d.Title, optional, MaxTextBytes)
	w.visitUint("mark", &d.Mark, optional, 0)
}

func (c *Clear) visitFields(w *fieldVisitor) {
	w.visitBool("wait", &c.Wait, required)
	w.visitUint("mark", &c.Mark, optional, 0)
}

func (l *InputLine) visitFields(w *fieldVisitor) {
	text := required
	if l.Secret {
		text = forbidden
	}
	w.visitUint("turn", &l.Turn, required, 0)
	w.visitText("prompt", &l.Prompt, required, MaxTextBytes)
	w.visitText("text", &l.Text, text, MaxFrameBytes)
	w.visitBool("secret", &l.Secret, required)
	w.visitUint("line", &l.Line, optional, 0)
	w.visitUint("mark", &l.Mark, optional, 0)
}

func (s *StdinWait) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &s.Turn, required, 0)
	w.visitUint("wait", &s.Wait, required, 1)
	w.visitText("prompt", &s.Prompt, required, MaxTextBytes)
	visitEnum(w, "kind", &s.Kind, WaitLine, WaitSecret, WaitContinue, WaitDebugger)
	visitEnum(w, "want", &s.Want, WantLine, WantAll)
	w.visitUint("mark", &s.Mark, optional, 0)
}

func (i *Idle) visitFields(w *fieldVisitor) {
	failure := optional // presence of the fields of a failed turn
	if i.Outcome == OutcomeOK {
		failure = forbidden
	}
	w.visitUint("turn", &i.Turn, required, 0)
	w.visitText("prompt", &i.Prompt, required, MaxTextBytes)
	w.visitText("continuation", &i.Continuation, optional, MaxTextBytes)
	visitEnum(w, "outcome", &i.Outcome, OutcomeOK, OutcomeError, OutcomeInterrupted)
	visitOptionalObject(w, "error", &i.Error, failure)
	w.visitUint("unrun", &i.Unrun, failure, 0)
	w.visitUint("mark", &i.Mark, optional, 0)
}

func (e *RuntimeError) visitFields(w *fieldVisitor) {
	w.visitText("name", &e.Name, required, MaxTextBytes)
	w.visitText("message", &e.Message, required, MaxTextBytes)
}

func (a *InterruptAck) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &a.Turn, required, 0)
	w.visitUint("seq", &a.Seq, required, 1)
	visitEnum(w, "result", &a.Result, InterruptRaised, InterruptPending, InterruptStale)
}

func (s *Sigint) visitFields(w *fieldVisitor) {
	visitEnum(w, "owner", &s.Owner, SigintOurs, SigintUser, SigintIgnored)
}

func (p *Progress) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &p.Turn, required, 0)
	w.visitNumber("progress", &p.Progress)
	w.visitOptionalNumber("total", &p.Total)
	w.visitText("message", &p.Message, optional, MaxTextBytes)
}

func (r *QueryResult) visitFields(w *fieldVisitor) {
	w.visitUint("id", &r.ID, required, 0)
	visitEnum(w, "status", &r.Status, StatusOK, StatusComplete, StatusIncomplete, StatusInvalid, StatusTimeout)
	w.visitUint("start", &r.Start, optional, 0)
	w.visitTexts("matches", &r.Matches, MaxMatches, MaxTextBytes)
	visitObjects(w, "variables", &r.Variables, MaxVariables)
	w.visitUint("more", &r.More, optional, 0)
	w.visitBundle("data", &r.Data, optional)
}

func (v *Variable) visitFields(w *fieldVisitor) {
	w.visitText("name", &v.Name, required, MaxBriefBytes)
	w.visitText("type", &v.Type, required, MaxBriefBytes)
	w.visitText("shape", &v.Shape, optional, MaxBriefBytes)
	w.visitUint("bytes", &v.Bytes, optional, 0)
}

func (c *Call) visitFields(w *fieldVisitor) {
	w.visitUint("id", &c.ID, required, 1)
	w.visitUint("turn", &c.Turn, required, 0)
	w.visitText("name", &c.Name, required, MaxBriefBytes)
	w.visitBytes("args", &c.Args, required, MaxFrameBytes)
	w.visitUint("mark", &c.Mark, optional, 0)
}

func (c *CallCancel) visitFields(w *fieldVisitor) {
	w.visitUint("id", &c.ID, required, 1)
}

func (e *SessionEnd) visitFields(w *fieldVisitor) {
	visitEnum(w, "reason", &e.Reason, EndShutdown, EndExit, EndCrash, EndProtocolError)
	w.visitOptionalInt("code", &e.Code)
	w.visitText("message", &e.Message, optional, MaxTextBytes)
	w.visitUint("mark", &e.Mark, optional, 0)
}
