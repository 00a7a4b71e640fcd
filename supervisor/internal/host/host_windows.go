package host

import "errors"

func start(c *Command) (*Process, error) {
	return nil, &StartError{Step: "system", Path: c.Path, Err: errors.New("workers on Windows are not supported yet")}
}

func isStage() bool { return false }

func runStage() {}

// TryWrite is never reached: Start does not succeed here.
func (c *Channel) TryWrite(b []byte) (int, error) { return 0, errors.ErrUnsupported }
