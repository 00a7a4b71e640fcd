package osservice

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// LingerState reports whether a user's programs may outlive the last logout, according to systemd's
// loginctl. known is false if that cannot be determined.
func LingerState(ctx context.Context, uid string) (on, known bool) {
	ctx, cancel := context.WithTimeout(ctx, lingerTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, "loginctl", "show-user", uid, "--property=Linger", "--value").Output()
	word := strings.TrimSpace(string(output))
	return word == "yes", err == nil && (word == "yes" || word == "no")
}

// lingerTimeout bounds a call of loginctl.
const lingerTimeout = 5 * time.Second

// NoLingerHint says what happens to sessions without lingering.
const NoLingerHint = "systemd ends your services, including repl serve, at your last logout; loginctl enable-linger keeps them running"
