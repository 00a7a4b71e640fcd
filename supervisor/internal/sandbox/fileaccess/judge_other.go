//go:build !linux

package fileaccess

import (
	"errors"
	"os"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A Judge decides about names for one session with a sandbox. This system has no sandbox, so there
// are no judges.
type Judge struct{}

var errNoSandbox = errors.New("this system has no sandbox")

// New returns an error.
func New(*plan.Plan) (*Judge, error) { return nil, errNoSandbox }

// Close does nothing.
func (*Judge) Close() {}

// CheckRead refuses everything.
func (*Judge) CheckRead(*os.File) error { return errNoSandbox }

// CheckCreate refuses everything.
func (*Judge) CheckCreate(*os.File, string) error { return errNoSandbox }

// CheckCreated refuses everything.
func (*Judge) CheckCreated(*os.File, string) error { return errNoSandbox }

// CheckRemove refuses everything.
func (*Judge) CheckRemove(*os.File, string) error { return errNoSandbox }
