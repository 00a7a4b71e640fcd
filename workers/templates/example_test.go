package templates_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers/templates"
)

// Write begins a worker for another language, and says how to go on.
func ExampleWrite() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fmt.Println(templates.Names())
	if _, err := templates.Write("c", filepath.Join(dir, "worker")); err != nil {
		log.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "worker"))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		fmt.Println(f.Name())
	}
	// Output:
	// [c node python sqlite]
	// dialect.json
	// worker.c
}
