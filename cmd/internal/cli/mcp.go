package cli

import (
	"os"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// mcp serves agents on standard input and output.
func mcp(s streams, args []string) (int, error) {
	f := newFlags("mcp")
	var c choice
	c.define(f)
	sessionDir := f.String("session-dir", "", "")
	if err := parse(f, args); err != nil {
		return statusUsage, err
	}
	if err := nothingAfter(f); err != nil {
		return statusUsage, err
	}
	offered := languages()
	if c.lang != "" {
		l, err := languageNamed(c.lang)
		if err != nil {
			return statusUsage, err
		}
		offered = []language{l}
	}
	if err := c.settleDir(); err != nil {
		return statusUsage, err
	}
	specs := make(map[string]func() workers.Spec)
	for _, l := range offered {
		if c.python != "" { // a search has time until a session is opened
			if _, err := c.specOf(l); err != nil {
				return statusUsage, err
			}
		}
		specs[l.name] = func() workers.Spec { return l.spec(c.python, c.dir) }
	}
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	sup, err := supervisor.New(&supervisor.Options{Dir: *sessionDir})
	if err != nil {
		return statusFailed, err
	}
	defer sup.Close()
	err = mcpserver.Run(ctx, &mcpserver.Options{
		Supervisor: sup,
		Specs:      specs,
		Default:    c.lang,
		In:         s.in,
		Out:        s.out,
		Version:    programVersion(),
	})
	if status, ok := statusOf(ctx); ok {
		return status, nil
	}
	return statusDone, err
}
