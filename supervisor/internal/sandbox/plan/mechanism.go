package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A Mechanism is the way in which a worker is confined: a constant of package workers, or "" for
// namespaces.
type Mechanism = sandbox.Mechanism

// ForMechanism turns a plan for namespaces into one for a mechanism that the user accepts. The
// notices say what that mechanism does not enforce.
func (p *Plan) ForMechanism(by sandbox.Mechanism, s *sandbox.Policy) (notices []string, err error) {
	if by != "" && p.Disk > 0 {
		return nil, fmt.Errorf("a disk limit needs namespaces, and this sandbox uses %s; remove the limit", by)
	}
	for _, m := range p.Mounts {
		if m.Kind == mountlist.OverlayMount {
			notices = append(notices, fmt.Sprintf("caches and libraries such as %s are read-only for this session", m.Path))
			break
		}
	}
	if by != sandbox.Landlock {
		return nil, nil
	}
	missing, err := p.convertToLandlock(s)
	return append(missing, notices...), err
}

// IsUnsupported reports whether a failed step shows that this system does not let programs confine
// themselves with namespaces. Other failures come from the plan and would recur.
func IsUnsupported(step string, err error) bool {
	step, ours := strings.CutPrefix(step, "sandbox: ")
	return ours && (isSystemStep(step) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM))
}

// isSystemStep reports whether a step can fail only because of the system.
func isSystemStep(step string) bool {
	return slices.Contains([]string{"user namespace", "namespaces", "read-only", "proc", "network", "rights", "filter"}, step)
}
