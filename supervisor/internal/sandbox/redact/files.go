package redact

import (
	"encoding/json"
	"fmt"

	"github.com/turnstone-repl/turnstone/workers"
)

// DropIfLogin returns the text, or nil if it contains a login. It is for formats from which no line
// can be removed.
func DropIfLogin(text []byte) []byte {
	if len(workers.LoginVariables([]string{"=" + string(text)})) > 0 {
		return nil
	}
	return text
}

// CondaState removes the variables that hold secrets from the state file of a conda environment.
func CondaState(text []byte) []byte {
	state := map[string]any{}
	if json.Unmarshal(text, &state) != nil {
		return nil
	}
	variables, _ := state["env_vars"].(map[string]any)
	whole := true
	for name, value := range variables {
		entry := fmt.Sprint(name, "=", value)
		if hasSecret(entry) || string(withoutAnyLogin([]byte(entry))) != entry {
			delete(variables, name)
			whole = false
		}
	}
	if whole {
		return text
	}
	plain, err := json.Marshal(state)
	if err != nil {
		return nil
	}
	return plain
}
