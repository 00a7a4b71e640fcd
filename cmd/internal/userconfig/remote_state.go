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

// RemoteState is what the program itself knows of a place, a file of its state directory.
type RemoteState struct {
	Job     string    `json:"job,omitempty"`     // what start printed
	Started time.Time `json:"started,omitzero"`  // when start printed it
	Program string    `json:"program,omitempty"` // where the program was installed there
	Dir     string    `json:"dir,omitempty"`     // that a person has named for it
}

// remoteStatePath is the file for a place in the state directory.
func remoteStatePath(state, place string) string {
	return filepath.Join(state, "remotes", place+".json")
}

// ReadRemoteState reads what is known of a place; nothing where there is no state directory.
func ReadRemoteState(state, place string) (r RemoteState, err error) {
	if state == "" {
		return r, nil
	}
	text, err := os.ReadFile(remoteStatePath(state, place))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", remoteStatePath(state, place), err)
	}
	return r, err
}

// WriteRemoteState writes what is known of a place, in place of what was. The file is whole at any time.
func WriteRemoteState(state, place string, r RemoteState) error {
	if state == "" {
		return errors.New("there is no home directory to keep it in")
	}
	file := remoteStatePath(state, place)
	if err := securefile.MakeDir(filepath.Dir(file)); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := securefile.CreateTemp(filepath.Dir(file), "remote-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// RemoveRemoteState removes what is known of a place, and reports whether anything was.
func RemoveRemoteState(state, place string) (bool, error) {
	if state == "" {
		return false, nil
	}
	err := os.Remove(remoteStatePath(state, place))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
