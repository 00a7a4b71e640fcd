package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/private"
)

// Remembered is what the program itself knows of a place, a file of its state directory.
type Remembered struct {
	Job     string    `json:"job,omitempty"`     // what start printed
	Begun   time.Time `json:"begun,omitzero"`    // when start printed it
	Program string    `json:"program,omitempty"` // where the program was installed there
	Dir     string    `json:"dir,omitempty"`     // that a person has named for it
}

// rememberedFile is the file for a place in the state directory.
func rememberedFile(state, place string) string {
	return filepath.Join(state, "places", place+".json")
}

// Recall reads what is known of a place; nothing where there is no state directory.
func Recall(state, place string) (r Remembered, err error) {
	if state == "" {
		return r, nil
	}
	text, err := os.ReadFile(rememberedFile(state, place))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", rememberedFile(state, place), err)
	}
	return r, err
}

// Remember writes what is known of a place, in place of what was. The file is whole at any time.
func Remember(state, place string, r Remembered) error {
	if state == "" {
		return errors.New("there is no home directory to keep it in")
	}
	file := rememberedFile(state, place)
	if err := private.MakeDir(filepath.Dir(file)); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := private.CreateTemp(filepath.Dir(file), "place-")
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

// Forget removes what is known of a place, and reports whether anything was.
func Forget(state, place string) (bool, error) {
	if state == "" {
		return false, nil
	}
	err := os.Remove(rememberedFile(state, place))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
