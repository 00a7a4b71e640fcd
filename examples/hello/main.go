// Command hello runs one line of Python and prints its value.
//
//	go run ./examples/hello
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func main() {
	supervisor.MonitorMain() // first: in a worker's parent process it never returns
	if err := sayHello(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func sayHello(ctx context.Context, w io.Writer) error {
	sup, err := supervisor.New(nil)
	if err != nil {
		return err
	}
	defer sup.Close()
	s, err := sup.Open(ctx, "main", python.Spec(python.Options{}))
	if err != nil {
		return err
	}
	result, err := session.Run(ctx, s, "6 * 7", nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, result.Value)
	return err
}
