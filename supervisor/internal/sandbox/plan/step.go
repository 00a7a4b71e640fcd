package plan

// A StepError reports the step at which a sandbox could not be set up, with its path and cause.
type StepError struct {
	Step string // "namespaces", "clone", "read-only", "mount", …
	Path string // the path of the step; may be ""
	Err  error
}

// Error names the step, with its path and cause.
func (e *StepError) Error() string {
	s := "sandbox: " + e.Step
	if e.Path != "" {
		s += " " + e.Path
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }
