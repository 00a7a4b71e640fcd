package confine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/workers"
)

// A Mechanism is one of workers, or "" for namespaces.
type Mechanism = workers.SandboxMechanism

// ForMechanism turns a plan for namespaces into one for a mechanism that the user accepts. The notices
// say what that does not hold.
func (p *Plan) ForMechanism(by workers.SandboxMechanism, s *workers.Sandbox) (notices []string, err error) {
	if by != "" && p.Disk > 0 {
		return nil, fmt.Errorf("a limit of disk needs namespaces, and this sandbox is held by %s: leave the limit out", by)
	}
	for _, place := range p.Mounts {
		if place.Kind == overlayMount {
			notices = append(notices, fmt.Sprintf("caches and libraries such as %s are read-only for this session", place.Path))
			break
		}
	}
	if by != workers.Landlock {
		return nil, nil
	}
	lacks, err := p.convertToLandlock(s)
	return append(lacks, notices...), err
}

// IsUnsupported reports whether a failed step shows that this system does not let programs confine
// themselves by namespaces. Other failures come from the plan, and would come again.
func IsUnsupported(step string, err error) bool {
	step, ours := strings.CutPrefix(step, "sandbox: ")
	return ours && (isSystemStep(step) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM))
}

// isSystemStep reports whether only the system can fail this step.
func isSystemStep(step string) bool {
	return slices.Contains([]string{"user namespace", "namespaces", "read-only", "proc", "network", "rights", "filter"}, step)
}
