//go:build !linux

package daemon

import (
	"errors"
	"sync"
)

// A fileWatch would learn from the system when files are removed. Here the daemon looks now and
// then.
type fileWatch struct{ changed chan struct{} }

func newFileWatch(*sync.WaitGroup) (*fileWatch, error) { return nil, errors.ErrUnsupported }

func (*fileWatch) watchFiles([]string) error { return nil }

func (*fileWatch) close() {}
