package confine

// Grant gives the session a directory. It calls answer when the session has it, or with the
// error, a *StepError.
func (b *Box) Grant(g *Grant, answer func(error)) {
	answer(&StepError{Step: "grant", Path: string(g.Dir)})
}
