package remote

import (
	"fmt"
	"time"
)

// A corrupted connection is replaced by a new one, but at most maxCorruptions times in
// corruptionWindow.
const (
	maxCorruptions   = 3
	corruptionWindow = time.Minute
)

// A corruption records a line of other output that arrived inside a message of a connection.
type corruption struct {
	at   time.Time
	line string
}

// recordCorruption records that a connection was corrupted.
func (c *CommandDialer) recordCorruption(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corruptions = append(c.corruptions, corruption{time.Now(), line})
	c.corruptions = c.corruptions[max(0, len(c.corruptions)-maxCorruptions):]
}

// checkCorruptions returns an error if other programs print into the connection again and
// again.
func (c *CommandDialer) checkCorruptions(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.corruptions) < maxCorruptions || now.Sub(c.corruptions[0].at) > corruptionWindow {
		return nil
	}
	return fmt.Errorf("%d times within a minute another program printed into the connection, most recently %s; the start-up files of the remote account must print nothing",
		maxCorruptions, plainText(c.corruptions[maxCorruptions-1].line))
}
