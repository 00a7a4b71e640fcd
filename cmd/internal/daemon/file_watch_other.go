//go:build !linux

package daemon

import (
	"errors"
	"sync"
)

// A fileWatch does nothing here: the daemon checks its files at intervals instead.
type fileWatch struct{ changed chan struct{} }

func newFileWatch(*sync.WaitGroup) (*fileWatch, error) { return nil, errors.ErrUnsupported }

func (*fileWatch) watchFiles([]string) error { return nil }

func (*fileWatch) close() {}
