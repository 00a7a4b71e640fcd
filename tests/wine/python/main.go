//go:build windows

// Command python unpacks a Windows CPython for tests:
//
//	python C:\turnstone\python
//
// It is a separate module, so that nothing else needs the 120 MB that it is unpacked from.
package main

import (
	"fmt"
	"os"

	"github.com/kluctl/go-embed-python/python"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Println("usage: python DIRECTORY")
		os.Exit(2)
	}
	unpacked, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	path, err := unpacked.GetExePath()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(path)
}
