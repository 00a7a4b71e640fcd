package userconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/internal/securefile"
)

// RemoteState holds what the program has recorded about a remote, in a file of its state directory.
type RemoteState struct {
	Job     string    `json:"job,omitempty"`     // the output of start
	Started time.Time `json:"started,omitzero"`  // when start printed it
	Program string    `json:"program,omitempty"` // where the program was installed there
	Dir     string    `json:"dir,omitempty"`     // chosen by the user for the program
}

// remoteStatePath returns the file of a remote in the state directory.
func remoteStatePath(state, remote string) string {
	return filepath.Join(state, "remotes", remote+".json")
}

// ReadRemoteState reads the state of a remote, which is empty without a state directory.
func ReadRemoteState(state, remote string) (r RemoteState, err error) {
	if state == "" {
		return r, nil
	}
	text, err := os.ReadFile(remoteStatePath(state, remote))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", remoteStatePath(state, remote), err)
	}
	return r, err
}

// WriteRemoteState replaces the state of a remote atomically.
func WriteRemoteState(state, remote string, r RemoteState) error {
	if state == "" {
		return errors.New("no home directory to store it in")
	}
	file := remoteStatePath(state, remote)
	if err := securefile.MakeDir(filepath.Dir(file)); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return securefile.Write(file, append(text, '\n'))
}

// RemoveRemoteState removes the state of a remote, and reports whether it existed.
func RemoveRemoteState(state, remote string) (bool, error) {
	if state == "" {
		return false, nil
	}
	err := os.Remove(remoteStatePath(state, remote))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
