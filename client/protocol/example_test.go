package protocol_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/turnstone-repl/turnstone/client/protocol"
)

// A message of the daemon is JSON-RPC with params of this package.
func ExampleStartParams() {
	params, err := json.Marshal(protocol.StartParams{Session: "main", Input: "6 * 7", WaitMS: 1000})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(protocol.MethodStart, string(params))
	// Output: turn/start {"session":"main","input":"6 * 7","wait_ms":1000}
}
