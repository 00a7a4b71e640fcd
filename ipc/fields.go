package ipc

// Each visitFields method lists the fields of a message with their bounds, in the order in
// which they are written. Decoding and encoding both use the list. schema.json has the same
// contents; a test compares the two.

func (m *TurnStart) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &m.Turn, required, 1)
	w.visitBytes("input", &m.Input, required, MaxFrameBytes)
	w.visitBool("silent", &m.Silent, optional)
	w.visitBool("no_exit", &m.NoExit, optional)
}

func (m *TurnInput) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitUint("wait", &m.Wait, required, 1)
	w.visitBytes("input", &m.Input, required, MaxFrameBytes)
	w.visitBool("eof", &m.EOF, required)
}

func (m *Interrupt) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitUint("seq", &m.Seq, required, 1)
	w.visitLevel("level", &m.Level)
}

func (m *Query) visitFields(w *fieldVisitor) {
	w.visitUint("id", &m.ID, required, 0)
	visitEnum(w, "kind", &m.Kind, QueryComplete, QueryParse, QueryVariables, QueryInspect)
	w.visitText("text", &m.Text, required, MaxFrameBytes)
	w.visitUint("cursor", &m.Cursor, required, 0)
}

func (m *Shutdown) visitFields(w *fieldVisitor) {
	w.visitUint("grace_ms", &m.GraceMS, required, 0)
}

func (m *Functions) visitFields(w *fieldVisitor) {
	w.visitUint("revision", &m.Revision, required, 1)
	w.visitBytes("list", &m.List, required, MaxFrameBytes)
}

func (m *CallResult) visitFields(w *fieldVisitor) {
	w.visitUint("id", &m.ID, required, 1)
	w.visitBytes("value", &m.Value, required, MaxFrameBytes)
	w.visitBool("more", &m.More, required)
	w.visitBool("failed", &m.Failed, required)
}

func (m *WorkerReady) visitFields(w *fieldVisitor) {
	w.visitObject("protocol", &m.Protocol)
	w.visitObject("worker", &m.Worker)
	w.visitObject("capabilities", &m.Capabilities)
}

func (p *Protocol) visitFields(w *fieldVisitor) {
	w.visitText("name", &p.Name, required, MaxTextBytes)
	w.visitUint("version", &p.Version, required, 0)
}

func (k *Worker) visitFields(w *fieldVisitor) {
	w.visitText("name", &k.Name, required, MaxTextBytes)
	w.visitText("version", &k.Version, required, MaxTextBytes)
	w.visitText("language", &k.Language, required, MaxTextBytes)
	w.visitText("runtime_version", &k.RuntimeVersion, required, MaxTextBytes)
	w.visitText("executable", &k.Executable, required, MaxTextBytes)
	w.visitUint("pid", &k.PID, required, 0)
}

func (c *Capabilities) visitFields(w *fieldVisitor) {
	w.visitBool("images", &c.Images, required)
	w.visitBool("display", &c.Display, optional)
	w.visitBool("fence", &c.Fence, required)
	w.visitBool("query", &c.Query, required)
	w.visitBool("variables", &c.Variables, optional)
	w.visitBool("functions", &c.Functions, optional)
	visitEnum(w, "interrupt", &c.Interrupt, InterruptBySignal, InterruptBySelf)
}

func (m *Output) visitFields(w *fieldVisitor) {
	visitEnum(w, "stream", &m.Stream, Stdout, Stderr)
	w.visitBytes("data", &m.Data, required, MaxOutputBytes)
	visitOptionalEnum(w, "kind", &m.Kind, TextResult, TextTraceback)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *Image) visitFields(w *fieldVisitor) {
	w.visitText("mime", &m.MIME, required, MaxTextBytes)
	w.visitBytes("data", &m.Data, required, MaxFrameBytes)
	w.visitText("source", &m.Source, optional, MaxTextBytes)
	w.visitBool("update", &m.Update, required)
	w.visitText("title", &m.Title, optional, MaxTextBytes)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *Display) visitFields(w *fieldVisitor) {
	w.visitBundle("data", &m.Data, required)
	w.visitBytes("meta", &m.Meta, optional, MaxMetaBytes)
	w.visitText("id", &m.ID, optional, MaxTextBytes)
	w.visitBool("update", &m.Update, required)
	visitEnum(w, "kind", &m.Kind, DisplayShown, DisplayResult)
	w.visitText("title", &m.Title, optional, MaxTextBytes)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *Clear) visitFields(w *fieldVisitor) {
	w.visitBool("wait", &m.Wait, required)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *InputLine) visitFields(w *fieldVisitor) {
	text := required
	if m.Secret {
		text = forbidden
	}
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitText("prompt", &m.Prompt, required, MaxTextBytes)
	w.visitText("text", &m.Text, text, MaxFrameBytes)
	w.visitBool("secret", &m.Secret, required)
	w.visitUint("line", &m.Line, optional, 0)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *StdinWait) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitUint("wait", &m.Wait, required, 1)
	w.visitText("prompt", &m.Prompt, required, MaxTextBytes)
	visitEnum(w, "kind", &m.Kind, WaitLine, WaitSecret, WaitContinue, WaitDebugger)
	visitEnum(w, "want", &m.Want, WantLine, WantAll)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *Idle) visitFields(w *fieldVisitor) {
	failure := optional // presence of the fields of a failed turn
	if m.Outcome == OutcomeOK {
		failure = forbidden
	}
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitText("prompt", &m.Prompt, required, MaxTextBytes)
	w.visitText("continuation", &m.Continuation, optional, MaxTextBytes)
	visitEnum(w, "outcome", &m.Outcome, OutcomeOK, OutcomeError, OutcomeInterrupted)
	visitOptionalObject(w, "error", &m.Error, failure)
	w.visitUint("unrun", &m.Unrun, failure, 0)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (e *RuntimeError) visitFields(w *fieldVisitor) {
	w.visitText("name", &e.Name, required, MaxTextBytes)
	w.visitText("message", &e.Message, required, MaxTextBytes)
}

func (m *InterruptAck) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitUint("seq", &m.Seq, required, 1)
	visitEnum(w, "result", &m.Result, InterruptRaised, InterruptPending, InterruptStale)
}

func (m *Sigint) visitFields(w *fieldVisitor) {
	visitEnum(w, "owner", &m.Owner, SigintOurs, SigintUser, SigintIgnored)
}

func (m *Progress) visitFields(w *fieldVisitor) {
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitNumber("progress", &m.Progress)
	w.visitOptionalNumber("total", &m.Total)
	w.visitText("message", &m.Message, optional, MaxTextBytes)
}

func (m *QueryResult) visitFields(w *fieldVisitor) {
	w.visitUint("id", &m.ID, required, 0)
	visitEnum(w, "status", &m.Status, StatusOK, StatusComplete, StatusIncomplete, StatusInvalid, StatusTimeout)
	w.visitUint("start", &m.Start, optional, 0)
	w.visitTexts("matches", &m.Matches, MaxMatches, MaxTextBytes)
	visitObjects(w, "variables", &m.Variables, MaxVariables)
	w.visitUint("more", &m.More, optional, 0)
	w.visitBundle("data", &m.Data, optional)
}

func (v *Variable) visitFields(w *fieldVisitor) {
	w.visitText("name", &v.Name, required, MaxBriefBytes)
	w.visitText("type", &v.Type, required, MaxBriefBytes)
	w.visitText("shape", &v.Shape, optional, MaxBriefBytes)
	w.visitUint("bytes", &v.Bytes, optional, 0)
}

func (m *Call) visitFields(w *fieldVisitor) {
	w.visitUint("id", &m.ID, required, 1)
	w.visitUint("turn", &m.Turn, required, 0)
	w.visitText("name", &m.Name, required, MaxBriefBytes)
	w.visitBytes("args", &m.Args, required, MaxFrameBytes)
	w.visitUint("mark", &m.Mark, optional, 0)
}

func (m *CallCancel) visitFields(w *fieldVisitor) {
	w.visitUint("id", &m.ID, required, 1)
}

func (m *SessionEnd) visitFields(w *fieldVisitor) {
	visitEnum(w, "reason", &m.Reason, EndShutdown, EndExit, EndCrash, EndProtocolError)
	w.visitOptionalInt("code", &m.Code)
	w.visitText("message", &m.Message, optional, MaxTextBytes)
	w.visitUint("mark", &m.Mark, optional, 0)
}
